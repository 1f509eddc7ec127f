//! The buckets that calls share.

use crate::workers::cost::amount_of;
use crate::world::World;
use rampmeter_policy::spec::{Applies, LimitSpec, Pattern};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::labels::Labels;
use std::collections::BTreeMap;

/// The buckets of all judged limits. Shadow limits, which delay no call, and limits with a group or
/// regular expressions, which the judge does not understand, are not judged.
pub(super) struct Buckets<'a> {
    pub(super) limits: &'a [LimitSpec],
    numbers: Vec<Vec<Option<usize>>>,
}

impl<'a> Buckets<'a> {
    pub(super) fn of(world: &'a World) -> Self {
        let limits = &world.resource.limits;
        let mut known = BTreeMap::new();
        let mut numbers = Vec::new();
        for worker in 0..world.workers() {
            let labels = world.labels_of(worker);
            let number = |limit: &LimitSpec| {
                let key = key(&limit.applies, &labels).filter(|_| !limit.shadow)?;
                let next = known.len();
                Some(*known.entry(key).or_insert(next))
            };
            numbers.push(limits.iter().map(number).collect());
        }
        Buckets { limits, numbers }
    }

    /// Returns the bucket that a limit charges for a worker's call, and the amount, if it applies.
    pub(super) fn charge(&self, limit: usize, worker: usize, cost: &Cost<'_>) -> Option<(usize, Amount)> {
        let bucket = self.numbers[worker][limit]?;
        let amount = amount_of(cost, &self.limits[limit].unit);
        (amount > Amount::ZERO).then_some((bucket, amount))
    }

    pub(super) fn charged(&self, worker: usize, cost: &Cost<'_>) -> Vec<usize> {
        (0..self.limits.len()).filter(|limit| self.charge(*limit, worker, cost).is_some()).collect()
    }
}

/// Returns the values that select a bucket; `None` if the limit does not match the call.
fn key(applies: &Applies, labels: &Labels<'_>) -> Option<Vec<String>> {
    let holds = |(label, pattern): (&String, &Pattern)| labels.get(label).is_some_and(|value| holds(pattern, value));
    if applies.group.is_some() || !applies.matching.iter().all(holds) {
        return None;
    }
    applies.key.iter().map(|label| labels.get(label).map(str::to_owned)).collect()
}

fn holds(pattern: &Pattern, value: &str) -> bool {
    match pattern {
        Pattern::Exact(exact) => exact == value,
        Pattern::OneOf(values) => values.contains(value),
        Pattern::Prefix(prefix) => value.starts_with(prefix.as_str()),
        Pattern::Regex(_) => false,
    }
}
