//! A permit loop's messages to itself, called echoes. A loop that no longer receives any must not lead.
//! While they are late, answers are late too, and waiting requests get no permits.

use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::time::{Span, Time};

/// Pause between two echoes when nothing is granted.
const EVERY: Span = Span::from_secs(1);
/// The shortest pause: one echo shows whether all grants before it arrive in time.
const SOONEST: Span = Span::from_millis(10);
/// How long a loop may receive no echo. By then three are missing.
const DEAD_AFTER: Span = Span::from_millis(3500);

/// Sends and receives echoes on the path of requests and answers, one after each grant once the previous one is back.
#[derive(Debug)]
pub struct LoopbackCheck {
    sent_at: Time,
    alive_at: Time,
    /// When the oldest missing echo was sent.
    missing_since: Option<Time>,
    /// The number of grants when the last echo was sent.
    followed: u64,
    /// Whether the core knows that answers are late.
    late: bool,
    name: String,
}

impl LoopbackCheck {
    /// Creates a check that is alive at `now`, and whose echoes begin with `name`.
    #[must_use]
    pub fn new(now: Time, name: &str) -> Self {
        let name = name.to_owned();
        LoopbackCheck { sent_at: now - EVERY, alive_at: now, missing_since: None, followed: 0, late: false, name }
    }

    /// Returns when to send the next echo, if `grants` permits were granted in all.
    #[must_use]
    pub fn next_echo(&self, grants: u64) -> Time {
        let follows = grants > self.followed && self.missing_since.is_none();
        self.sent_at + if follows { SOONEST } else { EVERY }
    }

    /// Returns the echo to send at `now`, if one is due.
    pub fn send(&mut self, now: Time, grants: u64) -> Option<String> {
        if now < self.next_echo(grants) {
            return None;
        }
        (self.sent_at, self.followed) = (now, grants);
        self.missing_since.get_or_insert(now);
        Some(format!("{} {}", self.name, now.nanos()))
    }

    /// Handles an echo received at `now`. Returns when this loop sent it, or `None` if another loop did.
    pub fn take_echo(&mut self, now: Time, echo: &[u8]) -> Option<Time> {
        let sent_at = self.sent_at(echo)?;
        self.alive_at = now;
        self.missing_since = (sent_at < self.sent_at).then_some(self.sent_at);
        self.late = false;
        Some(sent_at)
    }

    fn sent_at(&self, echo: &[u8]) -> Option<Time> {
        let echo: String = serde_json::from_slice(echo).ok()?;
        Some(Time::from_nanos(echo.strip_prefix(&self.name)?.strip_prefix(' ')?.parse().ok()?))
    }

    /// Notes that nothing can arrive: echoes are lost, and the next one is due at once.
    pub fn lose(&mut self, now: Time) {
        self.alive_at = now;
        self.sent_at = now - EVERY;
    }

    /// Returns whether an echo arrived lately.
    #[must_use]
    pub fn is_alive(&self, now: Time) -> bool {
        now.since(self.alive_at) < DEAD_AFTER
    }

    /// Returns whether the last echo has become late by `now`. Call this only when nothing else has arrived,
    /// because a busy loop receives its echo late, which does not mean that answers are late.
    pub fn notice_late(&mut self, now: Time) -> bool {
        let late = self.late_from().is_some_and(|late_from| late_from <= now);
        self.late |= late;
        late
    }

    /// Returns when to check the echo or to send the next one.
    #[must_use]
    pub fn next_look(&self, grants: u64) -> Time {
        self.next_echo(grants).min(self.late_from().unwrap_or(Time::NEVER))
    }

    /// Returns when the echo under way becomes late, or `None` if it already is.
    fn late_from(&self) -> Option<Time> {
        self.missing_since.filter(|_| !self.late).map(|since| since + LATENESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Span::from_millis(ms)
    }

    fn quoted(echo: Option<String>) -> Vec<u8> {
        serde_json::to_vec(&echo.expect("an echo")).unwrap()
    }

    #[test]
    fn a_loop_that_does_not_hear_itself_is_dead() {
        let mut check = LoopbackCheck::new(at(10_000), "a");
        let echo = quoted(check.send(at(10_000), 0));
        assert!(check.send(at(10_999), 0).is_none());
        assert_eq!(LoopbackCheck::new(at(10_000), "b").take_echo(at(10_001), &echo), None);
        assert_eq!(check.take_echo(at(11_001), &echo), Some(at(10_000)));
        assert!(check.is_alive(at(14_500)) && !check.is_alive(at(14_501)));
        assert_eq!(check.take_echo(at(11_001), b"\"a\""), None);
    }

    #[test]
    fn an_echo_follows_each_grant_and_becomes_late() {
        let mut check = LoopbackCheck::new(at(10_000), "a");
        let first = quoted(check.send(at(10_000), 0));
        assert_eq!((check.next_echo(1), check.late_from()), (at(11_000), Some(at(10_050))), "one at a time");
        check.take_echo(at(10_002), &first);
        assert_eq!((check.next_echo(1), check.late_from()), (at(10_010), None));
        let lost = quoted(check.send(at(10_010), 1));
        assert_eq!(check.next_echo(1), at(11_010), "the echo has followed the grant");
        let again = quoted(check.send(at(11_010), 1));
        assert_eq!(check.late_from(), Some(at(10_060)));
        check.take_echo(at(11_020), &lost);
        assert_eq!(check.late_from(), Some(at(11_060)));
        check.take_echo(at(11_021), &again);
        assert_eq!(check.late_from(), None);
        check.lose(at(12_000));
        assert!(check.send(at(12_000), 1).is_some(), "as soon as it can arrive");
    }

    #[test]
    fn a_late_echo_is_told_once() {
        let mut check = LoopbackCheck::new(at(10_000), "a");
        let first = quoted(check.send(at(10_000), 0));
        assert_eq!(check.next_look(0), at(10_050));
        assert!(!check.notice_late(at(10_049)) && check.notice_late(at(10_050)));
        assert!(!check.notice_late(at(10_075)));
        assert_eq!(check.next_look(0), at(11_000));
        assert_eq!(check.take_echo(at(10_080), &first), Some(at(10_000)));
        check.send(at(11_000), 0).expect("an echo");
        assert_eq!(check.next_look(0), at(11_050));
    }
}
