//! Noticing that one has not been running.

use crate::store::boot_ms;
use rampmeter_protocol::time::{Span, Time};

/// A loop comes by this often, whatever happens.
pub const HEARTBEAT: Span = Span::from_millis(100);
/// Longer than this, and another scheduler may have taken over: a busy machine makes nobody wait so long.
const STANDSTILL: Span = Span::from_millis(300);

/// Tells that time has passed in which this process was stopped, or its machine slept.
#[derive(Debug)]
pub struct Vigil {
    awake_at: Time,
    /// The machine's own clock, which does not stop when it sleeps.
    boot_ms: Option<u64>,
}

impl Vigil {
    /// A vigil from `now` on.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Vigil { awake_at: now, boot_ms: boot_ms() }
    }

    /// How long this process stood still until `now`, if it was long.
    pub fn standstill(&mut self, now: Time) -> Option<Span> {
        let boot_ms = boot_ms();
        let by_boot = boot_ms.zip(self.boot_ms).map(|(now, then)| Span::from_millis(now.saturating_sub(then)));
        let passed = now.since(self.awake_at).max(by_boot.unwrap_or(Span::ZERO));
        *self = Vigil { awake_at: now, boot_ms };
        (passed > STANDSTILL).then_some(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standstill_is_noticed_once() {
        let at = |ms| Time::ORIGIN + Span::from_millis(ms);
        let mut vigil = Vigil { awake_at: at(0), boot_ms: None };
        assert_eq!(vigil.standstill(at(300)), None);
        assert_eq!(vigil.standstill(at(601)), Some(Span::from_millis(301)));
        assert_eq!(vigil.standstill(at(602)), None);
    }

    #[test]
    fn sleep_of_the_machine_is_a_standstill() {
        let Some(now) = boot_ms() else { return };
        let mut vigil = Vigil { awake_at: Time::ORIGIN, boot_ms: Some(now.saturating_sub(60_000)) };
        assert!(vigil.standstill(Time::ORIGIN).is_some_and(|slept| slept >= Span::from_secs(60)));
    }
}
