//! Maps one set of limits to its successor when rules change.

use super::applies::{Applies, Pattern};
use super::bill::Bill;
use super::limit::Limit;
use super::resource::{Resource, by_unit};
use super::spec::LimitSpec;
use crate::arithmetic::Credit;
use crate::ids::LimitId;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::Way;
use rampmeter_protocol::time::Span;
use std::collections::BTreeMap;

/// The labels and cost of a waiting request, to charge it again under new limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// Its labels.
    pub labels: Labels<'static>,
    cost: Vec<(String, Amount)>,
    /// The accounts that may not make it.
    pub not: Vec<Name>,
    /// How long a start of it is worth waiting for, and the other ways to make it.
    pub ways: Option<(Span, Vec<Way<'static>>)>,
}

impl Call {
    /// Creates a call with these labels and this cost, by unit.
    #[must_use]
    pub fn new(labels: &Labels<'_>, cost: &Cost<'_>) -> Self {
        let cost = cost.iter().map(|(unit, amount)| (unit.to_owned(), amount)).collect();
        Call { labels: labels.clone().into_owned(), cost, not: Vec::new(), ways: None }
    }

    /// Makes it a call that these accounts may not make.
    #[must_use]
    pub fn not_by(self, not: Vec<Name>) -> Self {
        Call { not, ..self }
    }

    /// Makes it a call that can be made in other ways, too, unless it starts within `worth`.
    #[must_use]
    pub fn or(self, worth: Span, ways: &[Way<'_>]) -> Self {
        let ways: Vec<Way<'static>> = ways.iter().cloned().map(Way::into_owned).collect();
        Call { ways: Some((worth, ways)).filter(|(_, ways)| !ways.is_empty()), ..self }
    }

    /// Creates a call without labels, whose cost is the estimate of `bill`.
    #[must_use]
    pub fn from_bill(bill: &Bill, resource: &Resource) -> Self {
        let estimate = bill.estimate();
        let of = |id: LimitId| (resource[id].spec().unit.to_string(), estimate.get(id));
        let cost: BTreeMap<String, Amount> = estimate.limits().map(of).collect();
        Call { labels: Labels::new(), cost: cost.into_iter().collect(), not: Vec::new(), ways: None }
    }

    /// Iterates over its labels, for a record.
    pub fn labels(&self) -> impl Iterator<Item = (String, String)> {
        self.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()))
    }

    /// Iterates over its cost by unit.
    pub fn cost(&self) -> impl Iterator<Item = (&str, Amount)> + Clone {
        by_unit(&self.cost)
    }
}

/// Maps the limits of a resource to those of its replacement. A limit continues as the one with the same name, unit,
/// algorithm, key and group. Capacity and period may differ, and it may match more calls. All others are new.
#[derive(Clone, Debug)]
pub struct Succession {
    /// New ids, by former index.
    to: Vec<Option<LimitId>>,
    /// Former ids, by new index.
    from: Vec<Option<LimitId>>,
}

impl Succession {
    /// Maps `before` to `after`.
    pub fn between(before: &Resource, after: &Resource) -> Self {
        let id_of = |of: &Resource, is: &dyn Fn(&LimitSpec) -> bool| {
            of.limits_by_id().find(|(_, limit)| is(limit.spec())).map(|(id, _)| id)
        };
        let (old, new) = (before.limits().iter().map(Limit::spec), after.limits().iter().map(Limit::spec));
        Succession {
            to: old.map(|old| id_of(after, &|new| continues_as_wider(old, new))).collect(),
            from: new.map(|new| id_of(before, &|old| continues_as_wider(old, new))).collect(),
        }
    }

    /// Returns the new id of a limit, if the limit continues.
    #[must_use]
    pub fn of(&self, before: LimitId) -> Option<LimitId> {
        self.to[before.index()]
    }

    /// Returns the former ids, by new index.
    #[must_use]
    pub fn before(&self) -> &[Option<LimitId>] {
        &self.from
    }

    /// Returns the levels of new limits without keys of which these amounts are left, the first one for each limit.
    #[must_use]
    pub fn levels_of_new(&self, after: &Resource, left: &[(Name, Amount)]) -> Vec<(LimitId, Credit)> {
        let new = after.limits_by_id().filter(|(id, limit)| self.from[id.index()].is_none() && !limit.is_keyed());
        let level = |(id, limit): (LimitId, &Limit)| {
            let (_, amount) = left.iter().find(|(name, _)| *name == limit.spec().name)?;
            Some((id, limit.rate().credit(*amount).min(limit.full())))
        };
        new.filter_map(level).collect()
    }

    /// Returns the former bill's charges to limits that continue, without charges in shadow mode.
    #[must_use]
    pub fn bill(&self, before: &Bill) -> Bill {
        let mut bill = before.map_charges(|limit, amount| Some((self.of(limit)?, amount)));
        bill.client = before.client;
        bill.kind = before.kind.clone();
        bill.traits = before.traits.clone();
        bill.estimated = before.estimated.as_ref().map(|estimated| Box::new(self.bill(estimated)));
        bill
    }
}

/// Returns whether `after` differs from `before` only in that some limits apply to more calls.
#[must_use]
pub fn only_widens(before: &Resource, after: &Resource) -> bool {
    let (old, new) = (&before.spec().limits, &after.spec().limits);
    let is_wider = |(old, new): (&LimitSpec, &LimitSpec)| {
        let applies = Applies { matching: old.applies.matching.clone(), ..new.applies.clone() };
        continues_as_wider(old, new) && *old == LimitSpec { applies, ..new.clone() }
    };
    old != new && old.len() == new.len() && old.iter().zip(new).all(is_wider)
}

/// Whether `limit` continues as `other`, which may apply to more calls.
fn continues_as_wider(limit: &LimitSpec, other: &LimitSpec) -> bool {
    let wider =
        |(label, wanted): (&String, &Pattern)| limit.applies.matching.get(label).is_some_and(|own| wanted.covers(own));
    let covers = other.applies.matching.iter().all(wider);
    let applies = Applies { matching: limit.applies.matching.clone(), ..other.applies.clone() };
    covers && limit.is_same_for_calls(&LimitSpec { applies, ..other.clone() })
}
