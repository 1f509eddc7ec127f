//! Hearing oneself: a loop whose messages do not come in any more must not lead.

use rampmeter_protocol::time::{Span, Time};

/// How often it is to sing.
const EVERY: Span = Span::from_secs(1);
/// Silent for so long, it is dead: two of its songs were lost.
const DEAD_AFTER: Span = Span::from_millis(3500);

/// A message to oneself, by the way that requests take.
#[derive(Debug)]
pub struct Canary {
    sung_at: Time,
    heard_at: Time,
    name: String,
}

impl Canary {
    /// One that lives at `now`, and whose song is `name`.
    #[must_use]
    pub fn new(now: Time, name: &str) -> Self {
        Canary { sung_at: now - EVERY, heard_at: now, name: format!("\"{name}\"") }
    }

    /// Whether it sings now.
    pub fn is_due(&mut self, now: Time) -> bool {
        let due = now.since(self.sung_at) >= EVERY;
        if due {
            self.sung_at = now;
        }
        due
    }

    /// Whether this is its own song, and not another's.
    #[must_use]
    pub fn is_own(&self, song: &[u8]) -> bool {
        song == self.name.as_bytes()
    }

    /// It was heard.
    pub fn sang(&mut self, now: Time) {
        self.heard_at = now;
    }

    /// Whether it was heard lately.
    #[must_use]
    pub fn is_alive(&self, now: Time) -> bool {
        now.since(self.heard_at) < DEAD_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_that_is_not_heard_is_dead() {
        let at = |ms| Time::ORIGIN + Span::from_millis(ms);
        let mut canary = Canary::new(at(10_000), "a");
        assert!(canary.is_due(at(10_000)) && !canary.is_due(at(10_999)) && canary.is_due(at(11_000)));
        assert!(canary.is_own(b"\"a\"") && !canary.is_own(b"\"b\""));
        canary.sang(at(11_001));
        assert!(canary.is_alive(at(14_500)) && !canary.is_alive(at(14_501)));
    }
}
