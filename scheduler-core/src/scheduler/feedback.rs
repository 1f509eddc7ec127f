//! What follows from the upstream's answers.
//!
//! A rejected call shows that the upstream's level is lower than assumed; an answer that says when
//! to call again shows by how much. If it does not name the limit, the limit with the least slack
//! is corrected. Answers are compared with the levels at the time of the call, corrected by what
//! was learned since. So the calls of one round trip do not teach the same thing twice.
//!
//! A worker tells what the upstream has answered, and may be wrong. What it says counts for the
//! limits that its call was charged to. It stops their calls for a minute at most: a longer pause
//! needs the word of a second client, such as the one that makes the probe call after the minute.

use super::Scheduler;
use super::permits::Granted;
use crate::adaptation::{Observation, Reading, Scope, Verdict};
use crate::command::{Command, FreezeNotice};
use crate::ids::{Asker, LimitId};
use crate::limits::{Interval, Statement, UNCONFIRMED};
use crate::policy::spec::Follow;
use crate::policy::{Bill, Limit};
use crate::refusal::Refusal;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// How long a key is frozen after a rejection that does not say.
const KEY_PAUSE: Span = Span::from_secs(1);
/// How long a quota counts as spent, if the upstream does not say when it is reset.
const UNKNOWN_RESET: Span = Span::from_secs(3600);
/// The longest pause for a spent quota, if none of the call's limits is one.
const LONGEST_WITHOUT_QUOTA: Span = Span::from_secs(3600);

/// An answer that states less than one part in this many of a capacity is about another limit.
const LEAST_PART: u64 = 10;
/// How often people are told that capacities have changed.
const CAPACITY_NEWS: Span = Span::from_secs(10);

type Limits = SmallVec<[LimitId; 3]>;
type Pauses = SmallVec<[Pause; 3]>;

/// How long calls of a limit are to pause.
struct Pause {
    limit: LimitId,
    /// The time that is believed; nothing if none was told.
    believed: Option<Span>,
    /// Whether more was told than is believed.
    is_claim: bool,
}

impl<R: Clone> Scheduler<R> {
    /// Takes note of the answer to a call of `asker` that was charged `bill`. If a limit rejected
    /// the call, returns the bill that it is settled at: the other charges are refunded.
    pub(crate) fn observe(
        &mut self,
        now: Time,
        (asker, granted): (Asker, &Granted),
        bill: &Bill,
        observation: &Observation,
    ) -> Option<Bill> {
        let mut settled = None;
        let at = granted.key.at.min(now);
        match &observation.verdict {
            Verdict::Passed => self.ledger.note_served(now, granted.key, at, bill),
            Verdict::Limited { scope, retry_after, others } => {
                let limits = self.blamed(bill, scope);
                let pauses = self.pauses(now, asker, bill, &limits, *retry_after);
                if !others {
                    settled = Some(self.learn_rejection(now, at, bill, &pauses));
                }
                self.freeze(now, asker, bill, &pauses);
            }
            Verdict::Exhausted { scope, reset } => {
                let reset = reset.unwrap_or(UNKNOWN_RESET);
                let (limits, are_quotas) = self.exhausted(bill, scope);
                let told = if are_quotas { reset } else { reset.min(LONGEST_WITHOUT_QUOTA) };
                let pauses = self.pauses(now, asker, bill, &limits, Some(told));
                match are_quotas {
                    true => self.spend_quotas(now, asker, bill, &pauses),
                    false => self.freeze(now, asker, bill, &pauses),
                }
                settled = Some(bill.keyed_part());
            }
        }
        for reading in &observation.readings {
            self.compare(now, (asker, at), bill, observation, reading);
        }
        settled
    }

    /// Notes levels that the upstream read at some time between `asked` and `heard`.
    pub(crate) fn compare_levels(&mut self, now: Time, asked: Time, heard: Time, levels: &[(LimitId, Amount)]) {
        for (limit, level) in levels {
            self.ledger.adaptive_mut(*limit).learn_level(now, asked, heard, *level);
        }
    }

    /// When what was learned is to be reviewed, as long as a request waits.
    pub(crate) fn next_review(&self) -> Option<Time> {
        self.ledger.next_review().filter(|_| self.waiting() > 0)
    }

    /// The refusal of a bill that needs a spent quota.
    pub(crate) fn spent_quota(&self, now: Time, bill: &Bill) -> Option<Refusal> {
        let (until, limit) = self.ledger.last_spent_quota(now, bill, self.holds.iter().map(|hold| hold.key))?;
        let retry_after = (until < Time::NEVER).then(|| until.since(now));
        Some(Refusal::QuotaSpent { limit, retry_after })
    }

    /// The limits of the bill that a scope means. A limit that the call was not charged to is none.
    fn limits_in(&self, bill: &Bill, scope: &Scope) -> Limits {
        let charged = |means: &dyn Fn(LimitId) -> bool| bill.charged().filter(|limit| means(*limit)).collect();
        match scope {
            Scope::Unnamed => charged(&|_| true),
            Scope::Unit(unit) => charged(&|limit| *self.resource[limit].spec().unit == **unit),
            Scope::Limit(name) => match self.resource.limit(name) {
                Some(named) => charged(&|limit| limit == named),
                None => charged(&|_| true),
            },
        }
    }

    /// The limits of the bill that rejected the call: any, if none of those is meant.
    fn blamed(&self, bill: &Bill, scope: &Scope) -> Limits {
        let meant = self.limits_in(bill, scope);
        if meant.is_empty() { bill.charged().collect() } else { meant }
    }

    /// The limits of the bill that are spent, and whether they are quotas. If none is one, it is a
    /// limit of a long period.
    fn exhausted(&self, bill: &Bill, scope: &Scope) -> (Limits, bool) {
        let blamed = self.blamed(bill, scope);
        let of = |is: fn(&Limit) -> bool| -> Limits {
            blamed.iter().copied().filter(|limit| is(&self.resource[*limit])).collect()
        };
        let (quotas, long) = (of(Limit::is_quota), of(Limit::has_long_period));
        match (quotas.is_empty(), long.is_empty()) {
            (false, _) => (quotas, true),
            (true, false) => (long, false),
            (true, true) => (blamed, false),
        }
    }

    /// The pause of each limit, as far as it is believed.
    fn pauses(&self, now: Time, asker: Asker, bill: &Bill, limits: &Limits, told: Option<Span>) -> Pauses {
        let pause = |limit: &LimitId| {
            let believed = told.map(|told| match self.ledger.is_claimed_by_another(now, bill, *limit, asker) {
                true => told,
                false => told.min(UNCONFIRMED),
            });
            Pause { limit: *limit, believed, is_claim: believed < told }
        };
        limits.iter().map(pause).collect()
    }

    /// Corrects the shared limit that most likely rejected the call. Its charge stays, as the
    /// correction sets the level as a whole, and so do those of keys.
    fn learn_rejection(&mut self, now: Time, at: Time, bill: &Bill, pauses: &Pauses) -> Bill {
        let mut settled = bill.keyed_part();
        let slack = |pause: &&Pause| self.ledger.adaptive(pause.limit).slack(at, bill.get(pause.limit));
        let shared = pauses.iter().filter(|pause| bill.key_charge(pause.limit).is_none());
        if let Some(Pause { limit, believed, .. }) = shared.min_by_key(slack) {
            let cost = bill.get(*limit);
            self.ledger.adaptive_mut(*limit).learn_rejection(now, at, cost, *believed);
            settled.set(*limit, cost);
        }
        settled
    }

    fn freeze(&mut self, now: Time, asker: Asker, bill: &Bill, pauses: &Pauses) {
        let mut longest = Span::ZERO;
        let mut voids = false;
        for Pause { limit, believed, is_claim } in pauses {
            let pause = believed.unwrap_or_else(|| match bill.key_charge(*limit) {
                Some(_) => KEY_PAUSE,
                None => self.ledger.adaptive_mut(*limit).next_pause(now),
            });
            // Starts within the horizon were told already, and cannot be called back.
            voids |= self.ledger.freeze(now, bill, *limit, now + self.resource.spec().horizon, now + pause);
            if *is_claim {
                self.ledger.note_claim(now, bill, *limit, asker);
            }
            longest = longest.max(pause);
        }
        self.hasten_checkpoint();
        if voids {
            let limits = pauses.iter().map(|pause| pause.limit).collect();
            self.push(Command::Announce(FreezeNotice { limits, span: longest }));
        }
    }

    /// Marks quotas as spent. The next dispatches refuse the requests that wait for them. A probe
    /// call follows if only one client says so.
    fn spend_quotas(&mut self, now: Time, asker: Asker, bill: &Bill, pauses: &Pauses) {
        for Pause { limit, believed, is_claim } in pauses {
            let until = now + believed.unwrap_or(UNKNOWN_RESET);
            if bill.key_charge(*limit).is_none() {
                self.ledger.adaptive_mut(*limit).spend_until(until);
            }
            if bill.key_charge(*limit).is_some() || *is_claim {
                self.ledger.freeze(now, bill, *limit, until, until);
            }
            if *is_claim {
                self.ledger.note_claim(now, bill, *limit, asker);
            }
        }
        self.hasten_checkpoint();
    }

    /// The limits among `chosen`, or all, that calls wait for because of the upstream's word.
    #[must_use]
    pub fn paused(&self, now: Time, chosen: Option<LimitId>) -> Vec<LimitId> {
        let all = self.resource.limits_by_id().map(|(limit, _)| limit);
        let chosen = all.filter(|limit| chosen.is_none_or(|chosen| chosen == *limit));
        chosen.filter(|limit| self.ledger.is_paused(now, *limit)).collect()
    }

    /// Ends the pauses of these limits: the upstream's word no longer counts.
    pub(crate) fn thaw(&mut self, now: Time, limits: &[LimitId]) {
        limits.iter().for_each(|limit| self.ledger.thaw(now, *limit));
        self.hasten_checkpoint();
    }

    /// Compares a reading with the limit that it is about.
    fn compare(
        &mut self,
        now: Time,
        (asker, at): (Asker, Time),
        bill: &Bill,
        observation: &Observation,
        reading: &Reading,
    ) {
        let [limit] = self.limits_read(bill, observation, reading)[..] else { return };
        self.follow_capacity(now, asker, bill, limit, reading);
        let in_use = &self.ledger.adaptive(limit).limit;
        if in_use.has_tokens() && bill.key_charge(limit).is_none() {
            self.ledger.adaptive_mut(limit).learn_level(now, at, at, reading.remaining);
            return;
        }
        // The answer was written between the call's start and now.
        let ends = reading.reset.map(|reset| Interval {
            from: at + reset.saturating_sub(reading.reset_grain),
            until: now + reset + reading.reset_grain,
        });
        let statement = Statement {
            at,
            asker,
            remaining: in_use.rate().credit(reading.remaining),
            resets: ends.map(|ends| ends.until),
            ends: ends.filter(|_| is_of(in_use, reading)),
        };
        let is_believed = self.ledger.learn(now, bill, limit, &statement);
        self.counters.disbelieved += u64::from(!is_believed);
    }

    /// Keeps to the capacity that a reading states. A key's own capacity is a part of what is left.
    fn follow_capacity(&mut self, now: Time, asker: Asker, bill: &Bill, limit: LimitId, reading: &Reading) {
        let follows = self.resource.spec().follow == Follow::Headers && bill.key_charge(limit).is_none();
        let (written, is_of_it) = (self.resource[limit].spec().capacity, is_of(&self.resource[limit], reading));
        self.counters.disbelieved += u64::from(reading.capacity > Some(written) || !is_of_it);
        if let Some(capacity) = reading.capacity.filter(|_| follows && is_of_it)
            && self.ledger.adaptive_mut(limit).hear_capacity(now, asker, capacity)
        {
            self.capacity_changes.insert(limit);
            self.hasten_checkpoint();
        }
    }

    /// The limits whose capacity has changed by the upstream's word, every few seconds. Answers
    /// that contradict each other fill no log.
    pub fn take_capacity_changes(&mut self, now: Time) -> BTreeSet<LimitId> {
        if self.capacity_changes.is_empty() || now < self.next_capacity_news {
            return BTreeSet::new();
        }
        self.next_capacity_news = now + CAPACITY_NEWS;
        std::mem::take(&mut self.capacity_changes)
    }

    /// The capacity of a limit that counts by the upstream's word, if that is not the written one.
    #[must_use]
    pub fn stated_capacity(&self, limit: LimitId) -> Option<Amount> {
        self.ledger.adaptive(limit).stated.less().map(|stated| stated.capacity)
    }

    /// The limits of the bill that a reading may be about. Of several, the capacity tells which
    /// one, or else its rank: an answer that tells of as many buckets as there are limits tells of
    /// each.
    fn limits_read(&self, bill: &Bill, observation: &Observation, reading: &Reading) -> Limits {
        let mut limits = self.limits_in(bill, &reading.scope);
        limits.retain(|limit| !self.resource[*limit].is_until_settled());
        let capacity = |limit: LimitId| self.resource[limit].spec().capacity;
        if limits.len() < 2 {
            return limits;
        }
        if limits.iter().any(|limit| Some(capacity(*limit)) == reading.capacity) {
            limits.retain(|limit| Some(capacity(*limit)) == reading.capacity);
            return limits;
        }
        let beside = observation.readings.iter().filter(|other| self.limits_in(bill, &other.scope) == limits);
        let told: Vec<Option<Amount>> = beside.map(|other| other.capacity).collect();
        let rank = told.iter().filter(|told| **told < reading.capacity).count();
        let is_one_of_each =
            told.len() == limits.len() && told.iter().filter(|told| **told == reading.capacity).count() == 1;
        limits.sort_by_key(|limit| capacity(*limit));
        match reading.capacity.filter(|_| is_one_of_each) {
            Some(_) => limits.drain(rank..=rank).collect(),
            None => Limits::new(),
        }
    }
}

/// Whether a reading may be of this limit. Another limit may hold the call up, too, but its windows
/// and its capacity are not these.
fn is_of(limit: &Limit, reading: &Reading) -> bool {
    let fits = reading.reset.is_none_or(|reset| reset <= limit.spec().period + reading.reset_grain);
    let least = limit.spec().capacity.micros() / LEAST_PART;
    fits && reading.capacity.is_none_or(|capacity| capacity.micros() >= least)
}
