//! Estimates of costs that are too high or too low time and again.

use crate::ids::LimitId;
use crate::policy::{Bill, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::Correction;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Kinds of calls and units that are told apart; of others nothing is learned.
const MAX_FACTORS: usize = 1024;
/// A call counts for one part in this many: what is learned follows the last few dozen.
const WEIGHT: i64 = 16;
/// Factors that are applied differ by this much at least.
const STEP: i64 = UNITY / 64;
/// In millionths. No estimate is taken to be further off than this.
const UNITY: i64 = 1_000_000;
const LEAST: i64 = UNITY / 8;
const MOST: i64 = UNITY * 8;

/// By how much to multiply what is estimated for each kind of call, by unit: an exponentially weighted mean of what such calls
/// cost for each token that they were charged.
#[derive(Clone, Debug, Default)]
pub(crate) struct CostEstimates(BTreeMap<(Arc<str>, Name), Factor>);

#[derive(Clone, Copy, Debug, Default)]
struct Factor {
    /// By how many millionths it is above one.
    above_one: i64,
    calls: u64,
}

impl CostEstimates {
    /// `estimate` as such calls have turned out to cost.
    pub(crate) fn correct(&self, resource: &Resource, estimate: Bill) -> Bill {
        let Some(kind) = estimate.kind.as_ref().filter(|_| !self.0.is_empty()) else { return estimate };
        let mut bill = estimate.clone();
        for (id, amount) in estimate.amounts() {
            let limit = &resource.limits()[id.index()];
            if let Some(factor) = self.0.get(&(Arc::clone(kind), limit.spec().unit.clone())) {
                bill.set(id, factor.applied_to(amount).min(limit.spec().capacity));
            }
        }
        // Most calls cost what they are estimated to: they need no second bill.
        if bill == estimate {
            return estimate;
        }
        bill.estimated = Some(Box::new(estimate));
        bill
    }

    /// Learns that a call which was charged `bill` cost this much of `unit`.
    pub(crate) fn learn(&mut self, resource: &Resource, bill: &Bill, unit: &str, cost: Amount) {
        let Some(kind) = &bill.kind else { return };
        let of_unit = |(id, _): &(LimitId, Amount)| *resource.limits()[id.index()].spec().unit == *unit;
        let Some((id, estimate)) = bill.estimate().amounts().find(of_unit) else { return };
        let name = (Arc::clone(kind), resource.limits()[id.index()].spec().unit.clone());
        if self.0.len() < MAX_FACTORS || self.0.contains_key(&name) {
            self.0.entry(name).or_default().learn(estimate, cost);
        }
    }

    /// What was learned, for people.
    pub(crate) fn report(&self) -> Vec<Correction> {
        let correction = |((kind, unit), factor): (&(Arc<str>, Name), &Factor)| Correction {
            kind: kind.to_string(),
            unit: unit.clone(),
            factor: factor.millionths() as f64 / UNITY as f64,
            calls: factor.calls,
        };
        self.0.iter().map(correction).collect()
    }
}

impl Factor {
    fn millionths(self) -> i64 {
        UNITY + self.above_one
    }

    /// Rounded up, and in steps, so that calls that are estimated alike share a bill.
    fn applied_to(self, amount: Amount) -> Amount {
        let factor = i128::from((self.millionths() + STEP - 1) / STEP * STEP);
        let micros = (i128::from(amount.micros()) * factor + i128::from(UNITY) - 1) / i128::from(UNITY);
        u64::try_from(micros).ok().and_then(|micros| Amount::from_micros(micros).ok()).unwrap_or(amount)
    }

    fn learn(&mut self, estimate: Amount, cost: Amount) {
        let ratio = i128::from(cost.micros()) * i128::from(UNITY) / i128::from(estimate.micros().max(1));
        let ratio = i64::try_from(ratio).unwrap_or(i64::MAX).clamp(LEAST, MOST);
        self.above_one += (ratio - self.millionths()) / WEIGHT;
        self.calls += 1;
    }
}
