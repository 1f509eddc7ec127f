//! Checks that calls and grants take no more of a limit than it has, for each key.

use super::buckets::{Buckets, Caller};
use super::room::Room;
use super::{Violation, holdings, periods, tokens};
use crate::outcome::{Call, Granted, Outcome, Request};
use rampmeter_policy::spec::{Algorithm, Alignment, LimitSpec};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::time::Time;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy)]
struct Use<'a> {
    by: Caller,
    cost: &'a Cost<'static>,
    at: Time,
    /// The start of its permit, from which its lease counts.
    leave: Time,
    /// The end of the call, as far as the scheduler knows it.
    over: Time,
    /// Whether it took tokens: the permit was not returned and the call was not rejected.
    counts: bool,
    made: bool,
}

/// Checks the calls that the upstream served, by their times of arrival.
pub(super) fn check_calls(buckets: &Buckets<'_>, outcome: &Outcome) -> Result<(), Violation> {
    let calls = outcome.fleets.iter().flat_map(|fleet| &fleet.calls).filter(|call| call.ok);
    check(buckets, "calls", Room::upstream, calls.map(|call| Use::served(outcome, call)).collect())
}

/// Checks the granted starts. A returned permit and a rejected call have taken nothing.
pub(super) fn check_starts(buckets: &Buckets<'_>, outcome: &Outcome) -> Result<(), Violation> {
    let calls = || outcome.fleets.iter().flat_map(|fleet| &fleet.calls);
    let made: BTreeSet<usize> = calls().filter_map(|call| call.request).collect();
    let rejected: BTreeSet<usize> = calls().filter(|call| !call.ok).filter_map(|call| call.request).collect();
    let starts = outcome.requests.iter().enumerate().filter_map(|(number, request)| {
        let counts = request.returned.is_none() && !rejected.contains(&number);
        Some(Use { counts, made: made.contains(&number), ..Use::granted(request)? })
    });
    check(buckets, "starts", Room::given_out, starts.collect())
}

fn check(
    buckets: &Buckets<'_>,
    what: &'static str,
    room: impl Fn(&LimitSpec) -> Room,
    uses: Vec<Use<'_>>,
) -> Result<(), Violation> {
    for (number, limit) in buckets.limits.iter().enumerate() {
        let mut by_bucket: BTreeMap<usize, Vec<(&Use<'_>, Amount)>> = BTreeMap::new();
        for one in &uses {
            if let Some((bucket, amount)) = buckets.charge(number, one.by, one.cost) {
                by_bucket.entry(bucket).or_default().push((one, amount));
            }
        }
        let found = by_bucket.into_values().find_map(|uses| excess(limit, room(limit), uses));
        if let Some((too_much, at)) = found {
            return Err(Violation::Overdrawn { limit: limit.name.to_string(), what, too_much, at });
        }
    }
    Ok(())
}

/// Returns by how many millionths the uses of one bucket exceed its room, and when, if they do.
fn excess(limit: &LimitSpec, room: Room, mut uses: Vec<(&Use<'_>, Amount)>) -> Option<(i128, Time)> {
    uses.retain(|(one, _)| one.concerns(limit));
    uses.sort_by_key(|(one, _)| one.at);
    let taken = uses.iter().map(|(one, amount)| (one.at, *amount));
    match &limit.algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => tokens::excess(limit, taken),
        Algorithm::FixedWindow(alignment) => periods::excess(Some(alignment), limit.period, room, taken),
        Algorithm::Quota(alignment) => periods::excess(alignment.as_ref(), limit.period, room, taken),
        Algorithm::SlidingWindow => holdings::excess(room, taken.map(|(at, amount)| (at, at + limit.period, amount))),
        Algorithm::Concurrency => {
            let until = |one: &Use<'_>| one.over.min(one.leave + limit.period);
            holdings::excess(room, uses.iter().map(|(one, amount)| (one.at, until(one), *amount)))
        }
    }
}

/// Returns whether unused capacity of a limit is ever lost.
pub(super) fn is_windowed(limit: &LimitSpec) -> bool {
    match limit.algorithm {
        Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::Quota(_) => true,
        Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Concurrency => false,
    }
}

impl<'a> Use<'a> {
    fn served(outcome: &Outcome, call: &'a Call) -> Self {
        let granted = call.request.and_then(|request| outcome.requests[request].granted);
        Use {
            by: Caller { worker: call.worker, account: call.account },
            cost: &call.cost,
            at: call.at,
            leave: granted.map_or(call.at, |granted| granted.start),
            over: call.answered,
            counts: true,
            made: true,
        }
    }

    fn granted(request: &'a Request) -> Option<Self> {
        let Granted { start: at, account, .. } = request.granted?;
        let over = request.settled.into_iter().chain(request.returned).min().unwrap_or(Time::NEVER);
        let (by, cost) = (Caller { worker: request.worker, account }, &*request.cost);
        Some(Use { by, cost, at, leave: at, over, counts: true, made: true })
    }

    /// Returns whether the limit counts this use. A limit of calls in flight counts every use;
    /// windows that begin with their first call do not count a permit without a call.
    fn concerns(&self, limit: &LimitSpec) -> bool {
        match &limit.algorithm {
            Algorithm::Concurrency => true,
            Algorithm::FixedWindow(Alignment::FirstUse) | Algorithm::Quota(Some(Alignment::FirstUse)) => {
                self.counts && self.made
            }
            Algorithm::TokenBucket
            | Algorithm::LeakyBucket
            | Algorithm::FixedWindow(_)
            | Algorithm::SlidingWindow
            | Algorithm::Quota(_) => self.counts,
        }
    }
}
