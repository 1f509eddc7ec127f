//! What the store allows to be granted, and what follows from its answers.

use super::Scheduler;
use crate::fencing::GrantBudget;
use crate::ids::LimitId;
use crate::policy::Bill;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// From now on grants only what checkpoints in a store cover, of which there is none yet.
    ///
    /// The driver has to write a [`checkpoint`](Scheduler::checkpoint) when
    /// [`next_checkpoint`](Scheduler::next_checkpoint) says so, and to report when the store holds
    /// it.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.grant_budget = Some(GrantBudget::new(&self.resource));
        self.since = Time::NEVER;
        self
    }

    /// Numbers new pages of keys from this one on. Schedulers that contend for a term start at
    /// different numbers, so that none overwrites a page that another has named.
    #[must_use]
    pub fn with_pages_from(mut self, arrival: u32) -> Self {
        self.ledger.keys.pages.begin_at(arrival);
        self
    }

    /// When to write the next checkpoint, or as soon as the outcome of the last write is known.
    /// None if the scheduler is not [fenced](Scheduler::fenced).
    #[must_use]
    pub fn next_checkpoint(&self) -> Option<Time> {
        self.grant_budget.as_ref().map(GrantBudget::due)
    }

    /// Makes the next checkpoint due soon, as a successor has to know what has just happened.
    pub(crate) fn hasten_checkpoint(&mut self) {
        if let Some(budget) = &mut self.grant_budget {
            budget.renew_soon();
        }
    }

    pub(crate) fn doubt(&mut self) {
        if let Some(budget) = &mut self.grant_budget {
            budget.doubt();
        }
    }

    /// Whether no other scheduler can have led since the last
    /// [`Event::Doubt`](crate::event::Event::Doubt).
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.grant_budget.as_ref().is_none_or(GrantBudget::is_trusted)
    }

    /// Empties the buckets of short limits, as unknown schedulers may have granted their stock.
    /// Requests wait no longer than the refill takes. Long limits and quotas would stay empty for
    /// too long, on the word of a client.
    pub(crate) fn distrust_stock(&mut self, now: Time, epoch: u64) {
        self.raise_epoch(epoch);
        self.ledger.drain(now, |limit| !limit.has_long_period());
        self.doubt();
    }

    /// Goes on in a higher epoch.
    pub(crate) fn raise_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Takes the whole stock of these limits, by an operator's order.
    pub(crate) fn empty(&mut self, now: Time, limits: &[LimitId]) {
        let names: Vec<Name> = limits.iter().map(|limit| self.resource[*limit].spec().name.clone()).collect();
        self.ledger.drain(now, |limit| names.contains(&limit.spec().name));
        self.doubt();
    }

    /// Whether the store allows this start.
    pub(crate) fn is_covered(&self, bill: &Bill, start: Time) -> bool {
        self.grant_budget.as_ref().is_none_or(|budget| budget.covers(&self.resource, bill, start))
    }

    /// Charges a start to the grant budget.
    pub(crate) fn charge(&mut self, bill: &Bill, start: Time) {
        if let Some(budget) = &mut self.grant_budget {
            budget.charge(&self.resource, bill, start);
        }
    }

    pub(crate) fn store_lost(&mut self, now: Time) {
        if let Some(budget) = &mut self.grant_budget {
            budget.store_lost(&self.resource, now);
            self.ledger.note_change();
        }
    }
}
