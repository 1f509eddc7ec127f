//! The models against a judge that steps from nanosecond to nanosecond.

use proptest::prelude::*;
use rampmeter_upstream::{
    Account, Amount, Cost, Policy,
    Rejection::{Never, RetryAfter},
    Unit,
};
use std::time::Duration;

const UNIT_MICROS: u64 = 1_000_000;
const MAX_POLICIES: usize = 3;
const MAX_CALLS: usize = 40;
/// Longer than the longest wait here.
const AGES: Duration = Duration::from_secs(1);

/// A limit, as the judge sees it.
#[derive(Clone, Debug)]
struct Limit {
    capacity_micros: u64,
    period_ns: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    TokenBucket { burst_micros: u64, start_micros: u64, tick_ns: Option<u64>, whole: bool },
    FixedWindow,
    SlidingWindow,
    LeakyBucket,
}

/// A call that takes requests only, and the gap before it.
#[derive(Clone, Debug)]
struct Call {
    gap_ns: u64,
    micros: u64,
}

/// The judge's state of one limit.
#[derive(Clone, Debug)]
struct Judge {
    limit: Limit,
    now_ns: u64,
    /// The content of the bucket, in micro-units × period.
    level: u64,
    /// The inflow since the last refill, in the same unit.
    come: u64,
    /// When calls were admitted, and what they took.
    admitted: Vec<(u64, u64)>,
}

impl Judge {
    fn new(limit: &Limit) -> Self {
        let start_micros = match limit.kind {
            Kind::TokenBucket { start_micros, .. } => start_micros,
            Kind::FixedWindow | Kind::SlidingWindow | Kind::LeakyBucket => 0,
        };
        Self { limit: limit.clone(), now_ns: 0, level: start_micros * limit.period_ns, come: 0, admitted: Vec::new() }
    }

    fn pass_to(&mut self, now_ns: u64) {
        while self.now_ns < now_ns {
            self.now_ns += 1;
            self.pass_one();
        }
    }

    fn pass_one(&mut self) {
        match self.limit.kind {
            Kind::TokenBucket { tick_ns, whole, .. } => {
                self.come += self.limit.capacity_micros;
                let ticks = tick_ns.is_some_and(|tick_ns| self.now_ns.is_multiple_of(tick_ns));
                if ticks || tick_ns.is_none() && !whole {
                    self.refill();
                }
            }
            Kind::FixedWindow | Kind::SlidingWindow => {}
            Kind::LeakyBucket => self.level = self.level.saturating_sub(self.limit.capacity_micros),
        }
    }

    fn refill(&mut self) {
        let Kind::TokenBucket { burst_micros, whole, .. } = self.limit.kind else { return };
        let unit = UNIT_MICROS * self.limit.period_ns;
        let kept = if whole { self.come / unit * unit } else { self.come };
        self.level = (self.level + kept).min(burst_micros * self.limit.period_ns);
        self.come = 0;
    }

    /// Whether a call that arrives at `now_ns` fits.
    fn fits(&mut self, now_ns: u64, micros: u64) -> bool {
        self.pass_to(now_ns);
        let Limit { capacity_micros, period_ns, ref kind } = self.limit;
        match *kind {
            Kind::TokenBucket { tick_ns, .. } => {
                if tick_ns.is_none() {
                    self.refill();
                }
                micros * period_ns <= self.level
            }
            Kind::FixedWindow => micros + self.taken_since(now_ns / period_ns * period_ns) <= capacity_micros,
            Kind::SlidingWindow => micros + self.taken_since((now_ns + 1).saturating_sub(period_ns)) <= capacity_micros,
            Kind::LeakyBucket => micros * period_ns + self.level <= capacity_micros * period_ns,
        }
    }

    fn taken_since(&self, first_ns: u64) -> u64 {
        self.admitted.iter().filter(|(at_ns, _)| *at_ns >= first_ns).map(|(_, micros)| micros).sum()
    }

    fn note(&mut self, micros: u64, admitted: bool) {
        let Limit { capacity_micros, period_ns, ref kind } = self.limit;
        match *kind {
            Kind::LeakyBucket => self.level = (self.level + micros * period_ns).min(capacity_micros * period_ns),
            Kind::TokenBucket { .. } if admitted => self.level -= micros * period_ns,
            Kind::FixedWindow | Kind::SlidingWindow if admitted => self.admitted.push((self.now_ns, micros)),
            Kind::TokenBucket { .. } | Kind::FixedWindow | Kind::SlidingWindow => {}
        }
    }
}

impl Limit {
    fn policy(&self) -> Policy {
        let plain = Policy::new(Unit::REQUESTS, amount(self.capacity_micros), Duration::from_nanos(self.period_ns));
        let plain = plain.unwrap();
        match self.kind {
            Kind::TokenBucket { burst_micros, start_micros, tick_ns, whole } => {
                let bucket = plain.with_burst(amount(burst_micros)).unwrap().starting_at(amount(start_micros)).unwrap();
                let bucket = match tick_ns {
                    Some(tick_ns) => bucket.ticking(Duration::from_nanos(tick_ns)).unwrap(),
                    None => bucket,
                };
                if whole { bucket.dropping_fractions().unwrap() } else { bucket }
            }
            Kind::FixedWindow => plain.fixed_window().unwrap(),
            Kind::SlidingWindow => plain.sliding_window().unwrap(),
            Kind::LeakyBucket => plain.leaky_bucket().unwrap(),
        }
    }
}

fn amount(micros: u64) -> Amount {
    Amount::from_micros(micros)
}

/// Whether all judges admit the call; each then notes the outcome.
fn judged(judges: &mut [Judge], now_ns: u64, micros: u64) -> bool {
    // Every judge sees every call, even if another judge has refused it.
    let refusals = judges.iter_mut().map(|judge| judge.fits(now_ns, micros)).filter(|fits| !fits).count();
    let fits = refusals == 0;
    judges.iter_mut().for_each(|judge| judge.note(micros, fits));
    fits
}

/// Account and judges admit the same calls. A call is admitted after its wait, and not a nanosecond
/// earlier.
fn check(limits: &[Limit], calls: &[Call]) -> Result<(), TestCaseError> {
    let mut account = Account::new(limits.iter().map(Limit::policy).collect());
    let mut judges: Vec<Judge> = limits.iter().map(Judge::new).collect();
    let mut now_ns = 0;
    for Call { gap_ns, micros } in calls {
        now_ns += gap_ns;
        let cost = Cost::new().with(Unit::REQUESTS, amount(*micros));
        let verdict = account.admit(Duration::from_nanos(now_ns), &cost);
        prop_assert_eq!(
            verdict.is_ok(),
            judged(&mut judges, now_ns, *micros),
            "at {} ns: {}",
            now_ns,
            cost_text(*micros)
        );
        let admit_at = |now: Duration| account.clone().admit(now, &cost);
        match verdict {
            Err(RetryAfter(wait)) => {
                let then = Duration::from_nanos(now_ns) + wait;
                let early = then - Duration::from_nanos(1);
                prop_assert_eq!(admit_at(then), Ok(()));
                prop_assert!(admit_at(early).is_err(), "{:?} would do", wait - Duration::from_nanos(1));
                let judged_at =
                    |now: Duration| judged(&mut judges.clone(), now.as_nanos().try_into().unwrap(), *micros);
                prop_assert_eq!((judged_at(early), judged_at(then)), (false, true), "judged after {:?}", wait);
            }
            Err(never) => prop_assert_eq!((never, admit_at(AGES)), (Never, Err(Never))),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn cost_text(micros: u64) -> String {
    format!("{} requests", amount(micros))
}

fn arb_token_bucket() -> impl Strategy<Value = Limit> {
    let tick_ns = prop::option::of(1..60_u64);
    (arb_rate(), 1..=1000_u64, 0..=1000_u64, tick_ns, any::<bool>()).prop_map(|(rate, burst, start, tick_ns, whole)| {
        let burst_micros = (rate.0 * burst).div_ceil(1000);
        let start_micros = burst_micros * start / 1000;
        limit(rate, Kind::TokenBucket { burst_micros, start_micros, tick_ns, whole })
    })
}

fn arb_window_or_leaky_bucket() -> impl Strategy<Value = Limit> {
    let kind = prop_oneof![Just(Kind::FixedWindow), Just(Kind::SlidingWindow), Just(Kind::LeakyBucket)];
    (arb_rate(), kind).prop_map(|(rate, kind)| limit(rate, kind))
}

fn arb(kind: Kind) -> impl Strategy<Value = Vec<Limit>> {
    arb_rate().prop_map(move |rate| vec![limit(rate, kind.clone())])
}

fn arb_mixture() -> impl Strategy<Value = Vec<Limit>> {
    prop::collection::vec(prop_oneof![arb_token_bucket(), arb_window_or_leaky_bucket()], 1..=MAX_POLICIES)
}

/// Capacity in micro-units and period in nanoseconds: a unit comes within half a microsecond.
fn arb_rate() -> impl Strategy<Value = (u64, u64)> {
    let capacity_micros = prop_oneof![(1..7_u64).prop_map(|units| units * UNIT_MICROS), 100_000..6_000_000_u64];
    (capacity_micros, 1..50_u64)
}

fn limit((capacity_micros, period_ns): (u64, u64), kind: Kind) -> Limit {
    Limit { capacity_micros, period_ns, kind }
}

/// Calls with gaps from zero to several refills, and costs from zero to above the capacity.
fn arb_calls() -> impl Strategy<Value = Vec<Call>> {
    let gap_ns = prop_oneof![Just(0), 0..10_u64, 0..100_u64];
    let micros = prop_oneof![Just(0), Just(UNIT_MICROS), 0..UNIT_MICROS, 0..7 * UNIT_MICROS];
    let call = (gap_ns, micros).prop_map(|(gap_ns, micros)| Call { gap_ns, micros });
    prop::collection::vec(call, 1..MAX_CALLS)
}

proptest! {
    #[test]
    fn a_token_bucket_holds_what_it_should(limit in arb_token_bucket(), calls in arb_calls()) {
        check(&[limit], &calls)?;
    }

    #[test]
    fn a_fixed_window_holds_what_it_should(limits in arb(Kind::FixedWindow), calls in arb_calls()) {
        check(&limits, &calls)?;
    }

    #[test]
    fn a_sliding_window_holds_what_it_should(limits in arb(Kind::SlidingWindow), calls in arb_calls()) {
        check(&limits, &calls)?;
    }

    #[test]
    fn a_leaky_bucket_holds_what_it_should(limits in arb(Kind::LeakyBucket), calls in arb_calls()) {
        check(&limits, &calls)?;
    }

    #[test]
    fn models_agree_on_a_call(limits in arb_mixture(), calls in arb_calls()) {
        check(&limits, &calls)?;
    }

    #[test]
    fn a_policy_prints_what_reads_back_as_it(limits in arb_mixture()) {
        for policy in limits.iter().map(Limit::policy) {
            prop_assert_eq!(&policy.to_string().parse::<Policy>().unwrap(), &policy);
        }
    }
}
