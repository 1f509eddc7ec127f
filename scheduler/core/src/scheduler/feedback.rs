//! Reacts to the upstream's responses.
//!
//! A rejected call shows that the upstream's level is lower than assumed; a response that states
//! when to call again shows by how much. If the response does not name the limit, the limit with
//! the least refill left is corrected. Responses are compared with the levels at the time of the
//! call, corrected by what was learned since, so the calls of one round trip teach nothing twice.
//!
//! A worker reports what the upstream has answered, and may be wrong. Its report counts only for
//! the limits that its call was charged to, and stops calls that need these limits for a minute at
//! most. Then one probe call asks the upstream. If another user makes that call, its response is
//! believed as far as it agrees; the reports of one user alone count twice as long each time.
//!
//! A checkpoint is due soon after a pause begins or an operator ends one, so that a successor knows
//! of it. Clients are informed of each freeze that voids their promises.

use super::Scheduler;
use crate::adaptation::{AdaptiveLimit, Attribution, Limits, ObservedCall};
use crate::command::{Command, FreezeNotice, Note, PauseNote};
use crate::ledger::Ledger;
use crate::limits::{BucketReading, Freeze, Interval, PauseClaim};
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::observation::{Reading, Scope, Verdict};
use rampmeter_policy::spec::Follow;
use rampmeter_policy::{Bill, BucketName, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use smallvec::SmallVec;

/// How long a quota counts as spent, if the upstream does not state its reset.
const UNKNOWN_RESET: Span = Span::from_secs(3600);
/// How much longer than its period a limit may ask to wait, as headers count whole seconds.
const PAUSE_GRAIN: Span = Span::from_secs(1);
/// The longest pause for a spent quota, if none of the call's limits is a quota.
const LONGEST_WITHOUT_QUOTA: Span = Span::from_secs(3600);

type Pauses = SmallVec<[Pause; 3]>;

struct Pause {
    limit: LimitId,
    /// The pause that is believed, and the claim to remember, if the response states a pause.
    believed: Option<Span>,
    claim: Option<PauseClaim>,
    is_unconfirmed: bool,
}

impl<R: Clone> Scheduler<R> {
    /// Learns from the response to a call. If a limit rejected the call, returns the bill that it
    /// is settled at: the other charges are refunded.
    pub(crate) fn observe(&mut self, call: ObservedCall<'_>) -> Option<Bill> {
        let settled = match &call.observation.verdict {
            Verdict::Passed => {
                self.ledger.note_served(call.now, call.start, call.at(), call.bill);
                None
            }
            Verdict::Busy => None,
            Verdict::Crowded => Some(call.bill.keyed_part()),
            Verdict::Limited { scope, retry_after, by_other_accounts } => {
                let limits = blamed(&self.resource, &self.ledger, call, scope, *retry_after);
                let pauses = self.pauses(call, &limits, |_| *retry_after);
                let settled = (!by_other_accounts).then(|| self.learn_rejection(call, &pauses));
                self.freeze(call, &pauses);
                settled
            }
            Verdict::Exhausted { scope, reset } => {
                self.exhaust(call, scope, *reset);
                Some(call.bill.keyed_part())
            }
        };
        let read: Limits = call.observation.readings.iter().filter_map(|reading| self.compare(call, reading)).collect();
        if call.observation.verdict == Verdict::Passed {
            let untold = call.bill.shared().map(|(limit, _)| limit).filter(|limit| !read.contains(limit));
            untold.for_each(|limit| self.ledger.adaptive_mut(limit).note_announced(call.now, None));
        }
        settled
    }

    /// Compares levels that the upstream read at some time between `asked` and `answered`.
    pub(crate) fn compare_levels(&mut self, now: Time, asked: Time, answered: Time, levels: &[(LimitId, Amount)]) {
        for (limit, level) in levels {
            let remaining = Reading::new(Scope::Unnamed, *level).remaining_range();
            self.ledger.adaptive_mut(*limit).learn_level(now, asked..=answered, Amount::ZERO, &remaining);
        }
    }

    fn pauses(&self, call: ObservedCall<'_>, limits: &Limits, reported: impl Fn(LimitId) -> Option<Span>) -> Pauses {
        let pause = |limit: &LimitId| {
            let reported = reported(*limit);
            let freeze = self.ledger.freeze_of(call, *limit);
            let believe = |reported| Freeze::believe(freeze, call.now, call.start, call.user, reported);
            let (believed, claim) = reported.map(believe).unzip();
            Pause { limit: *limit, believed, claim, is_unconfirmed: believed < reported }
        };
        limits.iter().map(pause).collect()
    }

    /// Corrects the bucket that most likely rejected the call, and returns the bill that stays
    /// charged: to that bucket, as the correction sets the level as a whole, and to keys.
    fn learn_rejection(&mut self, call: ObservedCall<'_>, pauses: &Pauses) -> Bill {
        let (now, at, bill) = (call.now, call.at(), call.bill);
        let keys = pauses.iter().filter_map(|pause| bill.key_charge(pause.limit));
        keys.for_each(|charge| self.ledger.keys.begin_to_adapt(now, charge));
        let mut settled = bill.keyed_part();
        let unsteered = pauses.iter().filter(|pause| !self.resource[pause.limit].spec().is_steered());
        let refill_left = |pause: &Pause| Some(self.ledger.learned(&bill.bucket(pause.limit))?.refill_left(now, at));
        let least = unsteered.filter_map(|pause| Some((refill_left(pause)?, pause))).min_by_key(|(left, _)| *left);
        if let Some((_, Pause { limit, believed, .. })) = least {
            let cost = bill.get(*limit);
            let (told, attribution) = (&call.observation.readings, Attribution::new(&self.resource, bill));
            let is_of_it = |reading: &Reading| attribution.limit_read(reading, told) == Some(*limit);
            self.ledger.learn_of(now, &bill.bucket(*limit), |learned| {
                let tells_left = told.iter().any(|reading| is_of_it(reading) && learned.may_be_of(now, reading));
                learned.learn_rejection(now, at, cost, *believed, tells_left);
            });
            settled.set(*limit, cost);
        }
        settled
    }

    fn freeze(&mut self, call: ObservedCall<'_>, pauses: &Pauses) {
        let ObservedCall { now, bill, .. } = call;
        let mut longest = Span::ZERO;
        let mut voids = false;
        for Pause { limit, believed, claim, .. } in pauses {
            let next = || Freeze::next_pause(self.ledger.freeze_of(call, *limit), now, call.start);
            let pause = believed.unwrap_or_else(next);
            // Starts within the horizon were sent already, and cannot be called back.
            let announced = now + self.resource.spec().horizon;
            voids |= self.ledger.freeze(now, bill, *limit, announced, Freeze::new(now, now + pause, *claim));
            longest = longest.max(pause);
            self.note_pause(call, pauses, *limit, pause);
        }
        self.announce(voids, pauses.iter().map(|pause| bill.bucket(pause.limit)), longest);
    }

    /// Stops the calls that need the spent limits until `reset`. Without it, a quota is reset by
    /// its calendar, but is asked for again within [`UNKNOWN_RESET`].
    fn exhaust(&mut self, call: ObservedCall<'_>, scope: &Scope, reset: Option<Span>) {
        let stated = reset.unwrap_or(UNKNOWN_RESET);
        let blamed = blamed(&self.resource, &self.ledger, call, scope, Some(stated));
        let (limits, are_quotas) = Attribution::new(&self.resource, call.bill).exhausted(scope, blamed);
        if !are_quotas {
            let pauses = self.pauses(call, &limits, |_| Some(stated.min(LONGEST_WITHOUT_QUOTA)));
            return self.freeze(call, &pauses);
        }
        let by_calendar = |limit| self.ledger.window_end(call, limit).filter(|_| reset.is_none());
        let mut pauses = self.pauses(call, &limits, |limit| Some(by_calendar(limit).unwrap_or(stated)));
        for pause in pauses.iter_mut().filter(|pause| reset.is_none() && pause.believed > Some(UNKNOWN_RESET)) {
            (pause.believed, pause.is_unconfirmed) = (Some(UNKNOWN_RESET), true);
        }
        self.spend_quotas(call, &pauses);
    }

    /// Marks quotas as spent, so that the next dispatches refuse the requests that wait for them. A
    /// probe call follows if the response asks for a longer pause than is believed.
    fn spend_quotas(&mut self, call: ObservedCall<'_>, pauses: &Pauses) {
        let ObservedCall { now, bill, .. } = call;
        for Pause { limit, believed, claim, is_unconfirmed } in pauses {
            let pause = believed.unwrap_or(UNKNOWN_RESET);
            let until = now + pause;
            if bill.key_charge(*limit).is_none() {
                self.ledger.adaptive_mut(*limit).mark_spent_until(until);
            }
            if bill.key_charge(*limit).is_some() || *is_unconfirmed {
                self.ledger.freeze(now, bill, *limit, until, Freeze::new(now, until, *claim));
            }
            self.note_pause(call, pauses, *limit, pause);
        }
        self.term.budget.hasten_checkpoint();
    }

    /// Reports a pause that `call` has begun to people, with the pause that its response asked for.
    fn note_pause(&mut self, call: ObservedCall<'_>, pauses: &Pauses, limit: LimitId, span: Span) {
        let asked = pauses.iter().find(|pause| pause.limit == limit).and_then(|pause| pause.claim);
        let asked = asked.map(|claim| claim.until.since(call.now));
        let (bucket, is_certain) = (call.bill.bucket(limit), pauses.len() == 1);
        self.outbox.push_back(Command::Note(Note::Paused(PauseNote { bucket, asked, span, is_certain })));
    }

    /// Ends the freezes of these limits, and unmarks quotas that the upstream declared spent.
    pub(crate) fn thaw(&mut self, now: Time, limits: &[LimitId]) {
        limits.iter().for_each(|limit| self.ledger.thaw(now, *limit));
        self.term.budget.hasten_checkpoint();
    }

    pub(crate) fn freeze_by_order(&mut self, now: Time, limits: &[LimitId], span: Span) {
        let announced = now + self.resource.spec().horizon;
        let mut voids = false;
        for limit in limits {
            voids |= self.ledger.freeze(now, &Bill::default(), *limit, announced, Freeze::ordered(now + span));
        }
        self.announce(voids, limits.iter().map(|limit| (*limit, None)), span);
    }

    pub(crate) fn empty(&mut self, now: Time, limits: &[LimitId]) {
        let names: Vec<&Name> = limits.iter().map(|limit| &self.resource[*limit].spec().name).collect();
        self.ledger.drain(now, |limit| names.contains(&&limit.spec().name));
        self.term.budget.doubt();
    }

    /// Empties the buckets of limits with short periods, because unknown schedulers may have
    /// granted their stock. Limits with long periods and quotas keep theirs: clients' reports about
    /// epochs must not empty them for hours.
    pub(crate) fn distrust_stock(&mut self, now: Time, epoch: Epoch) {
        self.term.raise_epoch(epoch);
        self.ledger.drain(now, |limit| !limit.has_long_period());
        self.unsettled.clear();
        self.term.budget.doubt();
    }

    /// Makes a checkpoint with a freeze due soon, and informs clients if the freeze voids promises.
    fn announce(&mut self, voids: bool, buckets: impl Iterator<Item = BucketName>, span: Span) {
        self.term.budget.hasten_checkpoint();
        if voids {
            self.outbox.push_back(Command::Announce(FreezeNotice { buckets: buckets.collect(), span }));
        }
    }

    fn compare(&mut self, call: ObservedCall<'_>, reading: &Reading) -> Option<LimitId> {
        let attribution = Attribution::new(&self.resource, call.bill);
        let limit = attribution.limit_read(reading, &call.observation.readings)?;
        let is_of_it = self.follow_capacity(call, limit, reading);
        self.compare_level(call, limit, reading, is_of_it);
        Some(limit)
    }

    /// Compares the level of a limit with a reading of it, or of another limit unless `is_of_it`.
    fn compare_level(&mut self, call: ObservedCall<'_>, limit: LimitId, reading: &Reading, is_of_it: bool) {
        let ObservedCall { now, bill, observation, .. } = call;
        let at = call.at();
        let written = &self.resource[limit];
        // What another limit has left counts until its reset. A token bucket has no such end.
        if written.has_tokens() && !is_of_it {
            return;
        }
        let took = if observation.verdict == Verdict::Passed { bill.get(limit) } else { Amount::ZERO };
        let learn = |learned: &mut AdaptiveLimit| learned.learn_level(now, at..=at, took, &reading.remaining_range());
        if written.has_tokens() && self.ledger.learn_of(now, &bill.bucket(limit), learn).is_some() {
            return;
        }
        // The response was written between the call's start and now.
        let ends = reading.reset.map(|reset| Interval {
            from: at + reset.saturating_sub(reading.reset_grain),
            until: now + reset + reading.reset_grain,
        });
        let reading = BucketReading {
            at,
            remaining: written.rate().credit(*reading.remaining_range().end()),
            resets: ends.map(|ends| ends.until),
            ends: ends.filter(|_| is_of_it),
        };
        let is_believed = self.ledger.learn(now, bill, limit, &reading);
        self.counters.disbelieved += u64::from(!is_believed);
    }

    /// Follows the capacity that a reading states, and returns whether the reading may be of this
    /// limit. For a key without a rejected call, the remaining amount already shows its capacity.
    fn follow_capacity(&mut self, call: ObservedCall<'_>, limit: LimitId, reading: &Reading) -> bool {
        let ObservedCall { now, bill, .. } = call;
        let (written, is_keyed) = (self.resource[limit].spec().capacity, bill.key_charge(limit).is_some());
        let follows = self.resource.spec().follow == Follow::Headers;
        let follow = |learned: &mut AdaptiveLimit| {
            learned.note_announced(now, reading.capacity);
            let (is_of_it, told) = (learned.may_be_of(now, reading), learned.tell_announced(now));
            (is_of_it, told, follows && is_of_it && learned.learn_capacity(now, call.at(), reading))
        };
        let followed = self.ledger.learn_of(now, &bill.bucket(limit), follow);
        let (is_of_it, told, changes) =
            followed.unwrap_or_else(|| (self.ledger.adaptive(limit).may_be_of(now, reading), None, false));
        self.counters.disbelieved += u64::from(reading.capacity > Some(written) || !is_of_it);
        // People are informed of limits, not of keys.
        if changes && !is_keyed {
            self.outbox.push_back(Command::Note(Note::CapacityChanged(limit)));
            self.term.budget.hasten_checkpoint();
        }
        self.outbox.extend(told.filter(|_| !is_keyed).map(|told| Command::Note(Note::CapacityStated(limit, told))));
        is_of_it
    }
}

/// Returns the limits that are blamed for the rejection of `call`, whose response has this scope
/// and asks for the pause `named`: the narrowest that can be meant, and of these the ones that can
/// ask for so long a pause, if any. A wider one is blamed as well if our own count has used it up,
/// or if the call was the probe of its pause. The next wider ones are blamed if a pause of the
/// narrower ones has not helped, and none of their calls was served meanwhile.
pub(crate) fn blamed(
    resource: &Resource,
    ledger: &Ledger,
    call: ObservedCall<'_>,
    scope: &Scope,
    named: Option<Span>,
) -> Limits {
    let attribution = Attribution::new(resource, call.bill);
    let mut wider = attribution.suspects(scope);
    let mut blamed = attribution.narrowest(&wider);
    wider.retain(|limit| !blamed.contains(limit));
    let may_ask = |limit: LimitId| named.is_none_or(|named| named <= resource[limit].spec().period + PAUSE_GRAIN);
    if blamed.iter().any(|limit| may_ask(*limit)) {
        blamed.retain(|limit| may_ask(*limit));
    }
    let failed = blamed.iter().filter_map(|limit| ledger.freeze_of(call, *limit)?.failed_since(call.start)).max();
    let next = attribution.narrowest(&wider);
    let is_doubted = |limit| failed.is_some_and(|since| ledger.adaptive(limit).served <= since);
    wider.retain(|limit| {
        ledger.freeze_of(call, *limit).is_some_and(|freeze| freeze.is_probed_by(call.start))
            || may_ask(*limit) && ledger.lacks_after(call, *limit, call.bill.get(*limit))
            || next.contains(limit) && is_doubted(*limit)
    });
    blamed.extend(wider);
    blamed
}
