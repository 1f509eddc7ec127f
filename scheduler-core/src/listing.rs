//! What a record has room for.

use crate::limit::Limit;
use std::cmp::Ordering;

/// Bytes that a record gives to keys: a value of the store has at most 1 MiB.
const ROOM: usize = 900_000;
/// What is written of a key beside its name and that of its limit.
const FRAME: usize = 64;
/// What is written of a time in which something is taken.
const SPAN: usize = 66;

/// Room that is left for keys.
pub(crate) struct Listing {
    room: usize,
    places: usize,
}

impl Listing {
    /// Room for so many keys, if their names are not too long.
    pub(crate) fn of(places: usize) -> Self {
        Listing { room: ROOM, places }
    }

    /// Half of a record.
    pub(crate) fn half(places: usize) -> Self {
        Listing { room: ROOM / 2, places }
    }

    /// Whether there is room for this key, which it takes. Where its limit counts something else than tokens, so many spans are written
    /// of it, beside its name once more.
    pub(crate) fn admits(&mut self, limit: &Limit, key: &str, spans: usize) -> bool {
        let name = FRAME + limit.spec().name.len() + key.chars().map(written).sum::<usize>();
        let size = if limit.has_tokens() { name } else { name + name + SPAN * spans };
        let fits = self.places > 0 && size <= self.room;
        if fits {
            (self.places, self.room) = (self.places - 1, self.room - size);
        }
        fits
    }
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
