//! The stored form of a reference to a page of keys.

use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::durability::snapshot::{KeyPage, KeyPageId, KeySnapshot};
use serde::{Deserialize, Serialize};

/// A reference to a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PageRecord {
    epoch: Epoch,
    place: u32,
    serial: u64,
    /// The age of the page in nanoseconds at the writing of the record.
    age: u64,
    /// The most that was granted to each key since the page was written, in millionths by limit.
    spent: Vec<(Name, u64)>,
}

impl PageRecord {
    pub(super) fn of(page: &KeyPage) -> Self {
        let KeyPageId { epoch, address, serial } = page.id;
        PageRecord { epoch, place: address, serial, age: page.age.nanos(), spent: page.spent.clone() }
    }

    /// The core's page with these keys; without them if the page could not be read.
    pub(super) fn page(&self, keys: Option<Vec<KeySnapshot>>) -> KeyPage {
        KeyPage { id: self.id(), age: Span::from_nanos(self.age), spent: self.spent.clone(), keys }
    }

    pub(super) fn id(&self) -> KeyPageId {
        KeyPageId { epoch: self.epoch, address: self.place, serial: self.serial }
    }
}

/// The keys of each page that a record names, in the record's order; `None` for a missing or
/// damaged page.
pub type StoredPages = Vec<Option<Vec<KeySnapshot>>>;
