//! Whether a permit loop is sure to lead.

use crate::serve::permits::watch::stall_detector::{ProcessWatch, StallDetector, uptime};
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::epoch::highest_of_a_leader;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::ids::CheckpointNumber;
use std::sync::Arc;

/// How long the loop's own echo may take: far more than a round trip.
const ECHO: Span = Span::from_secs(1);
/// How long a leader listens. Workers of another leader ask four times a second. A request that
/// wants its answer at once waits a little longer than that at most.
const LISTEN: Span = Span::from_millis(400);

/// Whether a loop is sure to lead, or how it becomes sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeadershipState {
    /// It leads.
    Sure,
    /// It leads in a store that was made just now, and no former leader is known. A worker that
    /// knows of another leader shows that there was another store.
    Listening {
        /// The end of listening.
        until: Time,
        /// The checkpoint that counts from then on.
        checkpoint: CheckpointNumber,
    },
    /// It was away, or a worker has seen another leader. It answers nothing before the store has
    /// taken another checkpoint.
    Rechecking,
    /// It leads. Messages that came in while it was away are sent back, until its own echo comes.
    Clearing {
        /// The content of the echo.
        token: u64,
        /// When the loop stops waiting for the echo.
        until: Time,
    },
}

/// The highest epoch above ours that a worker has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HigherEpoch {
    /// No worker has seen one.
    Unseen,
    /// A worker has seen this one.
    Seen(u64),
    /// The store went back, and the buckets were emptied for it. This happens once in a term, so
    /// that no worker can empty them again and again.
    Settled,
}

/// What a look at the clocks shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The process stood still for so long: another scheduler may lead by now.
    StoodStill(Span),
    /// No worker knows of another leader: this checkpoint counts from now on.
    Listened(CheckpointNumber),
}

/// Tells whether this loop leads.
///
/// After a doubt the loop reads no messages until the store has taken a checkpoint that was made
/// after the doubt.
#[derive(Debug)]
pub(crate) struct LeadershipCheck {
    state: LeadershipState,
    higher: HigherEpoch,
    stalls: StallDetector,
}

impl LeadershipCheck {
    /// The check of a leader that begins at `now`. If there is a checkpoint to be `confirmed`, the
    /// leader listens before that counts.
    pub(crate) fn new(now: Time, confirmed: Option<CheckpointNumber>, process: Arc<ProcessWatch>) -> Self {
        let listening = |checkpoint| LeadershipState::Listening { until: now + LISTEN, checkpoint };
        LeadershipCheck {
            state: confirmed.map_or(LeadershipState::Sure, listening),
            higher: HigherEpoch::Unseen,
            stalls: StallDetector::new(process, uptime(now)),
        }
    }

    /// Whether messages are read and answered.
    pub(crate) fn reads(&self) -> bool {
        self.state != LeadershipState::Rechecking
    }

    /// Whether the leader listens before it grants anything.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(self.state, LeadershipState::Listening { .. })
    }

    /// Whether requests are sent back because they are older than the last doubt.
    pub(crate) fn is_clearing(&self) -> bool {
        matches!(self.state, LeadershipState::Clearing { .. })
    }

    /// Whether permits can be granted.
    pub(crate) fn grants(&self) -> bool {
        self.reads() && !self.is_listening()
    }

    /// Notices a standstill, and the end of listening or clearing. After a standstill the core has
    /// to doubt.
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

    /// Takes the epoch that a worker has seen, where `own` is ours. Whether the core has to doubt.
    ///
    /// A worker that has seen a higher epoch has seen another leader: our successor, or a leader
    /// from before our store went back. Epochs count changes of leader, or begin at the wall clock
    /// if the count was lost. No leader has had an epoch beyond the wall clock.
    pub(crate) fn note_epoch(&mut self, own: u64, seen: Option<u64>) -> bool {
        let unknown = if self.is_listening() { 1 } else { own + 1 };
        let possible = unknown..=epoch_bound();
        let Some(seen) = seen.filter(|seen| possible.contains(seen)) else { return false };
        self.higher = match self.higher {
            HigherEpoch::Settled => return false,
            HigherEpoch::Seen(known) => HigherEpoch::Seen(known.max(seen)),
            HigherEpoch::Unseen => {
                tracing::warn!(epoch = own, seen, "a worker has seen a higher epoch; checking who leads");
                HigherEpoch::Seen(seen)
            }
        };
        self.state = LeadershipState::Rechecking;
        true
    }

    /// The store has taken a checkpoint that was made after the last doubt: no other scheduler led
    /// at that time. If a worker has seen a higher epoch, the store went back. The epoch from now
    /// on, if so.
    pub(crate) fn settle(&mut self) -> Option<u64> {
        let HigherEpoch::Seen(seen) = self.higher else { return None };
        self.higher = HigherEpoch::Settled;
        let epoch = epoch_bound().max(seen) + 1;
        tracing::error!(seen, epoch, "the store went back to an older state; every bucket is emptied");
        Some(epoch)
    }

    /// The core is trusted again. If messages were left unread meanwhile, the echo that is to
    /// follow them; until it comes, requests are sent back.
    pub(crate) fn clear(&mut self, now: Time) -> Option<u64> {
        if self.reads() {
            return None;
        }
        let token = rand::random();
        self.state = LeadershipState::Clearing { token, until: now + ECHO };
        Some(token)
    }

    /// Takes an echo: whatever comes behind it was sent after the doubt.
    pub(crate) fn hear_echo(&mut self, payload: &[u8]) {
        if let LeadershipState::Clearing { token, .. } = self.state
            && payload == token.to_string().as_bytes()
        {
            self.state = LeadershipState::Sure;
        }
    }
}

/// The highest epoch that any leader can have had by now.
fn epoch_bound() -> u64 {
    highest_of_a_leader(unix_ms())
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
        assert_eq!(check.look_after(at(399), None), None);
        assert_eq!(check.look_after(at(399), Some(Span::from_secs(1))), None, "it listens anew");
        assert_eq!(check.look_after(at(798), None), None);
        assert_eq!(check.look_after(at(799), None), Some(Finding::Listened(CheckpointNumber(1))));
        assert!(check.grants());
    }

    #[test]
    fn after_a_standstill_messages_are_read_again_behind_the_echo() {
        let mut check = check(None);
        let away = Span::from_secs(1);
        assert_eq!(check.clear(at(0)), None, "nothing was left unread");
        assert_eq!(check.look_after(at(0), Some(away)), Some(Finding::StoodStill(away)));
        assert!(!check.reads());
        let token = check.clear(at(10)).unwrap();
        assert!(check.is_clearing() && check.reads());
        check.hear_echo(token.wrapping_add(1).to_string().as_bytes());
        assert!(check.is_clearing(), "it is the echo of another loop");
        check.hear_echo(token.to_string().as_bytes());
        assert!(!check.is_clearing());
    }

    #[test]
    fn an_echo_that_does_not_come_is_waited_for_one_second() {
        let mut check = check(None);
        check.look_after(at(0), Some(Span::from_secs(1)));
        check.clear(at(10)).unwrap();
        for (ms, clearing) in [(1_009, true), (1_010, false)] {
            assert_eq!(check.look_after(at(ms), None), None);
            assert_eq!(check.is_clearing(), clearing, "at {ms} ms");
        }
    }

    #[test]
    fn a_higher_epoch_is_doubted_until_the_store_settles_it_once() {
        let table = [(None, false), (Some(7), false), (Some(8), true), (Some(u64::MAX), false)];
        for (seen, doubts) in table {
            assert_eq!(check(None).note_epoch(7, seen), doubts, "{seen:?}");
        }
        assert!(
            check(Some(CheckpointNumber(1))).note_epoch(7, Some(1)),
            "a leader that listens knows of no other epoch"
        );
        let mut check = check(None);
        assert_eq!(check.settle(), None);
        assert!(check.note_epoch(7, Some(9)) && check.note_epoch(7, Some(8)));
        assert!(!check.reads());
        assert!(check.settle().unwrap() > 9);
        assert!(!check.note_epoch(7, Some(10)), "it has been settled in this term");
        assert_eq!(check.settle(), None);
    }
}
