//! Whether a permit loop is sure to lead.

use super::permit_loop::PermitLoop;
use super::stall_detector::uptime;
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::mark::MarkNumber;

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
pub(super) enum Standing {
    /// It leads.
    Sure,
    /// It leads what nobody is known to have led, in a store that was made just now. A worker that knows of another leader shows that
    /// there was another store.
    Listening {
        /// Until when.
        until: Time,
        /// The mark that counts from then on.
        mark: MarkNumber,
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

impl Standing {
    /// That of a leader that begins at `now`, and has to listen first before this mark counts.
    pub(super) fn at_first(now: Time, listening: Option<MarkNumber>) -> Self {
        listening.map_or(Standing::Sure, |mark| Standing::Listening { until: now + LISTEN, mark })
    }
}

impl PermitLoop {
    /// Notices a standstill, and doubts its own mandate after one.
    pub(super) fn watch_out(&mut self) {
        let now = self.clock.now();
        if let Some(standstill) = self.stall_detector.standstill(uptime(now)) {
            if let Standing::Listening { mark, .. } = self.standing {
                self.standing = Standing::Listening { until: now + LISTEN, mark };
                return;
            }
            tracing::warn!(resource = %self.core.resource().name(), %standstill, "this process stood still; checking who leads");
            self.tally.standstills += 1;
            self.canary.lose(now);
            self.outbox.forget();
            self.doubt(now);
        }
        match self.standing {
            Standing::Clearing { until, .. } if until <= now => self.standing = Standing::Sure,
            Standing::Listening { until, mark } if until <= now => {
                self.standing = Standing::Sure;
                self.handle(now, Event::Marked(mark));
                self.begin();
            }
            Standing::Sure | Standing::Rechecking | Standing::Clearing { .. } | Standing::Listening { .. } => {}
        }
    }

    /// A worker that has seen a higher epoch than ours has seen another leader: one that has replaced us, or one that led
    /// before our store went back. Epochs count changes of leader, from the wall clock on where the count was lost: one
    /// beyond it nobody has seen.
    pub(super) fn note_epoch(&mut self, now: Time, seen: Option<u64>) {
        let unknown = if let Standing::Listening { .. } = self.standing { 1 } else { self.core.epoch() + 1 };
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
        self.standing = Standing::Rechecking;
        self.handle(now, Event::Doubt);
    }

    /// The store has taken a mark: nobody else led when it did.
    pub(super) fn marked(&mut self, now: Time, number: MarkNumber) {
        self.tally.marks += 1;
        if let Some(seen) = self.seen_epoch.take_if(|_| self.core.settles_doubt(number)) {
            return self.store_went_back(now, seen);
        }
        self.handle(now, Event::Marked(number));
        if self.standing == Standing::Rechecking && self.core.is_trusted() {
            self.clear_backlog(now);
        }
    }

    /// Who has asked while we were away may have given up since, or have asked another: they are to ask again.
    fn clear_backlog(&mut self, now: Time) {
        let (token, until) = (rand::random(), now + ECHO);
        self.standing = Standing::Clearing { token, until };
        self.outbox.send(self.own_echo(), &token);
        // Nobody's echo tells how old it is what this process has asked.
        let unread = self.unread.take().into_iter().chain(std::iter::from_fn(|| self.letters.try_recv().ok()));
        for letter in unread.collect::<Vec<_>>() {
            self.take(now, letter);
        }
    }

    pub(super) fn hear_echo(&mut self, now: Time, payload: &[u8]) {
        if let Some(sung_at) = self.canary.hear(now, payload) {
            if std::mem::take(&mut self.held_up) {
                self.handle(now, Event::HeldUp);
            }
            self.handle(now, Event::Delivered(sung_at));
        }
        if let Standing::Clearing { token, .. } = self.standing
            && payload == token.to_string().as_bytes()
        {
            self.standing = Standing::Sure;
        }
    }

    /// Nothing has come in: if the song is late that was sung before, NATS does not carry answers either. A loop that is busy with
    /// what comes in hears its song late, and nothing is known of answers.
    pub(super) fn listen_for_song(&mut self) {
        let now = self.clock.now();
        if self.canary.late_from().is_some_and(|late_from| late_from < now) {
            self.held_up = true;
            self.handle(now, Event::HeldUp);
        }
    }

    /// When to look after the song: in time when it is late, and then as often as starts are to be put off.
    pub(super) fn next_song(&self, now: Time) -> Time {
        let late = self.canary.late_from().map(|late_from| late_from.max(now) + PUT_OFF);
        late.map_or(self.canary.next_song(), |late| late.min(self.canary.next_song()))
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
