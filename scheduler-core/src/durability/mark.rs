//! Marks: what the store has to hold before permits may be granted.

pub use super::fence::MarkNumber;
use super::fence::{AtOnce, Fence, NEAR};
use super::key_budgets::KeyBudgets;
use super::level_marks::ListedPromises;
use super::snapshot::{KeyMark, KeyMarks, Snapshot};
use crate::adaptation::Book;
use crate::ids::{ClassId, LimitId};
use crate::ledger::{Backlog, Bill, HALF, KeyBucket, MOST_FAR, fitting, keep_first};
use crate::limits::{Bucket, Credit};
use crate::policy::Limit;
use crate::scheduler::Scheduler;
use rampmeter_protocol::time::Time;

/// A state to be written to the store, in which all that may be granted under it counts as spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// For [`Event::Marked`](crate::event::Event::Marked).
    pub number: MarkNumber,
    /// The state, without permits.
    pub state: Snapshot,
    /// What part of the levels' distance from the present ones may still be granted: the budget, in millionths by limit.
    pub budget: Vec<u64>,
}

impl<R: Clone> Scheduler<R> {
    /// From now on grants only what marks in a store cover, of which there is none yet.
    ///
    /// Whoever calls this has to write a [`mark`](Scheduler::mark) when [`next_mark`](Scheduler::next_mark) wants one, and
    /// to say when the store holds it.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.fence = Some(Fence::new(&self.resource));
        self
    }

    /// The same, which keeps its pages of keys in places from this one on. Schedulers that contend for a term have different ones, so that
    /// none writes over what another has named.
    #[must_use]
    pub fn with_pages_from(mut self, place: u32) -> Self {
        self.ledger.keys.pages.begin_at(place);
        self
    }

    /// When the next mark is to be written, or as soon as it is known what became of the last one. None if the scheduler is
    /// not [fenced](Scheduler::fenced).
    #[must_use]
    pub fn next_mark(&self) -> Option<Time> {
        self.fence.as_ref().map(Fence::due)
    }

    /// The mark to be written at `now`. None if the scheduler is not [fenced](Scheduler::fenced), or if too many were
    /// taken of which nobody has said whether the store holds them.
    pub fn mark(&mut self, now: Time) -> Option<Mark> {
        self.ledger.advance(now);
        if self.fence.as_ref()?.is_full() {
            return None;
        }
        let (new_pages, of_keys) = self.key_budgets(now);
        let (key_budgets, listed) = of_keys.unzip();
        let at_once = self.grantable_at_once(now);
        let number = self.fence.as_ref()?.next();
        self.ledger.keys.pages.drop_empty(self.epoch, number);
        let keys = self.fenced_keys(now, key_budgets.as_ref(), listed.unwrap_or_default());
        let fence = self.fence.as_mut()?;
        let granted = fence.open(&self.resource, (now, self.serial), &at_once, key_budgets, new_pages.len());
        let levels = self.level_marks(now, (now + NEAR, &granted), &ListedPromises::none(&self.resource));
        let shared = self.resource.limits_by_id().filter(|(_, limit)| !limit.is_keyed());
        let budget = shared.map(|(id, limit)| limit.rate().micros_up(granted[id.index()])).collect();
        let state = Snapshot { levels, keys, freezes: self.freeze_marks(now), new_pages, ..Snapshot::default() };
        Some(Mark { number, state, budget })
    }

    /// What a successor is to know of keys: of those with budgets what is `listed`; of those without, until when each is empty that has
    /// far promises. The others are empty until near starts are past.
    fn fenced_keys(&self, now: Time, budgets: Option<&KeyBudgets>, mut listed: Vec<KeyMark>) -> KeyMarks {
        let limits = self.resource.limits();
        let has_budget = |limit: LimitId| budgets.filter(|_| limits[limit.index()].lists_keys());
        // One more than are listed says how long the others wait.
        let mut far: Vec<_> = self.ledger.keys.far(now, false).take(MOST_FAR + 1).collect();
        if budgets.is_none() {
            far.extend(self.ledger.keys.far(now, true).take(MOST_FAR + 1));
            keep_first(&mut far, MOST_FAR + 1, |(one, _), (other, _)| other.cmp(one));
        }
        let mark = |(until, known): &(Time, &KeyBucket)| {
            let limit = &limits[known.limit.index()];
            KeyMark::of(limit, &known.key, &Bucket::empty_until(limit, now, *until), now, Credit::ZERO)
        };
        let marks = fitting(MOST_FAR, HALF, far.iter().map(mark));
        let others = far.get(marks.len()).map_or(now + NEAR, |(until, _)| *until);
        listed.extend(marks);
        let pages = budgets.map(|budgets| self.key_pages(now, |limit| budgets.of_others(limit)));
        self.key_marks(now, listed, pages.unwrap_or_default(), Some(others), |limit| {
            has_budget(limit).map(|budgets| budgets.of_others(limit))
        })
    }

    /// A successor has to know soon what has just happened.
    pub(crate) fn hasten_mark(&mut self) {
        if let Some(fence) = &mut self.fence {
            fence.hasten();
        }
    }

    pub(crate) fn doubt(&mut self) {
        if let Some(fence) = &mut self.fence {
            fence.doubt();
        }
    }

    /// Whether nobody else can have led since the last [`Event::Doubt`](crate::event::Event::Doubt).
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.fence.as_ref().is_none_or(Fence::is_trusted)
    }

    /// Whether a mark with this number was taken since the last doubt.
    #[must_use]
    pub fn settles_doubt(&self, number: MarkNumber) -> bool {
        self.fence.as_ref().is_none_or(|fence| fence.settles_doubt(number))
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
        self.fence.as_ref().is_none_or(|fence| fence.covers(&self.resource, bill, start))
    }

    pub(crate) fn store_lost(&mut self, now: Time) {
        let Some(fence) = &mut self.fence else { return };
        fence.store_lost(&self.resource, now);
        self.ledger.note_change();
    }

    fn grantable_at_once(&self, now: Time) -> Vec<AtOnce> {
        let mut held = Backlog::none(&self.resource);
        self.bills_held().for_each(|bill| held.add(&self.resource, bill));
        let at_once = |(id, _)| {
            let Book { bucket, limit, .. } = self.ledger.book(id);
            let level = self.near_level(now, limit, bucket);
            AtOnce { wanted: held.of(id) + self.startable(id, level), level }
        };
        self.resource.limits_by_id().map(at_once).collect()
    }

    /// The level of a bucket as far as near starts are concerned.
    pub(crate) fn near_level(&self, now: Time, limit: &Limit, bucket: &Bucket) -> Credit {
        // What comes in at once is asked for when it does, and not long before.
        let soon = self.resource.spec().horizon + self.resource.spec().reservation;
        bucket.level_until(limit, now, now + if limit.has_tokens() { NEAR } else { soon })
    }

    /// What those who wait could take from a limit at this level, which is no more than there is for their class.
    fn startable(&self, id: LimitId, level: Credit) -> Credit {
        let limit = &self.resource.limits()[id.index()];
        let of_class = |class: ClassId| {
            let stock = (level - limit.headroom(self.tier(class))).max(Credit::ZERO);
            self.backlog_through(class).of(id).min(stock)
        };
        let classes = self.resource.classes_by_id().map(|(id, _)| id).filter(|id| !self.lines[id.index()].is_empty());
        classes.map(of_class).max().unwrap_or(Credit::ZERO)
    }
}
