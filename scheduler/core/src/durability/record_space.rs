//! The bytes of a stored record, and how its parts share them.
//!
//! A value of the store has at most 1 MiB. Everything that clients can make longer or more is
//! counted as it is encoded: a control character of a key takes six bytes. What has no room is
//! covered by a coarser statement, which never frees anything: all other keys are empty until the
//! last of them is free.

use super::snapshot::KeySnapshot;
use serde::Serialize;
use std::cmp::Ordering;
use std::io;

/// The most bytes of one limit: its level or that of unlisted keys, its rate, freeze and quota.
const LIMIT_BYTES: usize = 7_000;
/// The bytes of all permits of a hand-over, which has some seconds to write them.
const PERMITS_BYTES: usize = 128 << 20;

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
    /// What a record of `bytes` has for other things than its `limits`.
    pub(crate) fn of(bytes: usize, limits: usize) -> Self {
        RecordSpace(bytes.saturating_sub(limits * LIMIT_BYTES))
    }

    /// The permits of a hand-over, which are stored beside its record.
    pub(crate) fn of_permits() -> Self {
        RecordSpace(PERMITS_BYTES)
    }

    /// Takes room for the first items, at most `most`, that fit into one `part` of what is left.
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

/// The bytes of a value in a list.
pub(crate) fn encoded<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut length = Length(",".len());
    serde_json::to_writer(&mut length, value).expect("records are plain data");
    length.0
}

/// The bytes of a key. The record of a key without tokens has its name twice, and its usage.
pub(crate) fn encoded_key(KeySnapshot { limit, key, micros, usage }: &KeySnapshot) -> usize {
    encoded(&(limit, key, micros)) + usage.as_ref().map_or(0, |usage| encoded(&(limit, key, usage)))
}

/// Counts what is written.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sorts the first `most` items to the front and drops the others.
pub(crate) fn keep_first<T>(all: &mut Vec<T>, most: usize, order: impl Fn(&T, &T) -> Ordering) {
    if all.len() > most {
        all.select_nth_unstable_by(most, &order);
        all.truncate(most);
    }
    all.sort_unstable_by(order);
}
