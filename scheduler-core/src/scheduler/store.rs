//! What the store allows to be granted, and what follows from its answers.

use super::Scheduler;
use crate::ids::LimitId;
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
        self.term = self.term.fenced(&self.resource);
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
        self.term.next_checkpoint()
    }

    /// Whether no other scheduler can have led since the last
    /// [`Event::Doubt`](crate::event::Event::Doubt).
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.term.is_trusted()
    }

    /// Empties the buckets of short limits, as unknown schedulers may have granted their stock.
    /// Requests wait no longer than the refill takes. Long limits and quotas would stay empty for
    /// too long, on the word of a client.
    pub(crate) fn distrust_stock(&mut self, now: Time, epoch: u64) {
        self.term.raise_epoch(epoch);
        self.ledger.drain(now, |limit| !limit.has_long_period());
        self.term.doubt();
    }

    /// Takes the whole stock of these limits, by an operator's order.
    pub(crate) fn empty(&mut self, now: Time, limits: &[LimitId]) {
        let names: Vec<Name> = limits.iter().map(|limit| self.resource[*limit].spec().name.clone()).collect();
        self.ledger.drain(now, |limit| names.contains(&limit.spec().name));
        self.term.doubt();
    }

    pub(crate) fn store_lost(&mut self, now: Time) {
        if self.term.store_lost(&self.resource, now) {
            self.ledger.note_change();
        }
    }
}
