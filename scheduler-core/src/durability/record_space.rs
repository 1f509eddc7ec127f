//! What a record has room for.

use super::snapshot::KeySnapshot;
use std::cmp::Ordering;

/// Bytes that a record gives to keys: a value of the store has at most 1 MiB.
pub(crate) const ROOM: usize = 900_000;
/// Bytes that a checkpoint gives to keys with budgets, and to those without.
pub(crate) const HALF: usize = ROOM / 2;
/// What is written of a key beside its name and that of its limit.
const FRAME: usize = 64;
/// What is written of a time in which something is taken.
const SPAN: usize = 66;

/// Most keys without budgets that a checkpoint lists: beyond these, all wait as long as the next one has to.
pub(crate) const MOST_FAR: usize = 256;
/// Of more keys with budgets than these, those at rest are written to pages.
pub(crate) const MANY_IN_USE: usize = 500;
/// Most keys on a page; and most that a checkpoint has budgets for, until the others have been written to pages.
pub(crate) const MOST_ON_PAGE: usize = 3000;
/// Most keys that a graceful stop lists beside those on pages.
pub(crate) const MOST_AT_STOP: usize = 10_000;

/// Those keys, from the first on, that a record has room for: so many, in so many bytes.
pub(crate) fn fitting(most: usize, room: usize, keys: impl Iterator<Item = KeySnapshot>) -> Vec<KeySnapshot> {
    let mut left = room;
    let fits = |key: &KeySnapshot| left.checked_sub(size(key)).map(|rest| left = rest).is_some();
    keys.take(most).take_while(fits).collect()
}

/// Bytes of a key, at most. Where its limit counts something else than tokens, its name is written twice, and each span once.
fn size(key: &KeySnapshot) -> usize {
    let name = FRAME + key.limit.len() + key.key.chars().map(written).sum::<usize>();
    key.taken.as_ref().map_or(name, |taken| name + name + SPAN * taken.spans.len())
}

/// The first `most` in order: the others need not be sorted.
pub(crate) fn keep_first<T>(all: &mut Vec<T>, most: usize, order: impl Fn(&T, &T) -> Ordering) {
    if all.len() > most {
        all.select_nth_unstable_by(most, &order);
        all.truncate(most);
    }
    all.sort_unstable_by(order);
}

/// Bytes of a character in a JSON string, at most.
fn written(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        control if control.is_control() => 6,
        other => other.len_utf8(),
    }
}
