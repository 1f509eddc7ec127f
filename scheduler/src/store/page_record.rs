//! How a record names pages of keys.

use rampmeter_protocol::name::Name;
use rampmeter_scheduler_core::durability::snapshot::{KeyPage, KeySnapshot, PageId};
use serde::{Deserialize, Serialize};

/// A page, as a record names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PageRecord {
    epoch: u64,
    place: u32,
    serial: u64,
    /// How many nanoseconds before the writing of the record it was taken.
    age: u64,
    /// What each key may have been granted since, in millionths by limit.
    spent: Vec<(Name, u64)>,
}

impl PageRecord {
    pub(super) fn of(page: &KeyPage) -> Self {
        let PageId { epoch, place, serial } = page.id;
        PageRecord { epoch, place, serial, age: page.age_nanos, spent: page.spent.clone() }
    }

    /// The core's page, with its keys as far as they are at hand.
    pub(super) fn page(&self, keys: Option<Vec<KeySnapshot>>) -> KeyPage {
        KeyPage { id: self.id(), age_nanos: self.age, spent: self.spent.clone(), keys }
    }

    pub(super) fn id(&self) -> PageId {
        PageId { epoch: self.epoch, place: self.place, serial: self.serial }
    }
}

/// The keys of each page that a record names, in its order; `None` for a page that is missing or
/// damaged.
pub type StoredPages = Vec<Option<Vec<KeySnapshot>>>;
