//! The state that a successor starts from, as the store has it.
//!
//! Names and order of the fields are those of stored records. A snapshot may be older or newer than
//! its reader, so a restore ignores whatever its resource cannot have.
//!
//! A value of the store has at most 1 MiB. Whatever clients can make longer or more is counted as
//! encoded: a control character of a key takes six bytes. What has no room is covered by a coarser
//! statement that never frees anything: all other keys are empty until the last of them is free.

use crate::array_form::stored_as_array;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

pub use crate::ledger::key_pages::KeyPageId;
pub use crate::limits::DebitSnapshot;
pub use crate::limits::usage::{CountedUsage, ReportedUsage, UsageSpan};
pub use crate::offset::Offset;

/// The state of a resource at one instant. It refers to limits by name, to outlive their change.
///
/// Levels count every promise as spent. Only what `permits` or `unsettled` names can be returned
/// later, so a snapshot with shortened lists is still safe. There is no history of levels, so token buckets
/// return nothing of an earlier call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// All buckets without keys.
    pub levels: Vec<LevelSnapshot>,
    /// The buckets of keys.
    pub keys: KeysSnapshot,
    /// Freezes and spent quotas.
    pub freezes: Vec<FreezeSnapshot>,
    /// Remembered permits, the latest start first, then returned ones.
    pub permits: Vec<PermitSnapshot>,
    /// Calls of quotas whose settles may give something back, besides those of `permits`.
    pub unsettled: Vec<UnsettledCall>,
    /// Pages that the store must hold before this snapshot, which refers to them.
    pub new_pages: Vec<NewPage>,
}

/// The buckets of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysSnapshot {
    /// Keys that are listed one by one.
    pub listed: Vec<KeySnapshot>,
    /// The state of each unlisted key, for each limit where it is known.
    pub known: Vec<OtherKeysSnapshot>,
    /// How long after the snapshot all other keys are empty; `None` if they are full.
    pub others_empty_in: Option<Offset>,
    /// The refill rates of keys listed or on pages. Limits without one have that of the restore.
    pub rates: Vec<RateSnapshot>,
    /// Pages with more keys, the oldest first. A later page takes precedence over an earlier one,
    /// and `listed` over all pages.
    pub pages: Vec<KeyPage>,
}

/// The rate of a limit with keys: a capacity in each period.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RateSnapshot {
    /// The limit's name. A name that the restored resource lacks is ignored.
    pub limit: Name,
    /// The capacity, in millionths.
    pub capacity_micros: u64,
    /// The period.
    pub period: Span,
}
stored_as_array!(RateSnapshot: limit, capacity_micros, period);

/// A page of keys at rest. It is written once, and later checkpoints refer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPage {
    /// Its id in the store.
    #[serde(flatten)]
    pub id: KeyPageId,
    /// The age of the page at the snapshot.
    pub age: Span,
    /// The budget of each of its keys since then, in millionths by limit.
    pub spent: Vec<(Name, u64)>,
    /// Its keys, which the store holds apart; `None` if they are lost or not yet read.
    #[serde(skip)]
    pub keys: Option<Vec<KeySnapshot>>,
}

/// A page to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPage {
    /// Its id in the store.
    pub id: KeyPageId,
    /// The keys at the time of the snapshot.
    pub keys: Vec<KeySnapshot>,
}

/// The bucket of a key with all promises spent. Until the last is due, nothing else may be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySnapshot {
    /// Its limit.
    pub limit: Name,
    /// Its key.
    pub key: String,
    /// Its level in millionths.
    pub micros: i64,
    /// Its usage, if the limit does not count tokens.
    pub usage: Option<CountedUsage>,
}

/// The state of each unlisted key of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OtherKeysSnapshot {
    /// The limit's name. A name that the restored resource lacks is ignored.
    pub limit: Name,
    /// The level in millionths.
    pub micros: i64,
    /// The usage, if the limit does not count tokens.
    pub usage: Option<CountedUsage>,
}
stored_as_array!(OtherKeysSnapshot: limit, micros, usage);

/// A bucket without keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelSnapshot {
    /// Its limit.
    pub limit: Name,
    /// Its level in millionths, with all promises and the budget spent.
    pub micros: i64,
    /// The budget in millionths: what may still be granted under a checkpoint.
    pub budget: u64,
    /// Amounts that a successor keeps back for possible promises; ends ascend, amounts never rise.
    #[serde(rename = "withheld", skip_serializing_if = "Vec::is_empty", default)]
    pub pending_debits: Vec<DebitSnapshot>,
    /// Its usage, if the limit does not count tokens. The level then has no meaning.
    #[serde(rename = "taken", skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<CountedUsage>,
    /// How long ago it could have held how much more, in millionths; less each time. Refunds of
    /// calls in flight need no more room. Only a graceful stop writes it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rooms: Vec<(Span, u64)>,
}

/// A freeze, or a quota that the upstream declared spent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FreezeSnapshot {
    /// The limit's name. A name that the restored resource lacks is ignored.
    pub limit: Name,
    /// The key, if the limit has keys; without one, the freeze is of all its listed keys that have
    /// no freeze of their own.
    pub key: Option<String>,
    /// The time from the snapshot to the end.
    pub ends_in: Span,
    /// Whether it is a spent quota, for which no request waits.
    pub spent: bool,
    /// Whether an operator ordered it. Early records do not say so.
    #[serde(default)]
    pub ordered: bool,
}
stored_as_array!(FreezeSnapshot: limit, key, ends_in, spent, ordered);

/// What a call that is not settled was charged in quotas.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct UnsettledCall {
    /// The id of its permit.
    pub id: PermitId,
    /// Its start, relative to the snapshot.
    pub start: Offset,
    /// Its charges in millionths by limit.
    pub bill: Vec<(Name, u64)>,
    /// Its charges in millionths by limit and key.
    pub keyed: Vec<(Name, String, u64)>,
}
stored_as_array!(UnsettledCall: id, start, bill, keyed);

/// A remembered permit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitSnapshot {
    /// Its id.
    pub id: PermitId,
    /// Its start, relative to the snapshot.
    #[serde(rename = "start_nanos")]
    pub start: Offset,
    /// Its class.
    pub class: Name,
    /// The client that its call counts for; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client: Option<String>,
    /// Its charges in millionths by limit; a returned permit has none.
    pub bill: Vec<(Name, u64)>,
    /// Its charges in millionths by limit and key.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub keyed: Vec<(Name, String, u64)>,
    /// The limits in which the call holds a place, with the end of the lease relative to the
    /// snapshot. For any other limit, the lease ends one period after the start.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub held_until: Vec<(Name, Offset)>,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Granted, without a reported outcome.
    Open,
    /// Settled.
    Settled,
    /// Given back.
    Returned,
}

/// The most bytes of one limit: its level or that of unlisted keys, its rate, freeze and quota.
const LIMIT_BYTES: usize = 7_000;

/// The largest number of keys with far promises in a checkpoint; the next one bounds all others.
pub(crate) const MAX_FAR_KEYS: usize = 256;
/// With more keys in use, those at rest are written to pages.
pub(crate) const MAX_UNPAGED_KEYS: usize = 500;
/// The largest number of keys on a page, and of keys with budgets in a checkpoint.
pub(crate) const MAX_PAGE_KEYS: usize = 3000;
/// The largest number of keys that a graceful stop lists besides those on pages.
pub(crate) const MAX_KEYS_AT_STOP: usize = 10_000;

/// Bytes that are left for one part of a record, or for several.
#[derive(Debug)]
pub(crate) struct RecordSpace(usize);

impl RecordSpace {
    /// Returns the space of a record of `bytes` for all but its `limits`.
    pub(crate) fn of(bytes: usize, limits: usize) -> Self {
        RecordSpace(bytes.saturating_sub(limits * LIMIT_BYTES))
    }

    /// The space for the permits of a hand-over, stored beside its record within some seconds.
    pub(crate) const PERMITS: RecordSpace = RecordSpace(128 << 20);

    /// Takes the first items, at most `most`, that fit into one `part` of what is left.
    pub(crate) fn fitting<T>(
        &mut self,
        part: usize,
        most: usize,
        items: impl Iterator<Item = T>,
        size: impl Fn(&T) -> usize,
    ) -> Vec<T> {
        let room = self.0 / part;
        let mut left = room;
        let fits = |item: &T| left.checked_sub(size(item)).map(|rest| left = rest).is_some();
        let fitting = items.take(most).take_while(fits).collect();
        assert!(left <= room && room <= self.0, "a part fits into what is left");
        self.0 -= room - left;
        fitting
    }
}

pub(crate) fn encoded<T: Serialize + ?Sized>(value: &T) -> usize {
    ",".len() + serde_json::to_vec(value).expect("records are plain data").len()
}

/// Returns the bytes of a key. Without tokens, its record has its name twice, and its usage.
pub(crate) fn encoded_key(KeySnapshot { limit, key, micros, usage }: &KeySnapshot) -> usize {
    encoded(&(limit, key, micros)) + usage.as_ref().map_or(0, |usage| encoded(&(limit, key, usage)))
}

/// Sorts the first `most` items to the front and drops the others.
pub(crate) fn keep_first<T>(all: &mut Vec<T>, most: usize, order: impl Fn(&T, &T) -> Ordering) {
    if all.len() > most {
        all.select_nth_unstable_by(most, &order);
        all.truncate(most);
    }
    all.sort_unstable_by(order);
}
