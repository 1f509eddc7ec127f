//! Pages of keys: what the store knows of the idle keys of long limits, whose keys checkpoints
//! list.
//!
//! A checkpoint lists the keys of long limits that are in use, each with a budget. If these become
//! many, idle keys are written to a page, once, and later checkpoints only name the page. So the
//! size of a checkpoint follows the keys in use, and a hundred thousand keys are known after a
//! crash. A key that is used again leaves its page, and its latest record counts. A page with few
//! keys left is given up, and its keys are listed again. (Compare the cleaning of a log-structured
//! file system; Rosenblum and Ousterhout, 1992.)
//!
//! Pages are parts of one record, not shards with a budget each. So one compare-and-set still
//! decides on the whole record, a new key waits for one write, and idle keys are not written again.
//!
//! Each checkpoint writes one page and looks at 6 000 keys at most; more would take several
//! milliseconds. If more keys of long limits are in use, a crash leaves them empty. 100 000 keys
//! are on pages after 14 s. A key with promises goes to a page only if the checkpoint has no room.
//!
//! A key on a page is a bucket like any other. A change of limits recasts it by the same rule, to
//! the same nanosecond.

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

/// Where the store keeps a page. The address is used again once no checkpoint names the page.
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
    /// The amounts that former leaders may have granted to each of its keys since then, by limit.
    pub(crate) granted_since: Vec<Credit>,
    /// All keys that the page lists, and the number of those that have not left it.
    keys: Vec<Slot>,
    remaining: usize,
}

impl PageState {
    fn is_sparse(&self) -> bool {
        self.remaining < self.keys.len().div_ceil(SPARSE_PART)
            || self.granted_since.iter().any(|granted| *granted > Credit::ZERO)
    }
}

/// All pages that checkpoints name.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyPages {
    pages: BTreeMap<PageNumber, PageState>,
    /// How many pages there have been.
    written: u32,
    /// Addresses that may be used again, each once the store holds this checkpoint.
    free: VecDeque<(CheckpointNumber, u32)>,
    /// The first address that was never used.
    pub(crate) first_unused: u32,
}

impl KeyPages {
    /// All pages, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PageState> {
        self.pages.values()
    }

    /// Notes that a key has left its page.
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

    /// The id of the next page. `stored` is the latest checkpoint that the store holds.
    pub(crate) fn next_id(&mut self, epoch: Epoch, stored: CheckpointNumber) -> KeyPageId {
        let free = self.free.pop_front_if(|(checkpoint, _)| *checkpoint <= stored);
        let address = free.map_or(self.first_unused, |(_, address)| address);
        self.first_unused = self.first_unused.max(address.saturating_add(1));
        KeyPageId { epoch, address, serial: u64::from(self.written) + 1 }
    }

    /// Gives up the pages that no key is on: the `next` checkpoint does not name them.
    pub(crate) fn drop_empty(&mut self, epoch: Epoch, next: CheckpointNumber) {
        let free = &mut self.free;
        self.pages.retain(|_, page| {
            let address = Some(page.id.address).filter(|_| page.remaining == 0 && page.id.epoch == epoch);
            free.extend(address.map(|address| (next, address)));
            page.remaining > 0
        });
    }

    /// The next page whose keys are to be listed again.
    pub(super) fn sparse(&self) -> Option<(PageNumber, Vec<Slot>)> {
        let (number, page) = self.pages.iter().find(|(_, page)| page.is_sparse())?;
        Some((*number, page.keys.clone()))
    }

    /// Gives up all pages: their records are outdated.
    pub(super) fn clear(&mut self) {
        self.pages.values_mut().for_each(|page| page.remaining = 0);
    }
}

/// The bucket of a key that was never used.
pub(super) fn initial_absent(resource: &Resource, limit: &Limit, now: Time) -> Bucket {
    match resource.spec().start {
        StartPolicy::Empty => Bucket::empty_until(limit, now, now),
        StartPolicy::Full | StartPolicy::Unproven => Bucket::new(limit, Time::ORIGIN, limit.full()),
    }
}
