//! Pages of keys: the store's record of idle keys of long limits, whose keys checkpoints list.
//!
//! A checkpoint lists the keys of long limits that are in use, each with a budget. If these become
//! many, idle keys are written to a page, once, and later checkpoints only refer to the page. So
//! the size of a checkpoint follows the keys in use, and a hundred thousand keys are known after a
//! crash. A key that is used again leaves its page, and its latest record counts. A page with few
//! keys left is given up, and its keys are listed again. (Compare the cleaning of a log-structured
//! file system; Rosenblum and Ousterhout, 1992.)
//!
//! Pages are parts of one record, not shards with a budget each. So one compare-and-set still
//! decides on the whole record, a new key waits for one write, and idle keys are not written again.
//!
//! Each checkpoint writes one page and examines 6 000 keys at most, as more would take several
//! milliseconds: 100 000 keys are on pages after 14 s. If more keys of long limits are in use, a
//! crash leaves them empty. A key with promises goes to a page only if the checkpoint has no room.
//! A change of limits recasts a key on a page like any other, to the same nanosecond.

use crate::checkpoint_number::CheckpointNumber;
use crate::collections::Slot;
use crate::limits::Bucket;
use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::spec::StartPolicy;
use rampmeter_policy::{Limit, Resource};
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

/// Where the store keeps a page. The address is reused once no checkpoint refers to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyPageId {
    /// The epoch of its writer.
    pub epoch: Epoch,
    /// The address among those of the epoch.
    #[serde(rename = "place")]
    pub address: u32,
    /// Distinguishes the page from earlier ones at this address.
    pub serial: u64,
}

/// The order in which pages were written. Of several records of a key, the latest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageNumber(NonZeroU32);

/// A page with less than one part in this many of its keys left is given up.
const SPARSE_PART: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct PageState {
    pub(crate) id: KeyPageId,
    /// The time that its records describe.
    pub(crate) as_of: Time,
    /// By limit, the amount that former leaders may have granted to each of its keys since `as_of`.
    pub(crate) granted_since: Vec<Credit>,
    /// All keys that the page lists, and how many of them have not left it.
    keys: Vec<Slot>,
    remaining: usize,
}

impl PageState {
    fn is_sparse(&self) -> bool {
        self.remaining < self.keys.len().div_ceil(SPARSE_PART)
            || self.granted_since.iter().any(|granted| *granted > Credit::ZERO)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct KeyPages {
    pages: BTreeMap<PageNumber, PageState>,
    written: u32,
    /// Addresses that may be reused, each once the store holds this checkpoint.
    free: VecDeque<(CheckpointNumber, u32)>,
    pub(crate) first_unused: u32,
}

impl KeyPages {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PageState> {
        self.pages.values()
    }

    pub(super) fn note_left(&mut self, number: PageNumber) {
        let page = self.pages.get_mut(&number).expect("a key is on a page that there is");
        page.remaining = page.remaining.checked_sub(1).expect("a key leaves its page once");
    }

    pub(super) fn add(
        &mut self,
        id: KeyPageId,
        as_of: Time,
        granted_since: Vec<Credit>,
        keys: Vec<Slot>,
    ) -> PageNumber {
        self.written += 1;
        let number = PageNumber(NonZeroU32::new(self.written).expect("it was counted up"));
        let remaining = keys.len();
        self.pages.insert(number, PageState { id, as_of, granted_since, keys, remaining });
        number
    }

    /// Returns the id of the next page. `stored` is the latest checkpoint that the store holds.
    pub(crate) fn next_id(&mut self, epoch: Epoch, stored: CheckpointNumber) -> KeyPageId {
        let free = self.free.pop_front_if(|(checkpoint, _)| *checkpoint <= stored);
        let address = free.map_or(self.first_unused, |(_, address)| address);
        self.first_unused = self.first_unused.max(address.saturating_add(1));
        KeyPageId { epoch, address, serial: u64::from(self.written) + 1 }
    }

    /// Gives up the pages that no key is on. The `next` checkpoint does not refer to them.
    pub(crate) fn drop_empty(&mut self, epoch: Epoch, next: CheckpointNumber) {
        let free = &mut self.free;
        self.pages.retain(|_, page| {
            let address = Some(page.id.address).filter(|_| page.remaining == 0 && page.id.epoch == epoch);
            free.extend(address.map(|address| (next, address)));
            page.remaining > 0
        });
    }

    pub(super) fn sparse(&self) -> Option<(PageNumber, Vec<Slot>)> {
        let (number, page) = self.pages.iter().find(|(_, page)| page.is_sparse())?;
        Some((*number, page.keys.clone()))
    }

    /// Gives up all pages, as their records are outdated.
    pub(super) fn clear(&mut self) {
        self.pages.values_mut().for_each(|page| page.remaining = 0);
    }
}

/// Returns the bucket of a key that was never used.
pub(super) fn initial_absent(resource: &Resource, limit: &Limit, now: Time) -> Bucket {
    match resource.spec().start {
        StartPolicy::Empty => Bucket::empty_until(limit, now, now),
        StartPolicy::Full | StartPolicy::Unproven => Bucket::new(limit, Time::ORIGIN, limit.full()),
    }
}
