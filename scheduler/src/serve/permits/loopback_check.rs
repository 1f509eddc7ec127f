//! Hearing oneself: a loop whose messages do not come in any more must not lead, and while its answers are held up it grants nothing
//! to those who wait.

use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::time::{Span, Time};

/// How often it is to sing when nothing is granted.
const EVERY: Span = Span::from_secs(1);
/// How often at most: a song tells that the grants before it have come through, however many they are.
const SOONEST: Span = Span::from_millis(10);
/// Silent for so long, it is dead: two of its songs were lost.
const DEAD_AFTER: Span = Span::from_millis(3500);

/// A message to oneself, by the way that requests and answers take.
#[derive(Debug)]
pub struct LoopbackCheck {
    sung_at: Time,
    heard_at: Time,
    /// When the first song was sung that is not heard yet.
    unheard_since: Option<Time>,
    /// Whether something was granted since the last song.
    granted: bool,
    name: String,
}

impl LoopbackCheck {
    /// One that lives at `now`, and whose songs begin with `name`.
    #[must_use]
    pub fn new(now: Time, name: &str) -> Self {
        let name = name.to_owned();
        LoopbackCheck { sung_at: now - EVERY, heard_at: now, unheard_since: None, granted: false, name }
    }

    /// Something was granted, which a song is to follow.
    pub fn note_grant(&mut self) {
        self.granted = true;
    }

    /// When it sings next.
    #[must_use]
    pub fn next_song(&self) -> Time {
        let follows = self.granted && self.unheard_since.is_none();
        self.sung_at + if follows { SOONEST } else { EVERY }
    }

    /// The song of `now`, if it sings.
    pub fn sing(&mut self, now: Time) -> Option<String> {
        if now < self.next_song() {
            return None;
        }
        (self.sung_at, self.granted) = (now, false);
        self.unheard_since.get_or_insert(now);
        Some(format!("{} {}", self.name, now.nanos()))
    }

    /// When the song was sung that was heard at `now`, if it is its own and not another's.
    pub fn hear(&mut self, now: Time, song: &[u8]) -> Option<Time> {
        let song: String = serde_json::from_slice(song).ok()?;
        let sung_at = Time::from_nanos(song.strip_prefix(&self.name)?.strip_prefix(' ')?.parse().ok()?);
        self.heard_at = now;
        self.unheard_since = (sung_at < self.sung_at).then_some(self.sung_at);
        Some(sung_at)
    }

    /// Nobody can be heard: what was sung is lost, and sung again as soon as somebody can.
    pub fn lose(&mut self, now: Time) {
        self.heard_at = now;
        self.sung_at = now - EVERY;
    }

    /// Whether it was heard lately.
    #[must_use]
    pub fn is_alive(&self, now: Time) -> bool {
        now.since(self.heard_at) < DEAD_AFTER
    }

    /// From when on a song is late that is not heard by then, if one is out.
    #[must_use]
    pub fn late_from(&self) -> Option<Time> {
        self.unheard_since.map(|since| since + LATENESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Span::from_millis(ms)
    }

    fn quoted(song: Option<String>) -> Vec<u8> {
        serde_json::to_vec(&song.expect("a song")).unwrap()
    }

    #[test]
    fn a_canary_that_is_not_heard_is_dead() {
        let mut loopback_check = LoopbackCheck::new(at(10_000), "a");
        let song = quoted(loopback_check.sing(at(10_000)));
        assert!(loopback_check.sing(at(10_999)).is_none());
        assert_eq!(LoopbackCheck::new(at(10_000), "b").hear(at(10_001), &song), None);
        assert_eq!(loopback_check.hear(at(11_001), &song), Some(at(10_000)));
        assert!(loopback_check.is_alive(at(14_500)) && !loopback_check.is_alive(at(14_501)));
        assert_eq!(loopback_check.hear(at(11_001), b"\"a\""), None);
    }

    #[test]
    fn a_song_follows_what_was_granted_and_is_late_in_its_time() {
        let mut loopback_check = LoopbackCheck::new(at(10_000), "a");
        let first = quoted(loopback_check.sing(at(10_000)));
        loopback_check.note_grant();
        assert_eq!(
            (loopback_check.next_song(), loopback_check.late_from()),
            (at(11_000), Some(at(10_050))),
            "one at a time"
        );
        loopback_check.hear(at(10_002), &first);
        assert_eq!((loopback_check.next_song(), loopback_check.late_from()), (at(10_010), None));
        let lost = quoted(loopback_check.sing(at(10_010)));
        let again = quoted(loopback_check.sing(at(11_010)));
        assert_eq!(loopback_check.late_from(), Some(at(10_060)));
        loopback_check.hear(at(11_020), &lost);
        assert_eq!(loopback_check.late_from(), Some(at(11_060)));
        loopback_check.hear(at(11_021), &again);
        assert_eq!(loopback_check.late_from(), None);
        loopback_check.lose(at(12_000));
        assert!(loopback_check.sing(at(12_000)).is_some(), "as soon as it can be heard");
    }
}
