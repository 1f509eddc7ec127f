//! The reachability of a resource's schedulers.

use rampmeter_protocol::time::{Span, Time};

#[derive(Debug)]
pub(crate) struct Reachability {
    /// How long schedulers may be silent; `None` if the policy is to wait.
    patience: Option<Span>,
    last_contact: Time,
    /// No scheduler counts as lost before this. It is a bound: most answers come long before.
    check_at: Time,
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Lost {
    since: Time,
    /// When the state ends if no request comes meanwhile.
    until: Time,
    serve_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The silence is short.
    Reachable,
    /// The silence is long, but no answer is owed: it is time to ask for one.
    Quiet,
    /// The schedulers have just become unreachable.
    Lost,
    /// The schedulers are still unreachable.
    StillLost,
}

impl Default for Reachability {
    fn default() -> Self {
        Reachability { patience: None, last_contact: Time::ORIGIN, check_at: Time::NEVER, lost: None }
    }
}

impl Reachability {
    /// Sets the patience and forgets what was known. Requests that already wait are checked soon.
    pub(crate) fn set_patience(&mut self, patience: Option<Span>) {
        *self = Reachability { patience, last_contact: self.last_contact, check_at: Time::ORIGIN, lost: None };
    }

    pub(crate) fn last_contact(&self) -> Time {
        self.last_contact
    }

    pub(crate) fn note_contact(&mut self, now: Time) {
        self.last_contact = now;
        self.lost = None;
    }

    /// Notes that a request waits for an answer from now on.
    pub(crate) fn expect(&mut self, now: Time) {
        let Some(patience) = self.patience else { return };
        self.check_at = self.check_at.min(now + patience);
        self.expire(now);
        if let Some(lost) = &mut self.lost {
            lost.until = now + patience;
            lost.serve_at = now;
        }
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.check_at <= now
    }

    /// Judges the silence since `unanswered`. If `others_wait`, other requests wait that were answered before.
    pub(crate) fn check(&mut self, now: Time, unanswered: Option<Time>, others_wait: bool) -> Verdict {
        self.check_at = Time::NEVER;
        let silent = unanswered.map(|since| since.max(self.last_contact)).or(others_wait.then_some(self.last_contact));
        let (Some(patience), Some(since)) = (self.patience, silent) else { return Verdict::Reachable };
        if since + patience > now {
            self.check_at = since + patience;
            return Verdict::Reachable;
        }
        let until = now + patience;
        self.check_at = until;
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

    /// Forgets that schedulers are unreachable if no request came for too long.
    pub(crate) fn expire(&mut self, now: Time) {
        self.lost.take_if(|lost| lost.until < now);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    pub(crate) fn lost_since(&self) -> Option<Time> {
        self.lost.as_ref().map(|lost| lost.since)
    }

    pub(crate) fn silence(&self, now: Time) -> Span {
        self.lost.as_ref().map_or(Span::ZERO, |lost| now.since(lost.since))
    }

    pub(crate) fn serves_locally(&self, now: Time) -> bool {
        self.lost.as_ref().is_some_and(|lost| lost.serve_at <= now)
    }

    /// Notes that waiting requests have been served; the next one is served at `next`.
    pub(crate) fn serve_at(&mut self, next: Time) {
        if let Some(lost) = &mut self.lost {
            lost.serve_at = next;
        }
    }

    pub(crate) fn next_wakeup(&self) -> Time {
        self.lost.as_ref().map_or(self.check_at, |lost| lost.serve_at.min(self.check_at))
    }
}
