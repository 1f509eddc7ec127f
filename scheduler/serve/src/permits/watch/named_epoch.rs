//! Epochs above ours that clients name in requests.
//!
//! Such a client may have seen another leader, our successor or one from before the store was restored, or be mistaken.
//! Its word alone changes no level and refuses no call. If the store takes the next checkpoint, this scheduler leads.
//! Its epoch then rises, once in a term, because clients ignore answers of a lower epoch than they have seen.

use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::epoch::{Epoch, highest_of_a_leader};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::checkpoint_number::CheckpointNumber;

/// How often at most the store is asked and the log is written.
const ASKED_EVERY: Span = Span::from_secs(60);
/// How long readiness shows such an epoch after the last request with one.
const SHOWN_FOR: Span = Span::from_secs(600);

/// The rise of our own epoch, once in a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rise {
    #[default]
    Unneeded,
    /// The next checkpoint writes the higher epoch.
    Wanted,
    /// The higher epoch counts once the store holds this checkpoint.
    UnderWay(Epoch, CheckpointNumber),
    Done,
}

/// The highest epoch that clients have named in this term, and the rise of ours above it.
#[derive(Debug, Default)]
pub(crate) struct NamedEpoch {
    /// The highest named epoch, and when a client last named any above ours.
    named: Option<(Epoch, Time)>,
    asked: Option<Time>,
    rise: Rise,
}

impl NamedEpoch {
    /// Notes an epoch named by a client. Returns whether a leader can have had it, and it is at least `unknown`.
    pub(crate) fn note(&mut self, now: Time, unknown: Epoch, named: Option<Epoch>) -> bool {
        let possible = unknown..=epoch_bound();
        let Some(named) = named.filter(|named| possible.contains(named)) else { return false };
        let highest = self.named.map_or(named, |(highest, _)| highest.max(named));
        self.named = Some((highest, now));
        if self.rise == Rise::Unneeded {
            self.rise = Rise::Wanted;
        }
        true
    }

    /// Returns whether the store is to be asked at `now`, and notes that it is.
    pub(crate) fn asks(&mut self, now: Time) -> bool {
        let asks = self.asked.is_none_or(|asked| now.since(asked) >= ASKED_EVERY);
        if asks {
            self.asked = Some(now);
        }
        asks
    }

    /// Returns the highest named epoch, if a client has named one lately.
    pub(crate) fn alarm(&self, now: Time) -> Option<Epoch> {
        self.named.filter(|(_, at)| now.since(*at) < SHOWN_FOR).map(|(named, _)| named)
    }

    /// Returns the epoch for the checkpoint with this number, where `own` is ours.
    pub(crate) fn of_checkpoint(&mut self, number: CheckpointNumber, own: Epoch) -> Epoch {
        if self.rise == Rise::Wanted {
            self.rise = Rise::UnderWay(self.above_all(), number);
        }
        self.stored(own)
    }

    /// Returns the epoch that the store holds or is about to hold, where `own` is ours.
    pub(crate) fn stored(&self, own: Epoch) -> Epoch {
        match self.rise {
            Rise::UnderWay(epoch, _) => epoch,
            Rise::Unneeded | Rise::Wanted | Rise::Done => own,
        }
    }

    /// Notes that the store holds this checkpoint. Returns the new epoch if that makes it rise.
    pub(crate) fn note_stored(&mut self, number: CheckpointNumber) -> Option<Epoch> {
        match self.rise {
            Rise::UnderWay(epoch, from) if from <= number => {
                self.rise = Rise::Done;
                Some(epoch)
            }
            Rise::UnderWay(..) | Rise::Unneeded | Rise::Wanted | Rise::Done => None,
        }
    }

    /// Raises the epoch at once, if a client has named one while no leader was known.
    pub(crate) fn rise_now(&mut self) -> Option<Epoch> {
        (self.rise == Rise::Wanted).then(|| {
            self.rise = Rise::Done;
            self.above_all()
        })
    }

    fn above_all(&self) -> Epoch {
        epoch_bound().max(self.named.map_or(Epoch::NONE, |(named, _)| named)).next()
    }
}

/// Returns the highest epoch any leader can have. Epochs count leaders, or start at the wall clock if that is lost.
fn epoch_bound() -> Epoch {
    highest_of_a_leader(unix_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time::ORIGIN + Span::from_secs(secs)
    }

    #[test]
    fn only_epochs_that_a_leader_can_have_had_count() {
        for (named, counts) in [(None, false), (Some(7), false), (Some(8), true), (Some(u64::MAX), false)] {
            let (mut epochs, named) = (NamedEpoch::default(), named.map(Epoch::new));
            assert_eq!(epochs.note(at(0), Epoch::new(8), named), counts, "{named:?}");
            assert_eq!(epochs.alarm(at(599)), named.filter(|_| counts));
            assert_eq!(epochs.alarm(at(600)), None);
        }
    }

    #[test]
    fn the_store_is_asked_once_a_minute() {
        let mut epochs = NamedEpoch::default();
        let asked: Vec<u64> = (0..130).filter(|secs| epochs.asks(at(*secs))).collect();
        assert_eq!(asked, [0, 60, 120]);
    }

    #[test]
    fn the_epoch_rises_once_in_a_term_and_with_the_next_checkpoint() {
        let (mut epochs, own) = (NamedEpoch::default(), Epoch::new(7));
        assert_eq!(epochs.of_checkpoint(CheckpointNumber(3), own), own);
        assert!(
            epochs.note(at(0), own.next(), Some(Epoch::new(9))) && epochs.note(at(1), own.next(), Some(Epoch::new(8)))
        );
        assert_eq!((epochs.stored(own), epochs.note_stored(CheckpointNumber(3))), (own, None), "it was taken before");
        let risen = epochs.of_checkpoint(CheckpointNumber(4), own);
        assert!(risen > Epoch::new(unix_ms()), "no leader has had a higher one: {risen}");
        assert_eq!(epochs.of_checkpoint(CheckpointNumber(5), own), risen, "the store never goes back");
        assert_eq!(epochs.note_stored(CheckpointNumber(4)), Some(risen));
        assert!(epochs.note(at(2), own.next(), Some(Epoch::new(10))));
        assert_eq!((epochs.of_checkpoint(CheckpointNumber(6), risen), epochs.rise_now()), (risen, None));
    }
}
