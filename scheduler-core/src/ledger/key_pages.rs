//! Pages of keys: what the store knows of the keys of long limits that rest.
//!
//! A checkpoint lists the keys of long limits that are in use, each with a budget. When these become many, those that rest are written to a
//! page, once, and later checkpoints only name the page: so the size of a checkpoint follows what is used and not what there is, and a hundred
//! thousand keys are known after a crash. A key that is used again leaves its page, and what is told last counts. A page of which
//! few keys are left is given up, and these are told anew (compare the cleaning of a log-structured file system; Rosenblum
//! and Ousterhout, 1992).

use super::keys::Keys;
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::ids::CheckpointNumber;
use rampmeter_protocol::time::Time;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

/// Where the store keeps a page: no two terms have the same place, and a place is used again once no checkpoint names what was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageId {
    /// The epoch of its writer.
    pub epoch: u64,
    /// The place among those of the epoch.
    pub place: u32,
    /// Tells what is there from what was there before.
    pub serial: u64,
}

/// A page in the order in which they were written; what is on a later one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageNumber(NonZeroU32);

/// Of a page with less than one part in this many of its keys left, these are told anew.
const SPARSE_PART: usize = 4;

/// One page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) id: PageId,
    /// When its keys were as it tells.
    pub(crate) taken: Time,
    /// What may have been granted to each of its keys since then by those that led before, by limit.
    pub(crate) spent: Vec<Credit>,
    /// All keys that it tells of, and how many of them have not left.
    keys: Vec<Slot>,
    live: usize,
}

impl Page {
    fn is_sparse(&self) -> bool {
        self.live < self.keys.len().div_ceil(SPARSE_PART) || self.spent.iter().any(|spent| *spent > Credit::ZERO)
    }
}

/// All pages that checkpoints name.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyPages {
    pages: BTreeMap<PageNumber, Page>,
    /// How many there have been.
    written: u32,
    /// Places that may be used again, each once the store holds this checkpoint.
    free: VecDeque<(CheckpointNumber, u32)>,
    places: u32,
}

impl KeyPages {
    /// New pages are kept in places from this one on.
    pub(crate) fn begin_at(&mut self, place: u32) {
        self.places = place;
    }

    /// All pages, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Page> {
        self.pages.values()
    }

    /// Notes that a key has left its page.
    pub(crate) fn leave(&mut self, number: PageNumber) {
        self.pages.get_mut(&number).expect("a key is on a page that there is").live -= 1;
    }

    /// A page of these keys, as the store has it or is to have it.
    pub(crate) fn add(&mut self, id: PageId, taken: Time, spent: Vec<Credit>, keys: Vec<Slot>) -> PageNumber {
        self.written += 1;
        let number = PageNumber(NonZeroU32::new(self.written).expect("it was counted up"));
        let live = keys.len();
        self.pages.insert(number, Page { id, taken, spent, keys, live });
        number
    }

    /// Where the next page is to be kept, while the store holds `stored`.
    pub(crate) fn next_id(&mut self, epoch: u64, stored: CheckpointNumber) -> PageId {
        let free = self.free.front().is_some_and(|(mark, _)| *mark <= stored).then(|| self.free.pop_front()).flatten();
        let place = free.map_or(self.places, |(_, place)| place);
        self.places = self.places.max(place.saturating_add(1));
        PageId { epoch, place, serial: u64::from(self.written) + 1 }
    }

    /// Gives up the pages that no key is on. The next checkpoint, `mark`, does not name them.
    pub(crate) fn drop_empty(&mut self, epoch: u64, mark: CheckpointNumber) {
        let free = &mut self.free;
        self.pages.retain(|_, page| {
            let place = Some(page.id.place).filter(|_| page.live == 0 && page.id.epoch == epoch);
            free.extend(place.map(|place| (mark, place)));
            page.live > 0
        });
    }

    /// The page whose keys are the next to be told anew, if one is.
    fn sparse(&self) -> Option<PageNumber> {
        self.pages.iter().find(|(_, page)| page.is_sparse()).map(|(number, _)| *number)
    }

    /// Gives up all pages: what they tell is not so any more.
    pub(crate) fn clear(&mut self) {
        self.pages.values_mut().for_each(|page| page.live = 0);
    }
}

impl Keys {
    /// Takes the keys of a page that few are left on into use, so that they are told anew.
    pub(crate) fn reuse_sparse_page(&mut self) {
        let Some(number) = self.pages.sparse() else { return };
        let slots = self.pages.pages.get(&number).map(|page| page.keys.clone()).unwrap_or_default();
        for slot in slots {
            if self.get(slot).is_some_and(|known| known.page == Some(number)) {
                self.leave_page(slot);
                self.in_use.insert(slot);
            }
        }
    }

    /// Notes that these keys are as a page tells that was taken then, but for what each may have been granted since.
    pub(crate) fn rest(&mut self, (id, taken, spent): (PageId, Time, Vec<Credit>), keys: Vec<Slot>) {
        let number = self.pages.add(id, taken, spent, keys.clone());
        for slot in keys {
            self.in_use.remove(&slot);
            self.get_mut(slot).expect("a key of a page is known").page = Some(number);
        }
    }

    /// Notes that a key is not as its page tells.
    pub(crate) fn leave_page(&mut self, slot: Slot) {
        if let Some(number) = self.get_mut(slot).and_then(|known| known.page.take()) {
            self.pages.leave(number);
        }
    }
}
