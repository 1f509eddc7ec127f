//! Bounds on the size of a stored record.

use super::snapshot::KeySnapshot;
use crate::adaptation::cost_estimates::CostFactor;
use std::cmp::Ordering;

/// The bytes for keys in a record. A value of the store has at most 1 MiB.
pub(crate) const KEYS_BYTES: usize = 900_000;
/// The bytes for keys with budgets in a checkpoint, and the same for keys with far promises.
pub(crate) const HALF_KEYS_BYTES: usize = KEYS_BYTES / 2;
/// The bytes of a key besides its name and its limit's name.
const KEY_BYTES: usize = 64;
/// The bytes of one span of usage.
const SPAN_BYTES: usize = 66;

/// The bytes for learned factors of costs. A record has room for more, but is written several times
/// a second.
const COSTS_BYTES: usize = 32 << 10;
/// The bytes of such a factor besides its names.
const FACTOR_BYTES: usize = 48;

/// The largest number of keys with far promises in a checkpoint; the next one bounds all others.
pub(crate) const MAX_FAR_KEYS: usize = 256;
/// With more keys in use, those at rest are written to pages.
pub(crate) const MAX_UNPAGED_KEYS: usize = 500;
/// The largest number of keys on a page, and of keys with budgets in a checkpoint.
pub(crate) const MAX_PAGE_KEYS: usize = 3000;
/// The largest number of keys that a graceful stop lists besides those on pages.
pub(crate) const MAX_KEYS_AT_STOP: usize = 10_000;

/// The first keys, at most `most` of them, that fit into `room` bytes.
pub(crate) fn fitting(most: usize, room: usize, keys: impl Iterator<Item = KeySnapshot>) -> Vec<KeySnapshot> {
    let mut left = room;
    let fits = |key: &KeySnapshot| left.checked_sub(size(key)).map(|rest| left = rest).is_some();
    keys.take(most).take_while(fits).collect()
}

/// The first factors that fit into [`COSTS_BYTES`].
pub(crate) fn fitting_costs(factors: impl Iterator<Item = CostFactor>) -> Vec<CostFactor> {
    let mut left = COSTS_BYTES;
    let size = |factor: &CostFactor| FACTOR_BYTES + factor.unit.len() + escaped(&factor.kind);
    let fits = |factor: &CostFactor| left.checked_sub(size(factor)).map(|rest| left = rest).is_some();
    factors.take_while(fits).collect()
}

/// The largest size of a key in bytes. The record of a key without tokens has its name twice, and
/// its spans.
fn size(key: &KeySnapshot) -> usize {
    let name = KEY_BYTES + key.limit.len() + escaped(&key.key);
    key.usage.as_ref().map_or(name, |usage| name + name + SPAN_BYTES * usage.spans.len())
}

/// Sorts the first `most` items to the front and drops the others.
pub(crate) fn keep_first<T>(all: &mut Vec<T>, most: usize, order: impl Fn(&T, &T) -> Ordering) {
    if all.len() > most {
        all.select_nth_unstable_by(most, &order);
        all.truncate(most);
    }
    all.sort_unstable_by(order);
}

/// The largest size of a text in a JSON string.
fn escaped(text: &str) -> usize {
    text.chars().map(escaped_len).sum()
}

/// The largest size of a character in a JSON string.
fn escaped_len(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        control if control.is_control() => 6,
        other => other.len_utf8(),
    }
}
