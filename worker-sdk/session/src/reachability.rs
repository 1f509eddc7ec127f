//! Whether anybody answers for a resource.

use rampmeter_protocol::time::{Span, Time};

/// What is known of a resource's schedulers from what was heard of them.
#[derive(Debug)]
pub(super) struct Reachability {
    /// How long nobody may answer; `None` where nobody wants to know.
    patience: Option<Span>,
    heard: Time,
    /// Nobody is lost before this. A bound: most of those who wait for a word get it long before.
    judge_at: Time,
    lost: Option<Lost>,
}

/// Nobody answers.
#[derive(Debug)]
struct Lost {
    since: Time,
    /// Unless somebody asks meanwhile, nothing is known any more after this.
    until: Time,
    /// When those who ask want to be served by others.
    serve_at: Time,
}

/// What a look at the silence shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It has not lasted long enough.
    Reachable,
    /// It has, but nobody was owed a word: it is time to ask for one.
    Quiet,
    /// Nobody answers any more.
    Lost,
    /// Nobody answers still.
    StillLost,
}

impl Default for Reachability {
    fn default() -> Self {
        Reachability { patience: None, heard: Time::ORIGIN, judge_at: Time::NEVER, lost: None }
    }
}

impl Reachability {
    /// What was known is forgotten; who waits already is looked at soon.
    pub(super) fn set_patience(&mut self, patience: Option<Span>) {
        *self = Reachability { patience, heard: self.heard, judge_at: Time::ORIGIN, lost: None };
    }

    /// When a scheduler last spoke.
    pub(super) fn heard(&self) -> Time {
        self.heard
    }

    /// A scheduler has spoken.
    pub(super) fn hear(&mut self, now: Time) {
        self.heard = now;
        self.lost = None;
    }

    /// Somebody waits for a word from now on.
    pub(super) fn expect(&mut self, now: Time) {
        let Some(patience) = self.patience else { return };
        self.judge_at = self.judge_at.min(now + patience);
        self.lapse(now);
        if let Some(lost) = &mut self.lost {
            lost.until = now + patience;
            lost.serve_at = now;
        }
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.judge_at <= now
    }

    /// Judges by since when a word is owed, and whether there is anybody else who waits for one.
    pub(super) fn judge(&mut self, now: Time, unanswered: Option<Time>, others_wait: bool) -> Verdict {
        self.judge_at = Time::NEVER;
        let silent = unanswered.map(|since| since.max(self.heard)).or(others_wait.then_some(self.heard));
        let (Some(patience), Some(since)) = (self.patience, silent) else { return Verdict::Reachable };
        if since + patience > now {
            self.judge_at = since + patience;
            return Verdict::Reachable;
        }
        let until = now + patience;
        self.judge_at = until;
        if unanswered.is_none() {
            return Verdict::Quiet;
        }
        match &mut self.lost {
            Some(lost) => {
                lost.until = until;
                Verdict::StillLost
            }
            None => {
                self.lost = Some(Lost { since, until, serve_at: now });
                Verdict::Lost
            }
        }
    }

    /// Forgets what nobody has asked about for too long.
    pub(super) fn lapse(&mut self, now: Time) {
        self.lost.take_if(|lost| lost.until < now);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// For how long nobody has answered.
    pub(super) fn silence(&self, now: Time) -> Span {
        self.lost.as_ref().map_or(Span::ZERO, |lost| now.since(lost.since))
    }

    /// Whether those who ask are to be served by others now.
    pub(super) fn serves(&self, now: Time) -> bool {
        self.lost.as_ref().is_some_and(|lost| lost.serve_at <= now)
    }

    /// They have been served; the next one is to be then.
    pub(super) fn serve_at(&mut self, next: Time) {
        if let Some(lost) = &mut self.lost {
            lost.serve_at = next;
        }
    }

    pub(super) fn next_wakeup(&self) -> Time {
        self.lost.as_ref().map_or(self.judge_at, |lost| lost.serve_at.min(self.judge_at))
    }
}
