//! How much of its limits a world used.

use crate::outcome::{Call, Outcome};
use crate::world::World;
use rampmeter_policy::spec::{Algorithm, LimitSpec};
use rampmeter_policy::{Limit, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
struct Taken {
    units: f64,
    /// Units times seconds in flight.
    unit_seconds: f64,
    /// The keys in use; empty if the limit has a single bucket.
    keys: BTreeSet<Arc<str>>,
}

impl Taken {
    fn add(&mut self, amount: Amount, call: &Call) {
        self.units += amount.units();
        self.unit_seconds += amount.units() * call.answered.since(call.at).secs();
    }

    /// Returns the used fraction of what the limit offered in a world of this length, its stock at
    /// the start included; zero without calls. A window that has begun offers its whole capacity.
    fn part(&self, limit: &LimitSpec, length: Span) -> f64 {
        let capacity = limit.capacity.units() * self.keys.len().max(1) as f64;
        let periods = length.secs() / limit.period.secs();
        match &limit.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => self.units / (capacity * (1.0 + periods)),
            Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::Quota(Some(_)) => {
                self.units / (capacity * periods.ceil().max(1.0))
            }
            Algorithm::Quota(None) => self.units / capacity,
            Algorithm::Concurrency => self.unit_seconds / (capacity * length.secs().max(f64::MIN_POSITIVE)),
        }
    }
}

/// Returns the most used limit of a world of this length, and the used fraction of its used keys.
pub(crate) fn most_used(world: &World, outcome: &Outcome, length: Span) -> (Name, f64) {
    let resource = Resource::new(&world.resource).expect("the world has run");
    let labels: Vec<Labels<'static>> = (0..world.workers()).map(|worker| world.labels_of(worker)).collect();
    let mut taken = vec![Taken::default(); resource.limits().len()];
    for call in outcome.fleets.iter().flat_map(|fleet| &fleet.calls).filter(|call| call.ok) {
        let labels = world.labels_at(&labels[call.worker], call.account);
        let Ok(bill) = resource.bill(&labels, call.cost.iter()) else { continue };
        bill.shared().for_each(|(limit, amount)| taken[limit.index()].add(amount, call));
        for charge in bill.keyed() {
            let taken = &mut taken[charge.limit.index()];
            taken.add(charge.amount, call);
            taken.keys.insert(Arc::clone(&charge.key));
        }
    }
    let shadow = resource.shadow().limits().iter().map(|limit| (limit.spec(), 0.0));
    let limits = resource.limits().iter().map(Limit::spec).zip(&taken);
    let parts = limits.map(|(limit, taken)| (limit, taken.part(limit, length))).chain(shadow);
    let (limit, part) = parts.max_by(|(_, a), (_, b)| a.total_cmp(b)).expect("a resource has a limit");
    (limit.name.clone(), part)
}
