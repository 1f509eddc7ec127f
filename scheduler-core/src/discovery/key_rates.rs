//! Finds the rate of each key if neither the configuration nor a header states it.
//!
//! Each key has a [`RateProbe`] of its own, so that its refused calls lower no other key's rate.
//! But keys may also share one limit. Then calls of several keys are refused within a moment, and
//! these are a large share of all calls: the shared rate is to blame. A key's first refusal is no
//! evidence of a shared limit, because the rates of equal keys rise alike at first.

use super::rate_probe::{FIRST_RATE, RateProbe};
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most keys whose rates are known, which takes 2 MB. Any other key keeps the first rate.
pub(crate) const MAX_KEYS: usize = 4096;
/// A key without an answered call for this long makes room for another key.
const IDLE: Span = Span::from_secs(60);
/// The most keys in a record, and the bytes of their names: checkpoints are written several times a
/// second.
const MAX_RECORDED: usize = 256;
const RECORDED_BYTES: usize = 16 << 10;

/// The shared rate is to blame if, within a moment, calls of at least this many keys are refused
/// again. These refusals must also be at least one in [`BLAMING_PART`] responses.
const BLAMING_KEYS: usize = 4;
/// If each key has its own limit, about one call in 100 is refused, and not all at the same time.
const BLAMING_PART: u32 = 20;
/// A moment ends after this many responses, but lasts at least [`SHORTEST_MOMENT`] and at most
/// [`LONGEST_MOMENT`].
const MOMENT_ANSWERS: u32 = 100;
const SHORTEST_MOMENT: Span = Span::from_secs(2);
const LONGEST_MOMENT: Span = Span::from_secs(30);

/// The rates of keys in calls a second.
///
/// Invariant: `changed` names every key whose rate has changed since the last
/// [`KeyRates::take_changed`].
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRates {
    known: BTreeMap<Arc<str>, KeyRate>,
    changed: BTreeSet<Arc<str>>,
    /// The median rate of the keys of which a call was refused; none before the first refusal.
    median: Option<f64>,
    /// No key has been idle for [`IDLE`] before this time.
    none_idle_until: Time,
    moment: ResponseCounts,
}

#[derive(Clone, Debug)]
struct KeyRate {
    probe: RateProbe,
    /// When one of its calls was last answered.
    last_answer: Time,
}

impl KeyRates {
    /// The rates that a predecessor knew.
    pub(crate) fn restored(now: Time, rates: impl Iterator<Item = (Arc<str>, f64)>) -> Self {
        let known = |(key, rate)| (key, KeyRate { probe: RateProbe::restored(now, rate), last_answer: now });
        let mut rates = KeyRates { known: rates.take(MAX_KEYS).map(known).collect(), ..KeyRates::default() };
        rates.changed = rates.known.keys().cloned().collect();
        rates.update_median();
        rates
    }

    /// The median rate of refused keys; [`FIRST_RATE`] before any was refused.
    pub(crate) fn median_of_refused(&self) -> f64 {
        self.median.unwrap_or(FIRST_RATE)
    }

    pub(crate) fn note_served(&mut self, now: Time, key: &Arc<str>) {
        self.moment.note(now, None);
        self.change(now, key, |probe| {
            probe.note_served(now);
            probe.review(now);
        });
    }

    /// Notes that a call that started at `at` was refused, and the pause that the upstream asks
    /// for. Returns whether this key is to blame, not the shared rate.
    pub(crate) fn note_refused(&mut self, now: Time, at: Time, key: &Arc<str>, pause: Span) -> bool {
        let was_refused = self.known.get(key).is_some_and(|known| known.probe.was_refused());
        self.moment.note(now, Some(key).filter(|_| was_refused));
        let is_alone = !self.moment.blames_all();
        if is_alone {
            self.change(now, key, |probe| probe.note_refused(now, at, pause));
            self.update_median();
        }
        is_alone
    }

    /// The keys whose rates have changed since the last call, with these rates. A forgotten key has
    /// the first rate.
    pub(crate) fn take_changed(&mut self) -> impl Iterator<Item = (Arc<str>, f64)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|key| {
            let rate = self.known.get(&key).map_or(FIRST_RATE, |known| known.probe.rate());
            (key, rate)
        })
    }

    /// The fastest keys, which a successor would slow down most, with their rates.
    pub(crate) fn recorded(&self) -> Vec<(Arc<str>, f64)> {
        let mut rates: Vec<_> = self.known.iter().map(|(key, known)| (Arc::clone(key), known.probe.rate())).collect();
        rates.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        rates.truncate(MAX_RECORDED);
        let mut left = RECORDED_BYTES;
        let mut fits = |key: &str| left.checked_sub(key.len()).map(|rest| left = rest).is_some();
        rates.into_iter().take_while(|(key, _)| fits(key)).collect()
    }

    fn change(&mut self, now: Time, key: &Arc<str>, change: impl FnOnce(&mut RateProbe)) {
        if !self.known.contains_key(key) && !self.make_room(now) {
            return;
        }
        let new = || KeyRate { probe: RateProbe::new(now), last_answer: now };
        let known = self.known.entry(Arc::clone(key)).or_insert_with(new);
        let before = known.probe.rate();
        change(&mut known.probe);
        known.last_answer = now;
        if known.probe.rate() != before {
            self.changed.insert(Arc::clone(key));
        }
    }

    /// Makes room for one more key, by forgetting the key that was idle for longest. Returns
    /// whether there is room.
    fn make_room(&mut self, now: Time) -> bool {
        if self.known.len() < MAX_KEYS {
            return true;
        }
        if now < self.none_idle_until {
            return false;
        }
        let last_answer = |(key, known): (&Arc<str>, &KeyRate)| (known.last_answer, Arc::clone(key));
        let Some((last_answer, key)) = self.known.iter().map(last_answer).min_by_key(|(last_answer, _)| *last_answer)
        else {
            return true;
        };
        self.none_idle_until = last_answer + IDLE;
        let is_idle = now >= self.none_idle_until;
        if is_idle {
            self.known.remove(&key);
            self.changed.insert(key);
        }
        is_idle
    }

    fn update_median(&mut self) {
        let refused = self.known.values().map(|known| &known.probe).filter(|probe| probe.was_refused());
        let mut rates: Vec<f64> = refused.map(RateProbe::rate).collect();
        let middle = rates.len() / 2;
        self.median = (!rates.is_empty()).then(|| *rates.select_nth_unstable_by(middle, f64::total_cmp).1);
    }
}

/// The counts of one moment's responses.
#[derive(Clone, Debug, Default)]
struct ResponseCounts {
    since: Time,
    answers: u32,
    refused: u32,
    /// Keys whose calls were refused again, at most [`BLAMING_KEYS`].
    keys: BTreeSet<Arc<str>>,
}

impl ResponseCounts {
    /// Notes a response. `refused` is the key of a call that was refused again, if any.
    fn note(&mut self, now: Time, refused: Option<&Arc<str>>) {
        let lasted = now.since(self.since);
        if lasted >= LONGEST_MOMENT || lasted >= SHORTEST_MOMENT && self.answers >= MOMENT_ANSWERS {
            *self = ResponseCounts { since: now, ..ResponseCounts::default() };
        }
        self.answers += 1;
        self.refused += u32::from(refused.is_some());
        self.keys.extend(refused.filter(|_| self.keys.len() < BLAMING_KEYS).cloned());
    }

    fn blames_all(&self) -> bool {
        self.keys.len() >= BLAMING_KEYS && self.refused.saturating_mul(BLAMING_PART) >= self.answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    fn rate(rates: &KeyRates, key: &str) -> Option<f64> {
        rates.known.get(key).map(|known| known.probe.rate())
    }

    #[test]
    fn refused_calls_of_a_key_lower_its_rate_alone() {
        let mut rates = KeyRates::default();
        let keys = ["a", "b"].map(Arc::from);
        keys.iter().for_each(|key| rates.note_served(at(0), key));
        assert!(rates.note_refused(at(10), at(5), &keys[0], Span::ZERO));
        assert_eq!((rate(&rates, "a"), rate(&rates, "b")), (Some(FIRST_RATE / 2.0), Some(FIRST_RATE)));
        assert_eq!(rates.take_changed().collect::<Vec<_>>(), [(Arc::clone(&keys[0]), FIRST_RATE / 2.0)]);
        assert_eq!(rates.median_of_refused(), FIRST_RATE / 2.0);
    }

    #[test]
    fn many_refused_calls_of_several_keys_in_a_moment_blame_no_key() {
        for (served, spread, blames_keys) in [(20, 10, false), (2000, 10, true), (20, 40_000, true)] {
            let again = (0..4).map(|key| (Arc::from(key.to_string()), FIRST_RATE));
            let mut rates = KeyRates::restored(at(0), again);
            (0..served).for_each(|_| rates.note_served(at(0), &Arc::from("busy")));
            let refused = |key: u64| {
                let now = at(1 + key * spread);
                rates.note_refused(now, now, &Arc::from(key.to_string()), Span::ZERO)
            };
            let alone: Vec<bool> = (0..4).map(refused).collect();
            assert_eq!(alone, [true, true, true, blames_keys], "{served} served, every {spread} ms");
        }
    }

    #[test]
    fn the_first_refusals_of_many_keys_blame_the_keys() {
        let mut rates = KeyRates::default();
        let refused = |key: u64| rates.note_refused(at(1), at(1), &Arc::from(key.to_string()), Span::ZERO);
        assert!((0..20).all(refused));
    }

    #[test]
    fn a_record_has_the_fastest_keys() {
        let rate_of = |key: usize| FIRST_RATE / (1.0 + key as f64);
        let keys = (0..MAX_RECORDED + 10).map(|key| (Arc::from(key.to_string()), rate_of(key)));
        let recorded = KeyRates::restored(at(0), keys).recorded();
        assert_eq!(recorded.len(), MAX_RECORDED);
        assert!(recorded.iter().any(|(key, _)| **key == *"0"), "the fastest is recorded");
    }

    #[test]
    fn a_key_that_was_idle_leaves_its_place_to_another() {
        let mut rates = KeyRates::default();
        (0..MAX_KEYS).for_each(|key| rates.note_served(at(key as u64), &Arc::from(key.to_string())));
        let other = Arc::from("other");
        rates.note_served(at(50_000), &other);
        assert_eq!((rates.known.len(), rate(&rates, "other")), (MAX_KEYS, None));
        rates.note_served(at(60_000), &other);
        assert_eq!((rates.known.len(), rate(&rates, "other"), rate(&rates, "0")), (MAX_KEYS, Some(FIRST_RATE), None));
        assert_eq!(rates.take_changed().collect::<Vec<_>>(), [(Arc::from("0"), FIRST_RATE)]);
    }

    #[test]
    fn a_record_has_room_for_some_keys_the_fastest_first() {
        let named = |key: usize| Arc::from(format!("{key:0>100}"));
        let rates = KeyRates::restored(at(0), (0..=MAX_KEYS).map(|key| (named(key), 1.0 + key as f64)));
        let recorded = rates.recorded();
        assert_eq!((rates.known.len(), recorded.len()), (MAX_KEYS, RECORDED_BYTES / 100));
        assert_eq!(recorded[0], (named(MAX_KEYS - 1), MAX_KEYS as f64));
    }
}
