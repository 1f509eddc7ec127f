//! Every model against numbers calculated by hand.

use crate::script::{
    HOUR, MS, SECOND,
    Verdict::{Admitted, Never, WaitNs},
    check, step,
};

#[test]
fn a_burst_bounds_the_stock_and_not_the_rate() {
    check(
        &["requests=10/10s;burst=2"],
        &[
            step(0, "requests=2.000001", Never, &["2"]),
            step(0, "requests=2", Admitted, &["0"]),
            step(0, "", WaitNs(SECOND), &["0"]),
            step(SECOND - 1, "", WaitNs(1), &["0.999999"]),
            step(SECOND, "", Admitted, &["0"]),
            step(HOUR, "requests=0", Admitted, &["2"]),
        ],
    );
}

#[test]
fn a_bucket_starts_at_its_configured_level() {
    check(
        &["requests=10/10s;start=0", "requests=10/10s;burst=4;start=1.5", "requests=10/PT0S;start=4"],
        &[
            step(0, "", WaitNs(SECOND), &["0", "1.5", "4"]),
            step(SECOND, "", Admitted, &["0", "1.5", "3"]),
            step(SECOND, "requests=3", WaitNs(3 * SECOND), &["0", "1.5", "3"]),
            step(9 * SECOND, "requests=3", Admitted, &["5", "1", "0"]),
            step(9 * SECOND, "requests=0.000001", Never, &["5", "1", "0"]),
        ],
    );
}

#[test]
fn ticks_bring_all_at_once() {
    check(
        &["requests=10/10s;tick=2s;start=0"],
        &[
            step(0, "", WaitNs(2 * SECOND), &["0"]),
            step(2 * SECOND - 1, "", WaitNs(1), &["0"]),
            step(2 * SECOND, "", Admitted, &["1"]),
            // Three are missing: the second tick from here brings the last of them.
            step(3 * SECOND, "requests=4", WaitNs(3 * SECOND), &["1"]),
            step(6 * SECOND - 1, "requests=4", WaitNs(1), &["3"]),
            step(6 * SECOND, "requests=4", Admitted, &["1"]),
            step(5 * SECOND, "requests=2", WaitNs(2 * SECOND), &["1"]),
            step(HOUR, "requests=10", Admitted, &["0"]),
        ],
    );
}

#[test]
fn dropped_fractions_never_come_back() {
    check(
        &["requests=10/1s;whole;start=0"],
        &[
            step(190 * MS, "requests=0", Admitted, &["1"]),
            // A call that comes too early loses the fraction that has flowed in.
            step(280 * MS, "requests=2", WaitNs(100 * MS), &["1"]),
            step(370 * MS, "requests=2", WaitNs(100 * MS), &["1"]),
            step(470 * MS - 1, "requests=2", WaitNs(100 * MS), &["1"]),
            step(570 * MS - 1, "requests=2", Admitted, &["0"]),
            // A call that costs nothing loses the fraction, too.
            step(660 * MS, "requests=0 tokens=1", Admitted, &["0"]),
            step(750 * MS, "requests=2.5", WaitNs(300 * MS), &["0"]),
            step(1_050 * MS, "requests=2.5", Admitted, &["0.5"]),
            step(1_050 * MS, "", WaitNs(100 * MS), &["0.5"]),
            step(1_150 * MS, "", Admitted, &["0.5"]),
        ],
    );
}

#[test]
fn fixed_windows_begin_at_multiples_of_the_period() {
    check(
        &["requests=5/10s;fixed-window"],
        &[
            step(9 * SECOND, "requests=5", Admitted, &["0"]),
            step(9 * SECOND, "", WaitNs(SECOND), &["0"]),
            step(10 * SECOND - 1, "", WaitNs(1), &["0"]),
            step(10 * SECOND, "requests=5", Admitted, &["0"]),
            step(10 * SECOND, "requests=0", Admitted, &["0"]),
            step(10 * SECOND, "", WaitNs(10 * SECOND), &["0"]),
            step(10 * SECOND, "requests=5.000001", Never, &["0"]),
            // The rest of a window is lost at its end.
            step(55 * SECOND, "requests=2", Admitted, &["3"]),
            step(55 * SECOND, "requests=4", WaitNs(5 * SECOND), &["3"]),
            step(49 * SECOND, "requests=4", WaitNs(5 * SECOND), &["3"]),
            step(60 * SECOND, "requests=5", Admitted, &["0"]),
        ],
    );
}

#[test]
fn a_sliding_window_forgets_call_by_call() {
    check(
        &["requests=3/10s;sliding-window"],
        &[
            step(SECOND, "", Admitted, &["2"]),
            step(4 * SECOND, "requests=2", Admitted, &["0"]),
            step(5 * SECOND, "", WaitNs(6 * SECOND), &["0"]),
            step(5 * SECOND, "requests=2", WaitNs(9 * SECOND), &["0"]),
            step(4 * SECOND, "", WaitNs(6 * SECOND), &["0"]),
            step(11 * SECOND - 1, "", WaitNs(1), &["0"]),
            step(11 * SECOND, "", Admitted, &["0"]),
            step(11 * SECOND, "requests=3", WaitNs(10 * SECOND), &["0"]),
            step(14 * SECOND, "requests=3.000001", Never, &["2"]),
            step(14 * SECOND, "requests=0", Admitted, &["2"]),
            step(14 * SECOND, "requests=2", Admitted, &["0"]),
            step(HOUR, "requests=3", Admitted, &["0"]),
        ],
    );
}

#[test]
fn hammering_keeps_a_leaky_bucket_full() {
    check(
        &["requests=4/4s;leaky-bucket"],
        &[
            step(0, "requests=3", Admitted, &["1"]),
            step(SECOND, "requests=3", WaitNs(3 * SECOND), &["0"]),
            step(2 * SECOND, "requests=3", WaitNs(3 * SECOND), &["0"]),
            step(5 * SECOND - 1, "requests=3", WaitNs(3 * SECOND), &["0"]),
            step(8 * SECOND - 1, "requests=3", Admitted, &["0"]),
            // A call that could never fit fills the bucket too.
            step(11 * SECOND - 1, "requests=4.000001", Never, &["0"]),
            step(12 * SECOND - 1, "", Admitted, &["0"]),
            step(HOUR, "requests=0", Admitted, &["4"]),
        ],
    );
}

#[test]
fn the_largest_values_do_not_overflow() {
    const ALL: &str = "requests=18446744073709.551615";
    const LONGEST: u64 = 5_124_095 * HOUR;
    const REST: u64 = LONGEST - (u64::MAX - LONGEST);
    #[rustfmt::skip]
    let table = [
        ("tick=PT5124095H", REST),
        ("fixed-window",    REST),
        ("sliding-window",  REST),
        ("leaky-bucket",    LONGEST),
    ];
    for (model, last_wait_ns) in table {
        check(
            &[&format!("{ALL}/PT5124095H;{model}")],
            &[
                step(0, ALL, Admitted, &["0"]),
                step(LONGEST, ALL, Admitted, &["0"]),
                step(u64::MAX, ALL, WaitNs(last_wait_ns), &["0"]),
            ],
        );
    }
    check(
        &[&format!("{ALL}/PT18446744073.709551615S;whole;start=0")],
        // The last fraction of a unit would come after the end of time.
        &[step(0, "", WaitNs(MS), &["0"]), step(0, ALL, Never, &["0"])],
    );
}
