//! Whether a permit loop is sure to lead.

use crate::serve::permits::permit_loop::PermitLoop;
use crate::serve::permits::stall_detector::uptime;
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::ids::CheckpointNumber;

/// How long the own echo may take: far more than a round trip.
const ECHO: Span = Span::from_secs(1);
/// How often starts are put off while answers are held up: half of what the margin pays for.
const PUT_OFF: Span = Span::from_millis(25);
/// How long a leader listens: workers that had another one ask four times a second. Who is to be answered at once is kept waiting
/// a little longer than that at most.
const LISTEN: Span = Span::from_millis(400);
/// How far the wall clocks of schedulers may be apart, as far as epochs are concerned.
const CLOCK_TOLERANCE_MS: u64 = 60_000;

/// Whether this loop is sure to lead, or what it does to become sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeadershipState {
    /// It leads.
    Sure,
    /// It leads what nobody is known to have led, in a store that was made just now. A worker that knows of another leader shows that
    /// there was another store.
    Listening {
        /// Until when.
        until: Time,
        /// The mark that counts from then on.
        mark: CheckpointNumber,
    },
    /// It has been away, or somebody has seen another leader: it answers nobody before the store has taken another mark.
    Rechecking,
    /// It leads. What came in while it was away is sent back, until its own echo comes.
    Clearing {
        /// What the echo says.
        token: u64,
        /// When the echo is given up.
        until: Time,
    },
}

impl LeadershipState {
    /// That of a leader that begins at `now`, and has to listen first before this mark counts.
    pub(crate) fn at_first(now: Time, listening: Option<CheckpointNumber>) -> Self {
        listening.map_or(LeadershipState::Sure, |mark| LeadershipState::Listening { until: now + LISTEN, mark })
    }
}

impl PermitLoop {
    /// Notices a standstill, and doubts its own mandate after one.
    pub(crate) fn watch_out(&mut self) {
        let now = self.clock.now();
        if let Some(standstill) = self.stall_detector.standstill(uptime(now)) {
            if let LeadershipState::Listening { mark, .. } = self.leadership {
                self.leadership = LeadershipState::Listening { until: now + LISTEN, mark };
                return;
            }
            tracing::warn!(resource = %self.core.resource().name(), %standstill, "this process stood still; checking who leads");
            self.tally.standstills += 1;
            self.loopback_check.lose(now);
            self.outbox.forget();
            self.doubt(now);
        }
        match self.leadership {
            LeadershipState::Clearing { until, .. } if until <= now => self.leadership = LeadershipState::Sure,
            LeadershipState::Listening { until, mark } if until <= now => {
                self.leadership = LeadershipState::Sure;
                self.handle(now, Event::CheckpointStored(mark));
                self.begin();
            }
            LeadershipState::Sure
            | LeadershipState::Rechecking
            | LeadershipState::Clearing { .. }
            | LeadershipState::Listening { .. } => {}
        }
    }

    /// A worker that has seen a higher epoch than ours has seen another leader: one that has replaced us, or one that led
    /// before our store went back. Epochs count changes of leader, from the wall clock on where the count was lost: one
    /// beyond it nobody has seen.
    pub(crate) fn note_epoch(&mut self, now: Time, seen: Option<u64>) {
        let unknown = if let LeadershipState::Listening { .. } = self.leadership { 1 } else { self.core.epoch() + 1 };
        let possible = unknown..=epoch_bound();
        // What it may mean has been done once in this term.
        let is_news = |seen: &u64| possible.contains(seen) && self.tally.store_went_back == 0;
        let Some(seen) = seen.filter(is_news) else { return };
        if self.seen_epoch.is_none() {
            tracing::warn!(epoch = self.core.epoch(), seen, "a worker has seen a higher epoch; checking who leads");
        }
        self.seen_epoch = self.seen_epoch.max(Some(seen));
        self.doubt(now);
    }

    fn doubt(&mut self, now: Time) {
        self.leadership = LeadershipState::Rechecking;
        self.handle(now, Event::Doubt);
    }

    /// The store has taken a mark: nobody else led when it did.
    pub(crate) fn marked(&mut self, now: Time, number: CheckpointNumber) {
        self.tally.marks += 1;
        if let Some(seen) = self.seen_epoch.take_if(|_| self.core.settles_doubt(number)) {
            return self.store_went_back(now, seen);
        }
        self.handle(now, Event::CheckpointStored(number));
        if self.leadership == LeadershipState::Rechecking && self.core.is_trusted() {
            self.clear_backlog(now);
        }
    }

    /// Who has asked while we were away may have given up since, or have asked another: they are to ask again.
    fn clear_backlog(&mut self, now: Time) {
        let (token, until) = (rand::random(), now + ECHO);
        self.leadership = LeadershipState::Clearing { token, until };
        self.outbox.send(self.own_echo(), &token);
        // Nobody's echo tells how old it is what this process has asked.
        let unread = self.unread.take().into_iter().chain(std::iter::from_fn(|| self.inbound.try_recv().ok()));
        for inbound in unread.collect::<Vec<_>>() {
            self.take(now, inbound);
        }
    }

    pub(crate) fn hear_echo(&mut self, now: Time, payload: &[u8]) {
        if let Some(sung_at) = self.loopback_check.hear(now, payload) {
            if std::mem::take(&mut self.held_up) {
                self.handle(now, Event::HeldUp);
            }
            self.handle(now, Event::Delivered(sung_at));
        }
        if let LeadershipState::Clearing { token, .. } = self.leadership
            && payload == token.to_string().as_bytes()
        {
            self.leadership = LeadershipState::Sure;
        }
    }

    /// Nothing has come in: if the song is late that was sung before, NATS does not carry answers either. A loop that is busy with
    /// what comes in hears its song late, and nothing is known of answers.
    pub(crate) fn listen_for_song(&mut self) {
        let now = self.clock.now();
        if self.loopback_check.late_from().is_some_and(|late_from| late_from < now) {
            self.held_up = true;
            self.handle(now, Event::HeldUp);
        }
    }

    /// When to look after the song: in time when it is late, and then as often as starts are to be put off.
    pub(crate) fn next_song(&self, now: Time) -> Time {
        let late = self.loopback_check.late_from().map(|late_from| late_from.max(now) + PUT_OFF);
        late.map_or(self.loopback_check.next_song(), |late| late.min(self.loopback_check.next_song()))
    }

    /// Nobody leads but us, and yet somebody has: what we began with was not the last state. It happens once a term at most,
    /// so that no worker can empty the buckets again and again.
    fn store_went_back(&mut self, now: Time, seen: u64) {
        let epoch = epoch_bound().max(seen) + 1;
        tracing::error!(seen, epoch, "the store went back to an older state; every bucket is emptied");
        self.tally.store_went_back += 1;
        self.handle(now, Event::StoreWentBack { epoch });
        self.begin();
    }
}

/// The highest epoch that anybody can have seen by now.
fn epoch_bound() -> u64 {
    unix_ms() + CLOCK_TOLERANCE_MS
}
