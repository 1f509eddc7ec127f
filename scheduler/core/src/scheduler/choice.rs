//! Requests that can be served in several ways, such as by several accounts: which one they get.
//!
//! A request keeps all its alternatives while it waits, in one queue with all others. Whenever it
//! could start, each alternative makes an offer. The first in order that is worth waiting for, and
//! starts within that time, is chosen; otherwise the one that starts earliest. Of several that
//! start at once, an account whose own limits are all paused is chosen last, though the call takes
//! none of them; then the one with the most stock is chosen, counted in such calls and times its
//! weight, and then the one that was chosen least recently.

use crate::ledger::Offer;
use crate::scheduler::Scheduler;
use rampmeter_policy::ids::{ClassId, LimitId, Tier};
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::spec::Weight;
use rampmeter_policy::{Alternative, Bill, LimitSet};
use rampmeter_protocol::labels::ACCOUNT;
use rampmeter_protocol::time::Time;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::sync::Arc;

/// An option of a bill, and its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    /// The alternative that was chosen; `None` if the bill has none.
    pub(crate) alternative: Option<&'a Arc<Bill>>,
    pub(crate) offer: Offer,
}

impl<R> Scheduler<R> {
    /// Chooses an option of the bill of a request that came at `since`. `None` if each needs a
    /// spent quota or one of the `blocked` limits.
    pub(crate) fn choose<'a>(
        &self,
        whole: &'a Bill,
        since: Time,
        blocked: LimitSet,
        offer: impl Fn(&Bill) -> Offer,
    ) -> Option<Choice<'a>> {
        let Some(alternatives) = whole.alternatives.as_deref() else {
            return Some(Choice { alternative: None, offer: offer(whole) });
        };
        let is_open =
            |bill: &Bill| !bill.charged().any(|limit| blocked.has(limit)) && self.spent_quota(self.now, bill).is_none();
        let open = alternatives.iter().filter(|one| is_open(&one.bill));
        let offers: SmallVec<[(&Alternative, Offer); 4]> = open.map(|one| (one, offer(&one.bill))).collect();
        // What lacks proof of its stock, or a checkpoint that covers it, starts later than it says.
        let has_to_wait = |bill: &Bill, offer: &Offer| {
            self.ledger.unproven(self.now, bill).is_some() || !self.is_covered(bill, offer.at)
        };
        let order = |bill: &Bill, offer: &Offer| (offer.at, has_to_wait(bill, offer), self.reluctance(bill));
        // Accounts alone are no preference: of several ways, the first that starts in time is.
        let has_ways = alternatives.iter().any(|one| one.bill.way > 0);
        let is_in_time =
            |(one, offer): &&(&Alternative, Offer)| has_ways && offer.at <= (since + one.wait).max(self.now);
        let preferred = offers.iter().find(is_in_time).map(|(one, _)| one.bill.way);
        let is_candidate =
            |it: &&(&Alternative, Offer)| preferred.is_none_or(|way| it.0.bill.way == way && is_in_time(it));
        let (one, offer) = offers.iter().filter(is_candidate).min_by_key(|(one, offer)| order(&one.bill, offer))?;
        let offer = *offer;
        Some(Choice { alternative: Some(&one.bill), offer })
    }

    /// Compares options that start at once: the least reluctant account goes first.
    fn reluctance(&self, bill: &Bill) -> (bool, Reverse<u128>, u64) {
        let account = bill.account.map(|account| account.index());
        let weight = account.map_or(Weight::ONE, |account| self.resource.spec().accounts[account].weight);
        let stock = u128::from(weight.weighted_count(self.ledger.calls_left(self.now, bill)));
        (self.rests(bill), Reverse(stock), account.map_or(0, |account| self.chosen[account]))
    }

    /// Whether all limits that an account has for itself are paused, and the call takes none of them.
    fn rests(&self, bill: &Bill) -> bool {
        let is_own = |limit: &LimitId| self.resource[*limit].spec().applies.matching.contains_key(ACCOUNT);
        !bill.charged().any(|limit| is_own(&limit))
            && bill.limits().filter(is_own).all(|limit| self.ledger.is_paused(self.now, limit))
    }

    /// Chooses an option even if all need a spent quota.
    pub(crate) fn choose_or<'a>(&self, whole: &'a Bill, since: Time, offer: impl Fn(&Bill) -> Offer) -> Choice<'a> {
        let choice = self.choose(whole, since, LimitSet::NONE, &offer);
        choice.unwrap_or_else(|| Choice { alternative: None, offer: offer(whole) })
    }

    /// Returns the only bill that a request of `class` waits for. Key queues hold whole requests, so
    /// one whose options have keys gets its option at its arrival: the likely one, by who waits now.
    pub(crate) fn bound(&self, whole: Bill, class: ClassId) -> Bill {
        if whole.alternatives.is_none() || whole.options().all(|option| option.keyed().next().is_none()) {
            return whole;
        }
        let choice = self.choose_or(&whole, self.now, |bill| self.offer_behind_queue(class, bill));
        choice.alternative.map_or(whole.clone(), |bill| (**bill).clone().of_client(whole.client))
    }

    /// Returns the choice for a request if it alone waited.
    pub(crate) fn choose_now<'a>(&self, whole: &'a Bill, tier: Tier, since: Time) -> Choice<'a> {
        self.choose_or(whole, since, |bill| self.ledger.earliest(self.now, bill, tier))
    }

    /// Returns the option that a request is likely to get.
    pub(crate) fn likely<'a>(&self, whole: &'a Bill, tier: Tier) -> &'a Bill {
        self.choose_now(whole, tier, self.now).alternative.map_or(whole, |alternative| &**alternative)
    }

    /// Returns the refusal of a request each of whose options needs a spent quota.
    pub(crate) fn spent_quota(&self, now: Time, bill: &Bill) -> Option<Refusal> {
        let holds = self.plan.holds.iter().map(|hold| hold.start);
        let spent = |option| Some((self.ledger.last_spent_quota(now, option, holds.clone())?, option));
        let spent = bill.options().map(spent).min_by_key(|spent| spent.map(|(reset, _)| reset));
        spent?.map(|((until, limit), option)| self.short_of(limit, option, until))
    }

    fn short_of(&self, limit: LimitId, bill: &Bill, until: Time) -> Refusal {
        let retry_after = (until < Time::NEVER).then(|| until.since(self.now));
        Refusal::QuotaSpent { limit, left: self.ledger.left(self.now, bill, limit), retry_after }
    }

    /// Returns the refusal of a request whose start comes too late for it.
    pub(crate) fn late(&self, bill: &Bill, offer: Offer) -> Refusal {
        let awaited =
            bill.options().find_map(|option| Some((self.ledger.quota_expecting_settles(self.now, option)?, option)));
        match awaited {
            Some((limit, option)) => self.short_of(limit, option, offer.at),
            None => offer.not_in_time(self.now),
        }
    }

    /// Whether a request that gets `offer` misses its deadline even if all calls in flight end now.
    pub(crate) fn misses(&self, bill: &Bill, tier: Tier, offer: Offer, deadline: Time) -> bool {
        offer.at > deadline && self.earliest_once_settled(bill, tier) > deadline
    }

    /// Returns the earliest start of any option, as if all calls in flight had ended.
    pub(crate) fn earliest_once_settled(&self, bill: &Bill, tier: Tier) -> Time {
        let starts = bill.options().map(|option| self.ledger.earliest_once_settled(self.now, option, tier));
        starts.min().unwrap_or(Time::NEVER)
    }
}
