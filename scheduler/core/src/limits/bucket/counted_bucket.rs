//! Calls that hold a part of a limit, each for some time.
//!
//! Usage is a step function of time: a total now, and the changes ahead in order. A call adds its
//! cost at its start and takes it away at its end. A call can start where usage leaves room for it
//! until its end; the search walks the changes. Usage that a predecessor reports is *anonymous*:
//! its time and amount are known, its calls are not.
//!
//! In fixed windows, a call counts for its whole window. So there is no step between windows of
//! equal usage. The price: ten thousand unequal windows ahead take 0.2 ms to walk.

mod blocks;
mod readings;

use crate::limits::freeze::Freeze;
use crate::limits::timeline::StartKey;
use crate::limits::unsettled::Unsettled;
use crate::limits::usage::UsageBlock;
use crate::limits::windows::{UpstreamReports, Windows, start_in_window};
use rampmeter_policy::Limit;
use rampmeter_policy::arithmetic::{Correction, Credit, StartCost};
use rampmeter_policy::ids::Tier;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Beyond this many changes ahead, ends are rounded up so that many coincide.
const EXACT_STEPS: usize = 4096;
const ROUNDED_PARTS: u64 = 1024;
/// The most windows that an estimate walks one by one. Later ones count as one period long.
const MAX_WALKED_WINDOWS: usize = 64;
const NANOSECOND: Span = Span::from_nanos(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CountedCall {
    cost: Credit,
    tier: Tier,
    until: Time,
    /// Whether the call was over, or unknown, when it was renewed.
    revived: bool,
}

/// The usage of a limit that counts calls, and how it changes.
///
/// A call in flight holds its cost until it is settled or its lease ends; in a sliding window, for
/// the window's length; in a fixed window, for that whole window, within which usage is constant.
///
/// Guarantees that no commit lets usage exceed the limit, then or later.
///
/// Invariants: `total` is the usage at `now`, and `steps` has every later change, of calls and of
/// anonymous usage alike. `ends` has one entry for each call in `calls`. `promised` is the sum of
/// the calls that start after `now`.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedBucket {
    /// Calls by their start: in fixed windows those ahead, otherwise all that are not over.
    calls: BTreeMap<StartKey, CountedCall>,
    anonymous_until: Time,
    /// By how much calls count longer than a predecessor reported.
    extension: Span,
    /// From this time on, anonymous usage may lie in any of several windows.
    ambiguous_from: Time,
    /// Usage now.
    ///
    /// The sum saturates at 2¹²⁵, and counts too little once it has. Commits stay within a full
    /// bucket, so only debits can reach this bound. It takes 1 176 debits of the largest cost
    /// (2¹¹⁴·⁸: 10⁹ units, a period of 366 days) within one period, when the upstream has served a
    /// thousand times the largest capacity and the limit protects nothing.
    total: Credit,
    steps: BTreeMap<Time, Credit>,
    promised: Credit,
    /// The last time at which usage may rise.
    last_rise: Time,
    ends: BTreeSet<(Time, StartKey)>,
    /// When usage last fell, if known.
    last_end: Option<Time>,
    /// The total includes every change until this time.
    now: Time,
    /// Places of a predecessor's calls that are not listed, by the ends of their leases.
    #[expect(clippy::box_collection, reason = "most buckets have none, and are smaller with a pointer")]
    inherited: Option<Box<Vec<UsageBlock>>>,
    reports: Option<Box<UpstreamReports>>,
    /// What its calls may give back, if this is a quota.
    unsettled: Option<Box<Unsettled>>,
    freeze: Option<Freeze>,
}

impl CountedBucket {
    fn windows<'a>(&'a self, limit: &'a Limit) -> Option<Windows<'a>> {
        let reports = self.reports.as_deref();
        let (phase, others) =
            (reports.and_then(|reports| reports.phase.as_ref()), reports.map(|reports| &reports.expected));
        Windows::of(limit, phase, others)
    }

    fn counted_until(&self, limit: &Limit, time: Time) -> Time {
        let ends = self.windows(limit).map(|windows| windows.window(time).ends);
        ends.or_else(|| limit.counts_until(time)).expect("a bucket is of its limit's kind")
    }

    pub(crate) fn earliest(&self, limit: &Limit, from: Time, cost: StartCost) -> Time {
        let (mut at, mut used, mut changes) = (from, Credit::ZERO, self.used_from(from).peekable());
        while at < Time::NEVER {
            while let Some((_, then)) = changes.next_if(|(time, _)| *time <= at) {
                used = then;
            }
            let found = match self.windows(limit) {
                Some(windows) if used + cost.credit <= limit.full().max(cost.credit) => {
                    start_in_window(limit, windows, used, at, cost)
                }
                None if used + limit.demand(cost.credit, cost.tier) <= limit.full() => {
                    self.first_obstacle(limit, at, cost).map_or(Ok(at), Err)
                }
                Some(_) | None => Err(changes.peek().map_or(Time::NEVER, |(time, _)| *time)),
            };
            match found {
                Ok(start) => return start,
                Err(later) => at = later,
            }
        }
        Time::NEVER
    }

    /// Returns the first time after `from` at which `cost`, counted from there, would block starts.
    fn first_obstacle(&self, limit: &Limit, from: Time, cost: StartCost) -> Option<Time> {
        let until = self.last_rise.min(self.counted_until(limit, from) - NANOSECOND);
        let mut before = Credit::INFINITE;
        let mut changes = self.used_from(from).take_while(|(time, _)| *time <= until);
        let obstacle = changes.find(|(time, used)| {
            let rises = *used > std::mem::replace(&mut before, *used);
            rises && self.blocks_starts_at(limit, *time, *used, cost)
        });
        obstacle.map(|(time, _)| time)
    }

    /// Whether `cost` would block starts at `time`, which leave the smaller of both headrooms.
    fn blocks_starts_at(&self, limit: &Limit, time: Time, used: Credit, cost: StartCost) -> bool {
        let starting = self.calls.range(StartKey { at: time, serial: 0 }..=last_key_at(time));
        let tier = starting.map(|(_, call)| call.tier).min().unwrap_or(Tier::NO_HEADROOM).min(cost.tier);
        used + cost.credit + limit.headroom(tier) > limit.full()
    }

    pub(crate) fn commit(&mut self, limit: &Limit, now: Time, key: StartKey, cost: StartCost) {
        self.advance(limit, now);
        if limit.is_quota() {
            self.unsettled.get_or_insert_default().begin(now, key, cost.credit);
        }
        self.commit_until(limit, key, cost, self.end_of_call(limit, key.at));
        if key.at <= self.now {
            self.note_start(limit, key.at, cost.credit);
        }
    }

    fn commit_until(&mut self, limit: &Limit, key: StartKey, cost: StartCost, until: Time) {
        self.add_usage(limit, key.at, until, cost.credit);
        self.list_call(limit, key, cost, until);
    }

    /// Only lists a start that anonymous usage clearly includes, and charges it for the extension.
    pub(crate) fn commit_paid(&mut self, limit: &Limit, _: Time, key: StartKey, cost: StartCost, end: Option<Time>) {
        let until = end.unwrap_or_else(|| self.counted_until(limit, key.at));
        self.take_inherited(until, cost.credit);
        if key.at < self.ambiguous_from && self.used_at(key.at.max(self.now)) >= cost.credit {
            // Under a longer period, usage ends later than reported, as the first listed start
            // shows.
            if limit.alignment().is_none() {
                self.extension = self.extension.max(until.since(self.anonymous_until));
            }
            self.add_usage(limit, until - self.extension, until, cost.credit);
            self.list_call(limit, key, cost, until);
        } else {
            self.commit_until(limit, key, cost, until);
        }
    }

    /// Lists a call by its start, but no past starts in fixed windows: there may be millions.
    fn list_call(&mut self, limit: &Limit, key: StartKey, cost: StartCost, until: Time) {
        if key.at > self.now {
            self.promised = self.promised.saturating_add(cost.credit);
        } else if limit.alignment().is_some() {
            return;
        }
        self.calls.insert(key, CountedCall { cost: cost.credit, tier: cost.tier, until, revived: false });
        self.ends.insert((listed_until(limit, key, until), key));
    }

    /// Anonymous usage has no calls that may end.
    pub(crate) fn likely_end(&self, limit: &Limit, now: Time, call_time: Span) -> Option<Time> {
        let started = self.calls.first_key_value().map(|(key, _)| key.at).filter(|at| *at <= self.now);
        Some((started.filter(|_| limit.counts_calls_in_flight())? + call_time).max(now))
    }

    pub(crate) fn lease_end(&self, key: StartKey) -> Option<Time> {
        self.calls.get(&key).map(|call| call.until)
    }

    pub(crate) fn withdraw(&mut self, limit: &Limit, key: StartKey) -> bool {
        if let (Some(unsettled), Some(call)) = (&mut self.unsettled, self.calls.get(&key)) {
            unsettled.withdraw(key, call.cost);
        }
        key.at > self.now && self.remove_call(limit, key)
    }

    fn remove_call(&mut self, limit: &Limit, key: StartKey) -> bool {
        let Some(CountedCall { cost, until, .. }) = self.calls.remove(&key) else { return false };
        self.ends.remove(&(listed_until(limit, key, until), key));
        if key.at > self.now {
            self.promised -= cost;
        }
        self.add_usage(limit, key.at, until, -cost);
        true
    }

    /// Extends the call's lease to one from `now` on, or lists the call again if it is over or
    /// unknown. Returns whether there was room. A call that is listed again may be part of
    /// anonymous usage, so it fits while there is any.
    pub(crate) fn renew(&mut self, limit: &Limit, now: Time, key: StartKey, cost: StartCost) -> bool {
        if !limit.counts_calls_in_flight() {
            return true;
        }
        self.advance(limit, now);
        let (before, until) = (self.calls.get(&key).copied(), self.counted_until(limit, now));
        let call = before.unwrap_or(CountedCall { cost: cost.credit, tier: cost.tier, until: self.now, revived: true });
        if until > call.until {
            self.ends.remove(&(call.until, key));
            self.ends.insert((until, key));
            self.calls.insert(key, CountedCall { until, ..call });
            self.add_usage(limit, call.until, until, call.cost);
        }
        let most = || self.used_from(self.now).take_while(|(time, _)| *time < until).map(|(_, used)| used).max();
        let fits = || most().is_none_or(|most| most <= limit.full().max(call.cost));
        before.is_some() && (call.revived && self.now < self.anonymous_until || fits())
    }

    pub(crate) fn correct(&mut self, limit: &Limit, now: Time, key: StartKey, correction: Correction) {
        let Correction { charged, actual } = correction;
        if limit.counts_calls_in_flight() {
            self.remove_call(limit, key);
            return;
        }
        if let Some(unsettled) = &mut self.unsettled {
            unsettled.settle(key, correction);
        }
        let is_present = self.windows(limit).is_some_and(|windows| windows.window(key.at).contains(now));
        let (more, until) = match self.calls.get_mut(&key) {
            Some(call) => (actual - std::mem::replace(&mut call.cost, actual), call.until),
            // Unused cost of a window that has ended is lost.
            None if is_present => ((actual - charged).max(-self.used_at(now)), self.counted_until(limit, now)),
            None => return,
        };
        if key.at <= self.now {
            self.reports.iter_mut().for_each(|reports| reports.note_correction(key.at, more));
        } else if self.calls.contains_key(&key) {
            self.promised += more;
        }
        self.add_usage(limit, key.at, until, more);
    }

    /// In a shadow limit, an answered call may still start later.
    pub(crate) fn sooner_end(&self, limit: &Limit, now: Time, key: StartKey) -> Option<Time> {
        let end = limit.counts_until_if_answered(now)?;
        let call = self.calls.get(&key)?;
        (key.at <= now && end < call.until && self.steps.len() < EXACT_STEPS).then_some(end)
    }

    pub(crate) fn end_jitter(&mut self, limit: &Limit, now: Time, key: StartKey) {
        let Some(end) = self.sooner_end(limit, now, key) else { return };
        let Some(call) = self.calls.get_mut(&key) else { return };
        let (cost, until) = (call.cost, std::mem::replace(&mut call.until, end));
        self.ends.remove(&(until, key));
        self.ends.insert((end, key));
        self.add_usage(limit, end, until, -cost);
    }

    pub(crate) fn returns(&self, limit: &Limit, now: Time) -> Credit {
        let began = self.windows(limit).map_or(Time::ORIGIN, |windows| windows.window(now).starts);
        self.unsettled.as_deref().map_or(Credit::ZERO, |unsettled| unsettled.returns(now, began))
    }

    pub(crate) fn may_return(&self) -> bool {
        self.unsettled.as_deref().is_some_and(Unsettled::may_return)
    }

    pub(crate) fn expect_settle(&mut self, now: Time, key: StartKey, cost: Credit) {
        self.unsettled.get_or_insert_default().inherit(now, key, cost);
    }

    pub(crate) fn freeze(&self) -> Option<Freeze> {
        self.freeze
    }

    pub(crate) fn set_freeze(&mut self, freeze: Option<Freeze>) {
        self.freeze = freeze;
    }

    pub(crate) fn drain(&mut self, limit: &Limit, now: Time) {
        let credit = self.level_until(limit, now, now).max(Credit::ZERO);
        self.add_usage(limit, now, self.counted_until(limit, now), credit);
    }

    pub(crate) fn advance(&mut self, limit: &Limit, now: Time) {
        let now = now.max(self.now);
        while let Some(entry) = self.steps.first_entry().filter(|entry| *entry.key() <= now) {
            if *entry.get() < Credit::ZERO {
                self.last_end = Some(*entry.key());
            }
            let at = *entry.key();
            self.total = self.total.saturating_add(entry.remove());
            self.note_used(limit, at);
        }
        let started = self.calls.range((Excluded(last_key_at(self.now)), Included(last_key_at(now))));
        let mut begun = Credit::ZERO;
        for (key, call) in started {
            begun += call.cost;
            if let Some(reports) = self.reports.as_mut().filter(|_| limit.alignment().is_some()) {
                reports.note_start(key.at, call.cost);
            }
        }
        self.promised -= begun;
        self.now = now;
        self.expire(limit);
        while let Some((_, key)) = self.ends.first().copied().filter(|(until, _)| *until <= self.now) {
            self.ends.pop_first();
            self.calls.remove(&key);
        }
        assert_eq!(self.calls.len(), self.ends.len(), "a call ends once");
        assert!(self.promised >= Credit::ZERO, "a promise is kept once");
    }

    /// The stock less promises. The rest of the present window does not pay those for later ones.
    pub(crate) fn level(&self, limit: &Limit, now: Time) -> Credit {
        let rest = limit.full() - self.used_at(now);
        let Some(soon) = self.promised_in_window(limit, now) else { return rest - self.promised };
        if self.promised > soon { rest.min(Credit::ZERO) - (self.promised - soon) } else { rest }
    }

    /// Returns the usage by listed starts of the window at `now`; `None` without windows.
    fn promised_in_window(&self, limit: &Limit, now: Time) -> Option<Credit> {
        let next = StartKey { at: self.windows(limit)?.window(now).ends, serial: 0 };
        Some(self.calls.range(..next).fold(Credit::ZERO, |sum, (_, call)| sum + call.cost))
    }

    fn level_until(&self, limit: &Limit, now: Time, time: Time) -> Credit {
        let used = self.used_from(now).take_while(|(change, _)| *change <= time.max(now)).map(|(_, used)| used);
        limit.full() - used.min().unwrap_or(Credit::ZERO)
    }

    pub(crate) fn near_level(&self, limit: &Limit, now: Time, soon: Span) -> Credit {
        self.level_until(limit, now, now + soon)
    }

    /// Only calls of the present fixed window return what they hold.
    pub(crate) fn level_without(&self, limit: &Limit, now: Time, held: impl Iterator<Item = StartKey>) -> Credit {
        let window = self.windows(limit).map(|windows| windows.window(now));
        let is_now = |key: &StartKey| window.is_some_and(|window| window.contains(key.at));
        let calls = held.filter(is_now).filter_map(|key| self.calls.get(&key));
        let held = calls.fold(Credit::ZERO, |sum, call| sum + call.cost);
        self.level_until(limit, now, now) + held
    }

    /// All calls are assumed to hold their cost until it stops counting.
    pub(crate) fn paid_after(&self, limit: &Limit, now: Time, backlog: Credit, cost: StartCost) -> Time {
        if let Some(windows) = self.windows(limit) {
            return self.paid_by_windows(limit, windows, now, backlog, cost);
        }
        let owed = backlog + limit.demand(cost.credit, cost.tier);
        let rounds = owed.div_ceil(limit.full()).saturating_sub(1);
        let rest = owed - limit.full().times(rounds);
        let fits = |(_, used): &(Time, Credit)| *used + rest <= limit.full();
        let at = self.used_from(now).find(fits).map_or(Time::NEVER, |(time, _)| time);
        at + Span::from_nanos(self.counted_until(limit, now).since(now).nanos().saturating_mul(rounds))
    }

    /// Returns the start of the window that pays the last of `backlog` and `cost`.
    fn paid_by_windows(
        &self,
        limit: &Limit,
        windows: Windows<'_>,
        now: Time,
        backlog: Credit,
        cost: StartCost,
    ) -> Time {
        let mut owed = backlog + limit.demand(cost.credit, cost.tier);
        let (mut at, mut used, mut changes) = (now, Credit::ZERO, self.used_from(now).peekable());
        for _ in 0..MAX_WALKED_WINDOWS {
            while let Some((_, then)) = changes.next_if(|(time, _)| *time <= at) {
                used = then;
            }
            let room = (limit.full() - used).max(Credit::ZERO);
            if owed <= room || at == Time::NEVER {
                return at;
            }
            owed -= room;
            at = windows.window(at).ends;
        }
        let more = owed.div_ceil(limit.full()).saturating_sub(1);
        at + Span::from_nanos(limit.spec().period.nanos().saturating_mul(more))
    }

    /// A level of zero rises only when usage ends, so this asks for the smallest amount.
    pub(crate) fn opens(&self, limit: &Limit, now: Time) -> Time {
        self.paid_after(limit, now, Credit::ZERO, limit.start_cost(Amount::SMALLEST, Tier::NO_HEADROOM))
    }

    pub(crate) fn next_promise(&self) -> Option<Time> {
        self.first_start_after(self.now)
    }

    fn first_start_after(&self, time: Time) -> Option<Time> {
        self.calls.range((Excluded(last_key_at(time)), Unbounded)).next().map(|(key, _)| key.at)
    }

    pub(crate) fn last_promise(&self) -> Option<Time> {
        self.calls.last_key_value().map(|(key, _)| key.at).filter(|at| *at > self.now)
    }

    pub(crate) fn promises_between(&self, from: Time, until: Time) -> bool {
        self.first_start_after(from.max(self.now)).is_some_and(|start| start <= until)
    }

    pub(crate) fn last_use_ahead(&self, limit: &Limit, now: Time) -> Option<Time> {
        let (end, _) = self.steps.last_key_value()?;
        (*end > self.counted_until(limit, now)).then(|| *end - NANOSECOND)
    }

    pub(crate) fn empty_at(&self, limit: &Limit, now: Time) -> Time {
        self.last_promise().max(self.last_use_ahead(limit, now)).unwrap_or(now).max(now)
    }

    pub(crate) fn is_unused(&self, _: &Limit, now: Time) -> bool {
        let over = self.steps.last_key_value().is_none_or(|(end, _)| *end <= now);
        over && self.calls.is_empty() && self.used_at(now) == Credit::ZERO
    }

    /// Changes usage after now between `from` and `until`, rounded outwards to whole fixed windows.
    fn add_usage(&mut self, limit: &Limit, from: Time, until: Time, credit: Credit) {
        if until <= from.max(self.now) || credit == Credit::ZERO {
            return;
        }
        let whole = |windows: Windows<'_>| (windows.window(from).starts, windows.window(until - NANOSECOND).ends);
        let (from, until) = self.windows(limit).map_or((from, until), whole);
        if from > self.now {
            self.step(from, credit);
        } else {
            self.total = self.total.saturating_add(credit);
        }
        if until < Time::NEVER {
            self.step(until, -credit);
        }
    }

    /// Returns when the usage of a call that starts at `at` ends. Close to the end of a window, it
    /// counts in the next one as well.
    fn end_of_call(&self, limit: &Limit, at: Time) -> Time {
        let exact = self.counted_until(limit, at);
        if let Some(windows) = self.windows(limit) {
            let (_, last) = windows.starts_in(windows.window(at));
            return if at < last { exact } else { windows.window(exact).ends };
        }
        if self.steps.len() < EXACT_STEPS {
            return exact;
        }
        let part = (exact.since(at).nanos() / ROUNDED_PARTS).max(1);
        Time::from_nanos(exact.nanos().div_ceil(part).saturating_mul(part))
    }

    fn step(&mut self, at: Time, credit: Credit) {
        let step = self.steps.entry(at).or_default();
        *step = step.saturating_add(credit);
        match (*step).cmp(&Credit::ZERO) {
            Ordering::Less => {}
            Ordering::Equal => drop(self.steps.remove(&at)),
            Ordering::Greater => self.last_rise = self.last_rise.max(at),
        }
    }

    fn used_at(&self, time: Time) -> Credit {
        self.steps.range(..=time).fold(self.total, |sum, (_, change)| sum.saturating_add(*change))
    }

    fn used_from(&self, from: Time) -> impl Iterator<Item = (Time, Credit)> {
        let first = self.used_at(from);
        let changes = self.steps.range((Excluded(from), Unbounded)).scan(first, |used, (time, change)| {
            *used = used.saturating_add(*change);
            Some((*time, *used))
        });
        std::iter::once((from, first)).chain(changes)
    }
}

/// Returns when a call leaves `calls`: in windows at its start, otherwise when it stops counting.
fn listed_until(limit: &Limit, key: StartKey, until: Time) -> Time {
    if limit.alignment().is_some() { key.at } else { until }
}

fn last_key_at(time: Time) -> StartKey {
    StartKey { at: time, serial: u64::MAX }
}
