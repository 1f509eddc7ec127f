//! Corrects cost estimates that are repeatedly too high or too low.
//!
//! A correction is an exponentially weighted moving average of actual over estimated cost. It is
//! not handed over: a successor learns it again from the next calls.

use rampmeter_policy::ids::LimitId;
use rampmeter_policy::{Bill, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::Correction;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest number of factors; further kinds and units keep their estimates.
const MAX_FACTORS: usize = 1024;
/// Each call has a weight of one part in this many, so a factor follows the last few dozen calls.
const WEIGHT: i64 = 16;
/// Applied factors are multiples of this step.
const STEP: i64 = ONE / 64;
/// One in millionths, and the bounds of a factor.
const ONE: i64 = 1_000_000;
const MIN_FACTOR: i64 = ONE / 8;
const MAX_FACTOR: i64 = ONE * 8;

#[derive(Clone, Debug, Default)]
pub(crate) struct CostEstimates(BTreeMap<(Arc<str>, Name), Factor>);

#[derive(Clone, Copy, Debug, Default)]
struct Factor {
    /// The mean ratio minus one, in millionths, so that the default is a ratio of one.
    above_one: i64,
    calls: u64,
}

impl CostEstimates {
    pub(crate) fn correct(&self, resource: &Resource, estimate: Bill) -> Bill {
        if self.0.is_empty() { estimate } else { estimate.map_options(|option| self.correct_one(resource, option)) }
    }

    fn correct_one(&self, resource: &Resource, estimate: Bill) -> Bill {
        let Some(kind) = &estimate.kind else { return estimate };
        let mut bill = estimate.clone();
        for (id, amount) in estimate.amounts() {
            let limit = &resource[id];
            // A quota holds whatever calls cost, so the most that they may cost is reserved.
            let factor = self.0.get(&(Arc::clone(kind), limit.spec().unit.clone())).filter(|_| !limit.is_quota());
            if let Some(factor) = factor {
                bill.set(id, factor.applied_to(amount).min(limit.spec().capacity));
            }
        }
        if bill == estimate {
            return estimate;
        }
        bill.estimated = Some(Box::new(estimate));
        bill
    }

    /// Learns that a call with this bill cost `cost` of `unit`.
    pub(crate) fn learn(&mut self, resource: &Resource, bill: &Bill, unit: &str, cost: Amount) {
        let Some(kind) = &bill.kind else { return };
        let of_unit = |(id, _): &(LimitId, Amount)| *resource[*id].spec().unit == *unit;
        let Some((id, estimate)) = bill.estimate().amounts().find(of_unit) else { return };
        let name = (Arc::clone(kind), resource[id].spec().unit.clone());
        if self.0.len() < MAX_FACTORS || self.0.contains_key(&name) {
            self.0.entry(name).or_default().learn(estimate, cost);
        }
    }

    pub(crate) fn report(&self) -> Vec<Correction> {
        let correction = |((kind, unit), factor): (&(Arc<str>, Name), &Factor)| Correction {
            kind: kind.to_string(),
            unit: unit.clone(),
            factor: factor.millionths() as f64 / ONE as f64,
            calls: factor.calls,
        };
        self.0.iter().map(correction).collect()
    }
}

impl Factor {
    fn millionths(self) -> i64 {
        ONE + self.above_one
    }

    /// Multiplies, rounding up in steps, so that calls with equal estimates share a bill.
    fn applied_to(self, amount: Amount) -> Amount {
        let factor = i128::from((self.millionths() + STEP - 1) / STEP * STEP);
        let micros = (i128::from(amount.micros()) * factor + i128::from(ONE) - 1) / i128::from(ONE);
        u64::try_from(micros).ok().and_then(|micros| Amount::from_micros(micros).ok()).unwrap_or(amount)
    }

    fn learn(&mut self, estimate: Amount, cost: Amount) {
        let ratio = i128::from(cost.micros()) * i128::from(ONE) / i128::from(estimate.micros().max(1));
        let ratio = i64::try_from(ratio).unwrap_or(i64::MAX).clamp(MIN_FACTOR, MAX_FACTOR);
        self.above_one += (ratio - self.millionths()) / WEIGHT;
        self.calls += 1;
        assert!((MIN_FACTOR..=MAX_FACTOR).contains(&self.millionths()), "a factor is a mean of bounded ratios");
    }
}
