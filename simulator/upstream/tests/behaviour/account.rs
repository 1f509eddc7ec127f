//! The account against numbers calculated by hand.

use crate::script::{
    HOUR, MS, SECOND,
    Verdict::{Admitted, Never, WaitNs},
    account, check, cost, step,
};
use rampmeter_upstream::{Account, Amount, Cost, Rejection, Unit};
use std::{num::NonZeroUsize, time::Duration};

#[test]
fn the_worked_example_of_the_noisy_neighbour_notes() {
    check(
        &["requests=10/1s"],
        &[
            step(300 * MS, "requests=6", Admitted, &["4"]),
            step(500 * MS, "requests=5", Admitted, &["1"]),
            step(1_500 * MS, "requests=0", Admitted, &["10"]),
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
fn a_rejected_call_takes_nothing_and_says_when_all_policies_can_pay() {
    check(
        &["requests=10/10s", "processing-units=20/10s"],
        &[
            step(0, "processing-units=20", Admitted, &["9", "0"]),
            step(0, "processing-units=1", WaitNs(500 * MS), &["9", "0"]),
            step(0, "requests=9", Admitted, &["0", "0"]),
            // The requests need 2 s, the processing units 4 s: the longer wait counts.
            step(0, "requests=2 processing-units=8", WaitNs(4 * SECOND), &["0", "0"]),
            step(4 * SECOND - 1, "requests=2 processing-units=8", WaitNs(1), &["3.999999", "7.999999"]),
            step(4 * SECOND, "requests=2 processing-units=8", Admitted, &["2", "0"]),
        ],
    );
}

#[test]
fn fractions_are_exact() {
    check(
        // A token every third of a second, which no integer of nanoseconds can express.
        &["processing-units=3/1s"],
        &[
            step(0, "processing-units=3", Admitted, &["0"]),
            step(0, "processing-units=1", WaitNs(333_333_334), &["0"]),
            step(333_333_333, "processing-units=1", WaitNs(1), &["0.999999"]),
            step(333_333_334, "processing-units=1", Admitted, &["0"]),
            // The remaining 2 thirds of a nanosecond still count a whole second after the start.
            step(666_666_667, "processing-units=1", Admitted, &["0"]),
            step(SECOND, "processing-units=1", Admitted, &["0"]),
            step(SECOND, "processing-units=0.000001", WaitNs(334), &["0"]),
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

#[test]
fn the_largest_values_do_not_overflow() {
    const LONGEST: u64 = 5_124_095 * HOUR;
    check(
        &["requests=18446744073709.551615/PT5124095H"],
        &[
            step(0, "requests=18446744073709.551615", Admitted, &["0"]),
            step(0, "requests=18446744073709.551615", WaitNs(LONGEST), &["0"]),
            step(LONGEST, "requests=18446744073709.551615", Admitted, &["0"]),
            step(
                u64::MAX,
                "requests=18446744073709.551615",
                WaitNs(LONGEST - (u64::MAX - LONGEST)),
                &["2073709.784733"],
            ),
        ],
    );
}

#[test]
fn spent_counts_admitted_calls_only() {
    let mut account = account(&["processing-units=5/PT0S", "requests=9/PT0S"]);
    for units in ["2.5", "4", "2"] {
        let _ = account.admit(Duration::ZERO, &cost(&format!("processing-units={units}")));
    }
    let spent = account.policies(Duration::ZERO).iter().map(|policy| policy.spent).collect::<Vec<_>>();
    assert_eq!(spent, [Amount::from_micros(4_500_000), Amount::whole(2)]);
}

#[test]
fn an_account_without_policies_admits_everything() {
    let anything = Cost::new().with(Unit::REQUESTS, Amount::from_micros(u64::MAX));
    assert_eq!(account(&[]).admit(Duration::ZERO, &anything), Ok(()));
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
#[should_panic(expected = "only admitted calls finish")]
fn a_call_that_was_not_admitted_cannot_finish() {
    let mut account = account(&["requests=1/PT0S"]);
    assert_eq!(account.admit(Duration::ZERO, &cost("requests=2")), Err(Rejection::Never));
    account.finish();
}

#[test]
fn a_call_too_many_counts_in_a_leaky_bucket_only() {
    let mut account: Account =
        account(&["requests=4/4s", "requests=4/4s;leaky-bucket"]).with_concurrency(NonZeroUsize::MIN);
    for _ in 0..3 {
        let _ = account.admit(Duration::ZERO, &Cost::new());
    }
    let levels = account.policies(Duration::ZERO).iter().map(|policy| policy.level).collect::<Vec<_>>();
    assert_eq!(levels, [Amount::whole(3), Amount::ONE]);
}
