//! Checks whether a permit loop certainly leads.

use crate::permits::watch::stall_detector::{ProcessWatch, StallDetector, uptime};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::checkpoint_number::CheckpointNumber;
use std::sync::Arc;

/// How long the loop waits for its own echo: far more than a round trip.
const ECHO: Span = Span::from_secs(1);
/// How long a leader listens. Workers of another leader ask again after at most a quarter of a second, so
/// all of them arrive. A request that wants its answer at once waits little longer.
const LISTEN: Span = Span::from_millis(270);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeadershipState {
    Sure,
    /// The store is new, and no former leader is known. A worker that knows of one shows another store.
    Listening {
        until: Time,
        /// The checkpoint that counts after listening.
        checkpoint: CheckpointNumber,
    },
    /// The process stood still. The loop answers nothing until the store has taken another checkpoint.
    Rechecking,
    /// Requests are sent back until the loop's own echo arrives, as they may have come in before the check.
    Clearing {
        /// The echo must have been sent after this.
        since: Time,
        until: Time,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The process stood still for this long, so another scheduler may lead by now.
    StoodStill(Span),
    /// Listening is over. This checkpoint counts from now on, unless a worker knows of another leader.
    Listened(CheckpointNumber),
}

/// Decides whether this loop leads. After a doubt it reads nothing until the store has taken a later checkpoint.
#[derive(Debug)]
pub(crate) struct LeadershipCheck {
    state: LeadershipState,
    stalls: StallDetector,
}

impl LeadershipCheck {
    /// Creates the check of a leader that begins at `now`, by listening if a checkpoint is to be `confirmed`.
    pub(crate) fn new(now: Time, confirmed: Option<CheckpointNumber>, process: Arc<ProcessWatch>) -> Self {
        let listening = |checkpoint| LeadershipState::Listening { until: now + LISTEN, checkpoint };
        LeadershipCheck {
            state: confirmed.map_or(LeadershipState::Sure, listening),
            stalls: StallDetector::new(process, uptime(now)),
        }
    }

    /// Returns whether messages are read and answered.
    pub(crate) fn reads(&self) -> bool {
        self.state != LeadershipState::Rechecking
    }

    pub(crate) fn is_listening(&self) -> bool {
        matches!(self.state, LeadershipState::Listening { .. })
    }

    /// Returns whether requests are sent back because they may be older than the last doubt.
    pub(crate) fn is_clearing(&self) -> bool {
        matches!(self.state, LeadershipState::Clearing { .. })
    }

    pub(crate) fn grants(&self) -> bool {
        self.reads() && !self.is_listening()
    }

    /// Detects a standstill, after which the core has to doubt, and the end of listening or clearing.
    pub(crate) fn look(&mut self, now: Time) -> Option<Finding> {
        let standstill = self.stalls.standstill(uptime(now));
        self.look_after(now, standstill)
    }

    fn look_after(&mut self, now: Time, standstill: Option<Span>) -> Option<Finding> {
        match (self.state, standstill) {
            (LeadershipState::Listening { checkpoint, .. }, Some(_)) => {
                self.state = LeadershipState::Listening { until: now + LISTEN, checkpoint };
                None
            }
            (LeadershipState::Sure | LeadershipState::Rechecking | LeadershipState::Clearing { .. }, Some(away)) => {
                self.state = LeadershipState::Rechecking;
                Some(Finding::StoodStill(away))
            }
            (LeadershipState::Listening { until, checkpoint }, None) if until <= now => {
                self.state = LeadershipState::Sure;
                Some(Finding::Listened(checkpoint))
            }
            (LeadershipState::Clearing { until, .. }, None) if until <= now => {
                self.state = LeadershipState::Sure;
                None
            }
            (
                LeadershipState::Sure
                | LeadershipState::Rechecking
                | LeadershipState::Clearing { .. }
                | LeadershipState::Listening { .. },
                None,
            ) => None,
        }
    }

    /// Notes that the core is trusted again. Returns whether messages were left unread meanwhile; then an echo
    /// is to be sent behind them, and requests are sent back until it arrives.
    pub(crate) fn clear(&mut self, now: Time) -> bool {
        let clears = !self.reads();
        if clears {
            self.state = LeadershipState::Clearing { since: now, until: now + ECHO };
        }
        clears
    }

    /// Handles the echo sent at `sent_at`. Messages that come after it were sent later.
    pub(crate) fn take_echo(&mut self, sent_at: Time) {
        if let LeadershipState::Clearing { since, .. } = self.state
            && since <= sent_at
        {
            self.state = LeadershipState::Sure;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::clock::Clock;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Span::from_millis(ms)
    }

    fn check(confirmed: Option<CheckpointNumber>) -> LeadershipCheck {
        LeadershipCheck::new(at(0), confirmed, ProcessWatch::start(Clock::start()).unwrap())
    }

    #[test]
    fn a_leader_listens_until_its_time_is_over_without_a_standstill() {
        let mut check = check(Some(CheckpointNumber(1)));
        assert!(check.reads() && !check.grants());
        assert_eq!(check.look_after(at(269), None), None);
        assert_eq!(check.look_after(at(269), Some(Span::from_secs(1))), None, "it listens anew");
        assert_eq!(check.look_after(at(538), None), None);
        assert_eq!(check.look_after(at(539), None), Some(Finding::Listened(CheckpointNumber(1))));
        assert!(check.grants());
    }

    #[test]
    fn after_a_standstill_messages_are_read_again_behind_the_echo() {
        let mut check = check(None);
        let away = Span::from_secs(1);
        assert!(!check.clear(at(0)), "nothing was left unread");
        assert_eq!(check.look_after(at(0), Some(away)), Some(Finding::StoodStill(away)));
        assert!(!check.reads());
        assert!(check.clear(at(10)) && check.is_clearing() && check.reads());
        check.take_echo(at(9));
        assert!(check.is_clearing(), "it was sent before the doubt was over");
        check.take_echo(at(10));
        assert!(!check.is_clearing());
    }

    #[test]
    fn an_echo_that_does_not_come_is_waited_for_one_second() {
        let mut check = check(None);
        check.look_after(at(0), Some(Span::from_secs(1)));
        assert!(check.clear(at(10)));
        for (ms, clearing) in [(1_009, true), (1_010, false)] {
            assert_eq!(check.look_after(at(ms), None), None);
            assert_eq!(check.is_clearing(), clearing, "at {ms} ms");
        }
    }
}
