//! What the store allows to be granted, and what follows from its answers.

use super::Scheduler;
use crate::fencing::GrantBudget;
use crate::ids::CheckpointNumber;
use crate::policy::Bill;
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

    /// Whether the checkpoint with this number was taken since the last doubt.
    #[must_use]
    pub fn settles_doubt(&self, number: CheckpointNumber) -> bool {
        self.grant_budget.as_ref().is_none_or(|budget| budget.settles_doubt(number))
    }

    /// Empties all buckets, as unknown schedulers may have granted whatever is in stock. Requests
    /// wait no longer than the refill takes.
    pub(crate) fn distrust_stock(&mut self, now: Time, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
        self.ledger.drain(now, |_| true);
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
