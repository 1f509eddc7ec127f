//! What the store allows, and what becomes of it.

use super::Scheduler;
use crate::fencing::GrantBudget;
use crate::ids::CheckpointNumber;
use crate::policy::Bill;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// From now on grants only what checkpoints in a store cover, of which there is none yet.
    ///
    /// Whoever calls this has to write a [`mark`](Scheduler::checkpoint) when [`next_checkpoint`](Scheduler::next_checkpoint) wants one, and
    /// to say when the store holds it.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.grant_budget = Some(GrantBudget::new(&self.resource));
        self
    }

    /// The same, which keeps its pages of keys in places from this one on. Schedulers that contend for a term have different ones, so that
    /// none writes over what another has named.
    #[must_use]
    pub fn with_pages_from(mut self, arrival: u32) -> Self {
        self.ledger.keys.pages.begin_at(arrival);
        self
    }

    /// When the next checkpoint is to be written, or as soon as it is known what became of the last one. None if the scheduler is
    /// not [fenced](Scheduler::fenced).
    #[must_use]
    pub fn next_checkpoint(&self) -> Option<Time> {
        self.grant_budget.as_ref().map(GrantBudget::due)
    }

    /// A successor has to know soon what has just happened.
    pub(crate) fn hasten_checkpoint(&mut self) {
        if let Some(grant_budget) = &mut self.grant_budget {
            grant_budget.renew_soon();
        }
    }

    pub(crate) fn doubt(&mut self) {
        if let Some(grant_budget) = &mut self.grant_budget {
            grant_budget.doubt();
        }
    }

    /// Whether nobody else can have led since the last [`Event::Doubt`](crate::event::Event::Doubt).
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.grant_budget.as_ref().is_none_or(GrantBudget::is_trusted)
    }

    /// Whether a checkpoint with this number was taken since the last doubt.
    #[must_use]
    pub fn settles_doubt(&self, number: CheckpointNumber) -> bool {
        self.grant_budget.as_ref().is_none_or(|grant_budget| grant_budget.settles_doubt(number))
    }

    /// Whatever is in stock may have been spent by somebody who is not known. Nobody waits for it longer than it takes to
    /// come in again.
    pub(crate) fn distrust_stock(&mut self, now: Time, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
        self.ledger.empty(now, |_| true);
        self.doubt();
    }

    /// Whether the store allows this to be granted.
    pub(crate) fn is_covered(&self, bill: &Bill, start: Time) -> bool {
        self.grant_budget.as_ref().is_none_or(|grant_budget| grant_budget.covers(&self.resource, bill, start))
    }

    pub(crate) fn store_lost(&mut self, now: Time) {
        let Some(grant_budget) = &mut self.grant_budget else { return };
        grant_budget.store_lost(&self.resource, now);
        self.ledger.note_change();
    }
}
