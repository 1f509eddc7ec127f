//! From one set of limits to another: what goes on, and what begins anew.

use crate::bill::Bill;
use crate::resource::{LimitId, Resource};
use crate::spec::LimitSpec;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::labels::Labels;
use std::sync::Arc;

/// What a request that waits was for, so that it can be charged anew when there are other limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    labels: Vec<(String, String)>,
    cost: Vec<(String, Amount)>,
}

impl Call {
    /// The call with these labels and of this cost, by unit.
    #[must_use]
    pub fn new(labels: &Labels<'_>, cost: &Cost<'_>) -> Self {
        let label = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let amount = |(unit, amount): (&str, Amount)| (unit.to_owned(), amount);
        Call { labels: labels.iter().map(label).collect(), cost: cost.iter().map(amount).collect() }
    }

    /// The call as far as its bill tells: what it took of each unit. Its labels are not known.
    pub(crate) fn told_by(bill: &Bill, resource: &Resource) -> Self {
        let estimate = bill.estimate();
        let of = |id: LimitId| (resource.limits()[id.index()].spec().unit.to_string(), estimate.get(id));
        let mut cost: Vec<(String, Amount)> = estimate.reached().limits().map(of).collect();
        cost.sort();
        cost.dedup_by(|(unit, more), (same, most)| {
            unit == same && {
                *most = (*most).max(*more);
                true
            }
        });
        Call { labels: Vec::new(), cost }
    }

    pub(crate) fn labels(&self) -> Labels<'_> {
        let mut labels = Labels::new();
        for (key, value) in &self.labels {
            labels.set(key.as_str(), value.as_str()).expect("they were labels before");
        }
        labels
    }

    pub(crate) fn cost(&self) -> impl Iterator<Item = (&str, Amount)> + Clone {
        self.cost.iter().map(|(unit, amount)| (unit.as_str(), *amount))
    }
}

/// Where the limits of one set are in another that follows it.
///
/// A limit goes on where there is one of the same name that counts the same unit of the same requests by the same algorithm, whatever its
/// capacity and period. Any other is a new one.
#[derive(Clone, Debug)]
pub(crate) struct Succession {
    /// By the former index.
    to: Vec<Option<LimitId>>,
    /// By the new index.
    from: Vec<Option<LimitId>>,
}

impl Succession {
    pub(crate) fn between(before: &Resource, after: &Resource) -> Self {
        let (old, new): (Vec<_>, Vec<_>) = (before.enforced().collect(), after.enforced().collect());
        let place = |limit: &LimitSpec, others: &[&LimitSpec]| {
            let index = others.iter().position(|other| is_same(limit, other))?;
            Some(LimitId(index as u8))
        };
        Succession {
            to: old.iter().map(|limit| place(limit, &new)).collect(),
            from: new.iter().map(|limit| place(limit, &old)).collect(),
        }
    }

    /// Whether every limit goes on, in its place, and there is no other.
    pub(crate) fn is_same(&self) -> bool {
        let stays = |(index, to): (usize, &Option<LimitId>)| *to == Some(LimitId(index as u8));
        self.from.len() == self.to.len() && self.to.iter().enumerate().all(stays)
    }

    /// Where a limit of the former set is, if it goes on.
    pub(crate) fn of(&self, before: LimitId) -> Option<LimitId> {
        self.to[before.index()]
    }

    /// By the new index, where a limit was.
    pub(crate) fn before(&self) -> &[Option<LimitId>] {
        &self.from
    }

    /// What a bill of the former set charges to limits that go on.
    pub(crate) fn bill(&self, before: &Bill) -> Bill {
        let mut bill = Bill::new();
        for id in before.reached().limits() {
            let Some(to) = self.of(id) else { continue };
            match before.key_of(id) {
                Some(charge) => bill.set_key(to, Arc::clone(&charge.key), charge.amount),
                None => bill.set(to, before.get(id)),
            }
        }
        if let Some(kind) = before.kind() {
            bill.set_kind(Arc::clone(kind));
        }
        if before.estimate() != before {
            bill.set_estimate(self.bill(before.estimate()));
        }
        bill
    }
}

fn is_same(limit: &LimitSpec, other: &LimitSpec) -> bool {
    let what =
        |limit: &LimitSpec| (limit.name.clone(), limit.unit.clone(), limit.algorithm.clone(), limit.applies.clone());
    what(limit) == what(other)
}
