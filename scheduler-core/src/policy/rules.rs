//! From one set of limits to another: what goes on, and what begins anew.

use super::bill::Bill;
use super::resource::Resource;
use super::spec::LimitSpec;
use crate::ids::LimitId;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::labels::Labels;
use std::collections::BTreeMap;

/// What a request that waits was for, so that it can be charged anew when there are other limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub(crate) labels: Labels<'static>,
    cost: Vec<(String, Amount)>,
}

impl Call {
    /// The call with these labels and of this cost, by unit.
    #[must_use]
    pub fn new(labels: &Labels<'_>, cost: &Cost<'_>) -> Self {
        let cost = cost.iter().map(|(unit, amount)| (unit.to_owned(), amount)).collect();
        Call { labels: labels.clone().into_owned(), cost }
    }

    /// The call as far as its bill tells: what it took of each unit. Its labels are not known.
    pub(crate) fn told_by(bill: &Bill, resource: &Resource) -> Self {
        let estimate = bill.estimate();
        let of = |id: LimitId| (resource.limits()[id.index()].spec().unit.to_string(), estimate.get(id));
        let cost: BTreeMap<String, Amount> = estimate.reached().limits().map(of).collect();
        Call { labels: Labels::new(), cost: cost.into_iter().collect() }
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
        let places = |of: &Resource, others: &Resource| {
            let place = |limit: &LimitSpec| others.limits_by_id().find(|(_, other)| goes_on_as(limit, other.spec()));
            of.limits().iter().map(|limit| place(limit.spec()).map(|(id, _)| id)).collect()
        };
        Succession { to: places(before, after), from: places(after, before) }
    }

    /// Where a limit of the former set is, if it goes on.
    pub(crate) fn of(&self, before: LimitId) -> Option<LimitId> {
        self.to[before.index()]
    }

    /// By the new index, where a limit was.
    pub(crate) fn before(&self) -> &[Option<LimitId>] {
        &self.from
    }

    /// What a bill of the former set charges to limits that go on. What it charges to those in shadow mode is left out.
    pub(crate) fn bill(&self, before: &Bill) -> Bill {
        let mut bill = before.changed(|limit, amount| Some((self.of(limit)?, amount)));
        bill.kind = before.kind.clone();
        bill.estimated = before.estimated.as_ref().map(|estimated| Box::new(self.bill(estimated)));
        bill
    }
}

/// Whether what was counted for `limit` counts for `other`.
pub(crate) fn goes_on_as(limit: &LimitSpec, other: &LimitSpec) -> bool {
    let is_same_call = limit.unit == other.unit && limit.applies == other.applies;
    limit.name == other.name && limit.algorithm == other.algorithm && is_same_call
}
