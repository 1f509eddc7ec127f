//! The freeze of one limit: the upstream has asked for a pause, or an operator has ordered one.

use super::timeline::StartKey;
use crate::identity::User;
use rampmeter_protocol::time::{Span, Time};

/// How long other calls wait for the outcome of a probe whose worker does not report it.
const PROBE_TIMEOUT: Span = Span::from_secs(2);
/// The first and the longest pause if a rejection states none; it doubles with each failed probe.
const FIRST_PAUSE: Span = Span::from_secs(1);
const LONGEST_PAUSE: Span = Span::from_secs(60);
/// The longest pause on the report of one user. After it, the probe call asks the upstream again.
pub(crate) const UNCONFIRMED: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PauseClaim {
    by: Option<User>,
    pub(crate) until: Time,
    believed: Span,
}

/// A time until which no call starts. Then one call starts, the *probe*; others follow once it is
/// served, or its outcome is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freeze {
    since: Time,
    pub(crate) until: Time,
    pub(crate) is_ordered: bool,
    /// The first start after the end, whose outcome is awaited.
    pub(crate) probe: Option<StartKey>,
    /// The report that it follows, if a user has named a pause.
    pub(crate) claim: Option<PauseClaim>,
}

impl Freeze {
    /// Creates a freeze until the upstream is asked again, with a claim if a user reported a pause.
    pub(crate) fn new(since: Time, until: Time, claim: Option<PauseClaim>) -> Self {
        Freeze { since, until, is_ordered: false, probe: None, claim }
    }

    /// Returns the pause after a rejection of the call `key` that names none. Only the probe's
    /// doubles it: other calls started before the last pause ended.
    pub(crate) fn next_pause(freeze: Option<Freeze>, now: Time, key: StartKey) -> Span {
        let Some(freeze) = freeze.filter(|freeze| !freeze.is_ordered) else { return FIRST_PAUSE };
        let last = freeze.until.since(freeze.since);
        match freeze.is_probed_by(key) {
            true => (last + last).clamp(FIRST_PAUSE, LONGEST_PAUSE),
            false if freeze.until > now => freeze.until.since(now),
            false => last.clamp(FIRST_PAUSE, LONGEST_PAUSE),
        }
    }

    /// Returns when the pause began that did not help its probe `key`; `None` if the response that
    /// began the pause had named a later end.
    pub(crate) fn failed_since(&self, key: StartKey) -> Option<Time> {
        let was_predicted = self.claim.is_some_and(|claim| claim.until > key.at);
        let is_probe = self.is_probed_by(key) && !self.is_ordered && self.until > self.since;
        (is_probe && !was_predicted).then_some(self.since)
    }

    /// Returns how much of a `reported` pause is believed, and the claim to remember. `user`
    /// reports on the call `key` under this freeze.
    ///
    /// The report of one user counts for a minute, and twice as long each time that the same user
    /// repeats it as the probe. A probe by another user confirms as much as was reported before. If
    /// the user of the probe is not known, all that it reports is believed.
    pub(crate) fn believe(
        freeze: Option<Freeze>,
        now: Time,
        key: StartKey,
        user: Option<User>,
        reported: Span,
    ) -> (Span, PauseClaim) {
        let longest = match freeze.filter(|freeze| freeze.is_probed_by(key)) {
            None => UNCONFIRMED,
            Some(_) if user.is_none() => reported,
            Some(Freeze { claim: Some(before), .. }) if before.by == user => before.believed + before.believed,
            Some(Freeze { claim: Some(before), .. }) => before.until.since(now),
            Some(Freeze { claim: None, .. }) => UNCONFIRMED,
        };
        let believed = reported.min(longest.max(UNCONFIRMED));
        (believed, PauseClaim { by: user, until: now + reported, believed })
    }

    pub(crate) fn ordered(until: Time) -> Self {
        Freeze { is_ordered: true, ..Freeze::new(until, until, None) }
    }

    /// Returns the later of two freezes, to be probed anew; the probe's claim takes precedence.
    pub(crate) fn join(existing: Option<Freeze>, added: Freeze) -> Self {
        let Some(freeze) = existing else { return added };
        let claim = if freeze.probe.is_some() { added.claim.or(freeze.claim) } else { freeze.claim.or(added.claim) };
        Freeze { probe: None, claim, ..if added.until > freeze.until { added } else { freeze } }
    }

    pub(crate) fn next_start(&self) -> Time {
        self.probe.map_or(self.until, |probe| probe.at + PROBE_TIMEOUT)
    }

    /// Makes the first start after the end the probe.
    pub(crate) fn note_start(&mut self, key: StartKey) {
        if self.probe.is_none() && key.at >= self.until {
            self.probe = Some(key);
        }
    }

    /// Makes the next start the probe if this one was it.
    pub(crate) fn note_return(&mut self, key: StartKey) {
        if self.probe == Some(key) {
            self.probe = None;
        }
    }

    pub(crate) fn is_probed_by(&self, key: StartKey) -> bool {
        self.probe == Some(key)
    }

    /// Whether the freeze ended so long ago that it needs no probe.
    pub(crate) fn is_unprobed(&self, now: Time) -> bool {
        self.probe.is_none() && self.until + PROBE_TIMEOUT <= now
    }

    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.probe.is_some_and(|probe| probe.at + PROBE_TIMEOUT <= now)
    }
}
