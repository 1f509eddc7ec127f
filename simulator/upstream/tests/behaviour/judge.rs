//! The account against a judge without state, which adds up the whole history for every call.

use proptest::prelude::*;
use rampmeter_upstream::{Account, Amount, Cost, Policy, Rejection::RetryAfter, Unit};
use std::time::Duration;

const UNITS: [&str; 2] = ["requests", "processing-units"];
const MAX_POLICIES: usize = 4;
const MAX_CALLS: usize = 60;

/// A call, as the judge sees it: nanoseconds and micro-units by position in [`UNITS`].
#[derive(Clone, Debug)]
struct Call {
    at_ns: i128,
    micros: [i128; 2],
}

/// A limit, as the judge sees it.
#[derive(Clone, Debug)]
struct Limit {
    unit: usize,
    capacity_micros: i128,
    period_ns: i128,
}

impl Limit {
    /// The largest sum of costs that may fall in a window from one call to a later one, times the
    /// period.
    fn allowed(&self, window_ns: i128) -> i128 {
        self.capacity_micros * (self.period_ns + window_ns)
    }

    /// Whether all calls together stay within the bound, in every window that ends with the last
    /// call.
    fn is_kept_by(&self, calls: &[Call]) -> bool {
        let Some(last) = calls.last() else { return true };
        let mut sum = 0;
        calls.iter().rev().all(|call| {
            sum += call.micros[self.unit] * self.period_ns;
            sum <= self.allowed(last.at_ns - call.at_ns)
        })
    }
}

fn arb_limit() -> impl Strategy<Value = Limit> {
    let period_ns = prop_oneof![1..50_i128, 1..10_000_000_000_i128];
    (0..UNITS.len(), 1..20_000_000_i128, period_ns).prop_map(|(unit, capacity_micros, period_ns)| Limit {
        unit,
        capacity_micros,
        period_ns,
    })
}

/// Calls with gaps from zero to several refills, and costs from zero to above the capacity.
fn arb_calls() -> impl Strategy<Value = Vec<Call>> {
    let gap_ns = prop_oneof![Just(0), 0..100_i128, 0..1_000_000_000_i128, 0..20_000_000_000_i128];
    let micros = || prop_oneof![Just(0), Just(1_000_000), 0..3_000_000_i128, 0..25_000_000_i128];
    let call = (gap_ns, [micros(), micros()]);
    prop::collection::vec(call, 1..MAX_CALLS).prop_map(|calls| {
        let arrivals = calls.into_iter().scan(0, |now_ns, (gap_ns, micros)| {
            *now_ns += gap_ns;
            Some(Call { at_ns: *now_ns, micros })
        });
        arrivals.collect()
    })
}

fn account(limits: &[Limit]) -> Account {
    let policy = |limit: &Limit| {
        let unit = UNITS[limit.unit].parse().unwrap();
        Policy::new(unit, amount(limit.capacity_micros), duration(limit.period_ns)).unwrap()
    };
    Account::new(limits.iter().map(policy).collect())
}

fn cost(call: &Call) -> Cost {
    let units = UNITS.map(|name| name.parse::<Unit>().unwrap());
    units.into_iter().zip(call.micros).fold(Cost::new(), |cost, (unit, micros)| cost.with(unit, amount(micros)))
}

fn amount(micros: i128) -> Amount {
    Amount::from_micros(micros.try_into().unwrap())
}

fn duration(ns: i128) -> Duration {
    Duration::from_nanos(ns.try_into().unwrap())
}

proptest! {
    /// Any window of length T admits at most capacity + rate × T, and every call that fits is
    /// admitted.
    #[test]
    fn exactly_what_fits_every_window_is_admitted(
        limits in prop::collection::vec(arb_limit(), 1..=MAX_POLICIES),
        calls in arb_calls(),
    ) {
        let mut account = account(&limits);
        let mut accepted: Vec<Call> = Vec::new();
        for call in calls {
            let verdict = account.admit(duration(call.at_ns), &cost(&call)).is_ok();
            accepted.push(call);
            let fits = limits.iter().all(|limit| limit.is_kept_by(&accepted));
            prop_assert_eq!(verdict, fits, "call {:?}", accepted.last());
            if !fits {
                accepted.pop();
            }
        }
    }

    /// The wait of a rejection is exact: a nanosecond earlier is too early.
    #[test]
    fn a_rejected_call_fits_after_its_wait_and_not_before(
        limits in prop::collection::vec(arb_limit(), 1..=MAX_POLICIES),
        calls in arb_calls(),
    ) {
        let mut account = account(&limits);
        for call in calls {
            let (now, cost) = (duration(call.at_ns), cost(&call));
            if let Err(RetryAfter(wait)) = account.admit(now, &cost) {
                let admit_at = |time| account.clone().admit(time, &cost);
                prop_assert_eq!(admit_at(now + wait), Ok(()));
                let early = now + wait - Duration::from_nanos(1);
                prop_assert_eq!(admit_at(early), Err(RetryAfter(Duration::from_nanos(1))));
            }
        }
    }
}
