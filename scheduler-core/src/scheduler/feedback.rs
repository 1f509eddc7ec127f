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
use crate::adaptation::{Attribution, Limits, Observation, Reading, Scope, Verdict, may_be_of};
use crate::command::{Command, FreezeNotice, Note};
use crate::discovery::Blame;
use crate::ids::{Connection, LimitId};
use crate::limits::{BucketReading, Interval, UNCONFIRMED};
use crate::permits::Granted;
use crate::policy::Bill;
use crate::policy::spec::Follow;
use crate::refusal::Refusal;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use smallvec::SmallVec;

/// How long a key is frozen after a rejection that does not say.
const KEY_PAUSE: Span = Span::from_secs(1);
/// How long a quota counts as spent, if the upstream does not say when it is reset.
const UNKNOWN_RESET: Span = Span::from_secs(3600);
/// The longest pause for a spent quota, if none of the call's limits is one.
const LONGEST_WITHOUT_QUOTA: Span = Span::from_secs(3600);

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
    /// Takes note of the answer to a call over `connection` that was charged `bill`. If a limit
    /// rejected the call, returns the bill that it is settled at: the other charges are refunded.
    pub(crate) fn observe(
        &mut self,
        now: Time,
        (connection, granted): (Connection, &Granted),
        bill: &Bill,
        observation: &Observation,
    ) -> Option<Bill> {
        let mut settled = None;
        let at = granted.start.at.min(now);
        let blamed = self.search_by(now, (connection, at), bill, observation);
        match &observation.verdict {
            Verdict::Passed => self.ledger.note_served(now, granted.start, at, bill),
            // The upstream has taken nothing, and will as soon as another call has ended.
            Verdict::Busy | Verdict::Limited { .. } if blamed == Some(Blame::Places) => {
                settled = Some(bill.keyed_part());
            }
            Verdict::Busy => {}
            Verdict::Limited { scope, retry_after, by_other_accounts } => {
                let mut limits = Attribution::new(&self.resource, bill).blamed(scope);
                if blamed == Some(Blame::KeyRate) {
                    // Calls of other keys go on.
                    limits.retain(|limit| !self.resource[*limit].spec().guessed || bill.key_charge(*limit).is_some());
                }
                let pauses = self.pauses(now, connection, bill, &limits, *retry_after);
                if !by_other_accounts {
                    settled = Some(self.learn_rejection(now, at, bill, &pauses));
                }
                self.freeze(now, connection, bill, &pauses);
            }
            Verdict::Exhausted { scope, reset } => {
                let reset = reset.unwrap_or(UNKNOWN_RESET);
                let (limits, are_quotas) = Attribution::new(&self.resource, bill).exhausted(scope);
                let told = if are_quotas { reset } else { reset.min(LONGEST_WITHOUT_QUOTA) };
                let pauses = self.pauses(now, connection, bill, &limits, Some(told));
                match are_quotas {
                    true => self.spend_quotas(now, connection, bill, &pauses),
                    false => self.freeze(now, connection, bill, &pauses),
                }
                settled = Some(bill.keyed_part());
            }
        }
        for reading in &observation.readings {
            self.compare(now, (connection, at), bill, observation, reading);
        }
        settled
    }

    /// Notes levels that the upstream read at some time between `asked` and `heard`.
    pub(crate) fn compare_levels(&mut self, now: Time, asked: Time, heard: Time, levels: &[(LimitId, Amount)]) {
        for (limit, level) in levels {
            let told = Reading::new(Scope::Unnamed, *level).told();
            self.ledger.adaptive_mut(*limit).learn_level(now, asked..=heard, Amount::ZERO, &told);
        }
    }

    /// When what was learned is to be reviewed, as long as a request waits.
    pub(crate) fn next_review(&self) -> Option<Time> {
        self.ledger.next_review().filter(|_| self.waiting() > 0)
    }

    /// The refusal of a bill that needs a spent quota.
    pub(crate) fn spent_quota(&self, now: Time, bill: &Bill) -> Option<Refusal> {
        let (until, limit) = self.ledger.last_spent_quota(now, bill, self.plan.holds().map(|hold| hold.start))?;
        let retry_after = (until < Time::NEVER).then(|| until.since(now));
        Some(Refusal::QuotaSpent { limit, retry_after })
    }

    /// The pause of each limit, as far as it is believed.
    fn pauses(&self, now: Time, connection: Connection, bill: &Bill, limits: &Limits, told: Option<Span>) -> Pauses {
        let pause = |limit: &LimitId| {
            let believed = told.map(|told| match self.ledger.is_claimed_by_another(now, bill, *limit, connection) {
                true => told,
                false => told.min(UNCONFIRMED),
            });
            Pause { limit: *limit, believed, is_claim: believed < told }
        };
        limits.iter().map(pause).collect()
    }

    /// Corrects the shared limit that most likely rejected the call. Its charge stays, as the
    /// correction sets the level as a whole. The charges to keys stay, too.
    fn learn_rejection(&mut self, now: Time, at: Time, bill: &Bill, pauses: &Pauses) -> Bill {
        let mut settled = bill.keyed_part();
        let slack = |pause: &&Pause| self.ledger.adaptive(pause.limit).slack(at, bill.get(pause.limit));
        let is_guess = |limit: LimitId| self.resource[limit].spec().guessed;
        let shared = pauses.iter().filter(|pause| bill.key_charge(pause.limit).is_none() && !is_guess(pause.limit));
        if let Some(Pause { limit, believed, .. }) = shared.min_by_key(slack) {
            let cost = bill.get(*limit);
            self.ledger.adaptive_mut(*limit).learn_rejection(now, at, cost, *believed);
            settled.set(*limit, cost);
        }
        settled
    }

    fn freeze(&mut self, now: Time, connection: Connection, bill: &Bill, pauses: &Pauses) {
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
                self.ledger.note_claim(now, bill, *limit, connection);
            }
            longest = longest.max(pause);
        }
        self.term.hasten_checkpoint();
        if voids {
            let limits = pauses.iter().map(|pause| pause.limit).collect();
            self.outbox.push(Command::Announce(FreezeNotice { limits, span: longest }));
        }
    }

    /// Marks quotas as spent. The next dispatches refuse the requests that wait for them. A probe
    /// call follows if only one client says so.
    fn spend_quotas(&mut self, now: Time, connection: Connection, bill: &Bill, pauses: &Pauses) {
        for Pause { limit, believed, is_claim } in pauses {
            let until = now + believed.unwrap_or(UNKNOWN_RESET);
            if bill.key_charge(*limit).is_none() {
                self.ledger.adaptive_mut(*limit).spend_until(until);
            }
            if bill.key_charge(*limit).is_some() || *is_claim {
                self.ledger.freeze(now, bill, *limit, until, until);
            }
            if *is_claim {
                self.ledger.note_claim(now, bill, *limit, connection);
            }
        }
        self.term.hasten_checkpoint();
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
        self.term.hasten_checkpoint();
    }

    /// Freezes these limits by an operator's order. Clients hear of it if it voids promises.
    pub(crate) fn freeze_by_order(&mut self, now: Time, limits: &[LimitId], span: Span) {
        let announced = now + self.resource.spec().horizon;
        let mut voids = false;
        for limit in limits {
            voids |= self.ledger.freeze_by_order(*limit, announced, now + span);
        }
        self.term.hasten_checkpoint();
        if voids {
            self.outbox.push(Command::Announce(FreezeNotice { limits: limits.to_vec(), span }));
        }
    }

    /// Compares a reading with the limit that it is about.
    fn compare(
        &mut self,
        now: Time,
        (connection, at): (Connection, Time),
        bill: &Bill,
        observation: &Observation,
        reading: &Reading,
    ) {
        let attribution = Attribution::new(&self.resource, bill);
        let Some(limit) = attribution.limit_read(reading, &observation.readings) else { return };
        self.follow_capacity(now, connection, bill, limit, reading);
        let in_use = &self.ledger.adaptive(limit).limit;
        if in_use.has_tokens() && bill.key_charge(limit).is_none() {
            let took = if observation.verdict == Verdict::Passed { bill.get(limit) } else { Amount::ZERO };
            self.ledger.adaptive_mut(limit).learn_level(now, at..=at, took, &reading.told());
            return;
        }
        // The answer was written between the call's start and now.
        let ends = reading.reset.map(|reset| Interval {
            from: at + reset.saturating_sub(reading.reset_grain),
            until: now + reset + reading.reset_grain,
        });
        let reading = BucketReading {
            at,
            connection,
            remaining: in_use.rate().credit(*reading.told().end()),
            resets: ends.map(|ends| ends.until),
            ends: ends.filter(|_| may_be_of(in_use, reading)),
        };
        let is_believed = self.ledger.learn(now, bill, limit, &reading);
        if !is_believed {
            self.counters.disbelieved += 1;
        }
    }

    /// Keeps to the capacity that a reading states. A key's own capacity is a part of what is left.
    fn follow_capacity(&mut self, now: Time, connection: Connection, bill: &Bill, limit: LimitId, reading: &Reading) {
        let follows = self.resource.spec().follow == Follow::Headers && bill.key_charge(limit).is_none();
        let (written, is_of_it) = (self.resource[limit].spec().capacity, may_be_of(&self.resource[limit], reading));
        if reading.capacity > Some(written) || !is_of_it {
            self.counters.disbelieved += 1;
        }
        if let Some(capacity) = reading.capacity.filter(|_| follows && is_of_it)
            && self.ledger.adaptive_mut(limit).hear_capacity(now, connection, capacity)
        {
            self.outbox.push(Command::Note(Note::CapacityChanged(limit)));
            self.term.hasten_checkpoint();
        }
    }

    /// The capacity of a limit that counts by the upstream's word, if that is not the written one.
    #[must_use]
    pub fn stated_capacity(&self, limit: LimitId) -> Option<Amount> {
        self.ledger.adaptive(limit).stated.lowered().map(|stated| stated.capacity)
    }
}
