//! What follows from the upstream's answers.
//!
//! A rejected call shows that the upstream's level is lower than assumed; an answer that says when
//! to call again shows by how much. If it does not name the limit, the limit with the least slack
//! is corrected. Answers are compared with the levels at the time of the call, corrected by what
//! was learned since. So the calls of one round trip do not teach the same thing twice.

use super::Scheduler;
use super::permits::Granted;
use crate::adaptation::{Observation, Reading, Scope, Verdict};
use crate::command::{Command, FreezeNotice};
use crate::ids::LimitId;
use crate::policy::Bill;
use crate::refusal::Refusal;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use smallvec::{SmallVec, smallvec};

/// How long a key is frozen after a rejection that does not say.
const KEY_PAUSE: Span = Span::from_secs(1);
/// How long a quota counts as spent, if the upstream does not say when it is reset.
const UNKNOWN_RESET: Span = Span::from_secs(3600);

type Limits = SmallVec<[LimitId; 3]>;

impl<R: Clone> Scheduler<R> {
    /// Takes note of the answer to a call that was charged `bill`. If a limit rejected the call,
    /// returns the bill that it is settled at: the other charges are refunded.
    pub(crate) fn observe(
        &mut self,
        now: Time,
        granted: &Granted,
        bill: &Bill,
        observation: &Observation,
    ) -> Option<Bill> {
        let mut settled = None;
        let at = granted.key.at.min(now);
        match &observation.verdict {
            Verdict::Passed => self.ledger.note_served(now, granted.key, at, bill),
            Verdict::Limited { scope, retry_after, others } => {
                let limits = self.limits_in(bill, scope);
                if !others {
                    settled = Some(self.learn_rejection(now, at, bill, &limits, *retry_after));
                }
                self.freeze(now, bill, &limits, *retry_after);
            }
            Verdict::Exhausted { scope, reset } => {
                let limits = self.limits_in(bill, scope);
                self.spend_quotas(now, bill, &limits, now + reset.unwrap_or(UNKNOWN_RESET));
                settled = Some(bill.keyed_part());
            }
        }
        for reading in &observation.readings {
            self.compare(now, at, bill, reading);
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

    /// The limits of the bill that a scope means.
    fn limits_in(&self, bill: &Bill, scope: &Scope) -> Limits {
        let limits = self.resource.limits();
        match scope {
            Scope::Unnamed => bill.charged().collect(),
            Scope::Unit(unit) => bill.charged().filter(|limit| *limits[limit.index()].spec().unit == **unit).collect(),
            Scope::Limit(name) => {
                self.resource.limit(name).map_or_else(|| bill.charged().collect(), |limit| smallvec![limit])
            }
        }
    }

    /// Corrects the shared limit that most likely rejected the call. Its charge stays, as the
    /// correction sets the level as a whole, and so do those of keys.
    fn learn_rejection(&mut self, now: Time, at: Time, bill: &Bill, limits: &Limits, after: Option<Span>) -> Bill {
        let mut settled = bill.keyed_part();
        let slack = |limit: &LimitId| self.ledger.adaptive(*limit).slack(at, bill.get(*limit));
        let shared = limits.iter().copied().filter(|limit| bill.key_charge(*limit).is_none());
        if let Some(limit) = shared.min_by_key(slack) {
            let cost = bill.get(limit);
            self.ledger.adaptive_mut(limit).learn_rejection(now, at, cost, after);
            settled.set(limit, cost);
        }
        settled
    }

    fn freeze(&mut self, now: Time, bill: &Bill, limits: &Limits, retry_after: Option<Span>) {
        let mut longest = Span::ZERO;
        let mut voids = false;
        for limit in limits.iter().copied() {
            let pause = retry_after.unwrap_or_else(|| match bill.key_charge(limit) {
                Some(_) => KEY_PAUSE,
                None => self.ledger.adaptive_mut(limit).next_pause(now),
            });
            // Starts within the horizon were told already, and cannot be called back.
            voids |= self.ledger.freeze(now, bill, limit, now + self.resource.spec().horizon, now + pause);
            longest = longest.max(pause);
        }
        self.hasten_checkpoint();
        if voids {
            self.push(Command::Announce(FreezeNotice { limits: limits.to_vec(), span: longest }));
        }
    }

    /// Marks quotas as spent. The next dispatches refuse the requests that wait for them.
    fn spend_quotas(&mut self, now: Time, bill: &Bill, limits: &Limits, until: Time) {
        for limit in limits.iter().copied() {
            match bill.key_charge(limit) {
                Some(_) => _ = self.ledger.freeze(now, bill, limit, until, until),
                None => self.ledger.adaptive_mut(limit).spend_until(until),
            }
        }
        self.hasten_checkpoint();
    }

    /// Compares a reading with the limit that it is about. If several limits count its unit, their
    /// capacities have to tell which one.
    fn compare(&mut self, now: Time, at: Time, bill: &Bill, reading: &Reading) {
        let mut limits = self.limits_in(bill, &reading.scope);
        if limits.len() > 1 {
            limits.retain(|limit| Some(self.resource.limits()[limit.index()].spec().capacity) == reading.capacity);
        }
        // Buckets of keys do not remember their former levels.
        limits.retain(|limit| bill.key_charge(*limit).is_none());
        if let [limit] = limits[..] {
            self.ledger.adaptive_mut(limit).learn_level(now, at, at, reading.remaining);
        }
    }
}
