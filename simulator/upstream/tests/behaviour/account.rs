//! Accounts, against numbers calculated by hand: each model, several units, limits that never refill, steps
//! back of the clock, calls in flight, and the largest values.

use crate::script::{
    HOUR, MS, SECOND,
    Verdict::{self, Admitted, Never, WaitNs},
    account, check, cost, step,
};
use rampmeter_upstream::Rejection;
use std::{num::NonZeroUsize, time::Duration};

/// A policy and the calls to it: milliseconds, cost, outcome, level.
type Calls<'a> = (&'a str, &'a [(u64, &'static str, Verdict, &'static [&'static str])]);

#[test]
fn each_model_admits_what_it_should_and_states_the_wait_to_the_nanosecond() {
    let wait = |ms: u64| WaitNs(ms * MS);
    #[rustfmt::skip]
    let table: [Calls<'_>; 10] = [
        ("requests=5/1s",                       &[(0, "requests=5", Admitted, &["0"]), (100, "", wait(100), &["0.5"]), (200, "", Admitted, &["0"]), (9_000, "requests=6", Never, &["5"])]),
        ("requests=10/1s;burst=4;start=1",      &[(0, "requests=2", wait(100), &["1"]), (100, "requests=2", Admitted, &["0"]), (9_000, "requests=5", Never, &["4"])]),
        ("requests=10/1s;tick=500ms;start=0",   &[(499, "", wait(1), &["0"]), (500, "", Admitted, &["4"]), (999, "requests=5", wait(1), &["4"]), (1_000, "requests=9", Admitted, &["0"])]),
        // The fraction of a token is lost at each arrival.
        ("requests=10/1s;whole;start=0",        &[(150, "", Admitted, &["0"]), (240, "", wait(100), &["0"]), (339, "", wait(100), &["0"]), (439, "", Admitted, &["0"])]),
        ("requests=3/1s;tick=500ms;whole;start=0", &[(500, "", Admitted, &["0"]), (1_000, "requests=2", wait(500), &["1"]), (1_500, "requests=2", Admitted, &["0"])]),
        ("requests=2/1s;fixed-window",          &[(900, "requests=2", Admitted, &["0"]), (950, "", wait(50), &["0"]), (1_000, "", Admitted, &["1"]), (1_000, "requests=3", Never, &["1"])]),
        ("requests=1/1s;phase=300ms",           &[(299, "", Admitted, &["0"]), (299, "", wait(1), &["0"]), (300, "", Admitted, &["0"])]),
        ("requests=1/1s;first-use",             &[(700, "", Admitted, &["0"]), (1_699, "", wait(1), &["0"]), (1_700, "", Admitted, &["0"])]),
        ("requests=2/1s;sliding-window",        &[(0, "", Admitted, &["1"]), (600, "", Admitted, &["0"]), (900, "", wait(100), &["0"]), (900, "requests=2", wait(700), &["0"]), (1_000, "", Admitted, &["0"])]),
        // What is refused fills the bucket too.
        ("requests=2/1s;leaky-bucket",          &[(0, "requests=2", Admitted, &["0"]), (250, "", wait(500), &["0"]), (750, "", Admitted, &["0"]), (9_000, "requests=3", Never, &["0"])]),
    ];
    for (policy, calls) in table {
        let steps = calls.iter().map(|(ms, cost, verdict, levels)| step(ms * MS, cost, *verdict, levels));
        check(&[policy], &steps.collect::<Vec<_>>());
    }
    // The window of a clock is over before those calls leave the sliding window.
    check(
        &["requests=2/1s;fixed-window", "requests=2/1s;sliding-window"],
        &[
            step(900 * MS, "requests=2", Admitted, &["0", "0"]),
            step(950 * MS, "", wait(950), &["0", "0"]),
            step(1_000 * MS, "", wait(900), &["2", "0"]),
        ],
    );
}

#[test]
fn a_call_is_one_request_unless_it_states_otherwise() {
    check(
        &["requests=5/1s", "processing-units=5/1s"],
        &[
            step(0, "", Admitted, &["4", "5"]),
            step(0, "processing-units=3", Admitted, &["3", "2"]),
            step(0, "requests=0 processing-units=1", Admitted, &["3", "1"]),
            step(0, "requests=3", Admitted, &["0", "1"]),
            step(0, "requests=0 tokens=99", Admitted, &["0", "1"]),
        ],
    );
}

#[test]
fn calls_that_never_fit_differ_from_calls_that_wait() {
    check(
        &["requests=1/1s", "processing-units=2/PT0S"],
        &[
            step(0, "processing-units=2.000001", Never, &["1", "2"]),
            step(0, "requests=1.000001", Never, &["1", "2"]),
            step(0, "processing-units=1.5", Admitted, &["0", "0.5"]),
            step(0, "processing-units=0.5", WaitNs(SECOND), &["0", "0.5"]),
            step(0, "processing-units=0.6", Never, &["0", "0.5"]),
            step(HOUR, "processing-units=0.6", Never, &["1", "0.5"]),
            step(HOUR, "processing-units=0.5", Admitted, &["0", "0"]),
        ],
    );
}

#[test]
fn a_time_that_steps_back_counts_as_the_last_one() {
    check(
        &["requests=1/1s"],
        &[
            step(10 * SECOND, "", Admitted, &["0"]),
            step(9 * SECOND, "", WaitNs(SECOND), &["0"]),
            step(10 * SECOND + 500 * MS, "", WaitNs(500 * MS), &["0.5"]),
        ],
    );
}

/// Several calls arrive at one time, and some of them end in between.
#[test]
fn only_so_many_calls_are_in_flight() {
    enum Event {
        Call(&'static str, Result<(), Rejection>),
        End,
    }
    use Event::{Call, End};
    use Rejection::{Never, RetryAfter, TooManyInFlight};

    #[rustfmt::skip]
    let events = [
        Call("",                    Ok(())),
        Call("",                    Ok(())),
        // A call beyond the bound has no known wait, even if the policies would state one.
        Call("",                    Err(TooManyInFlight)),
        Call("requests=3",          Err(TooManyInFlight)),
        Call("requests=5",          Err(Never)),
        // A call that costs nothing is in flight as well.
        Call("requests=0",          Err(TooManyInFlight)),
        End,
        Call("requests=3",          Err(RetryAfter(Duration::from_secs(1)))),
        Call("requests=0",          Ok(())),
        Call("",                    Err(TooManyInFlight)),
        End,
        End,
        Call("requests=2",          Ok(())),
    ];
    let mut account = account(&["requests=4/4s"]).with_concurrency(NonZeroUsize::new(2).unwrap());
    for (number, event) in events.iter().enumerate() {
        match event {
            Call(taken, verdict) => assert_eq!(account.admit(Duration::ZERO, &cost(taken)), *verdict, "event {number}"),
            End => account.finish(),
        }
    }
    assert_eq!(account.in_flight(), 1);
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
