//! How many workers the limits can feed.

use crate::adaptation::RecentCalls;
use crate::ids::LimitId;
use crate::ledger::Ledger;
use crate::policy::{Limit, Resource};
use rampmeter_protocol::time::Time;

/// How many workers with one call at a time exhaust the scarcest limit.
pub(super) fn useful_workers(resource: &Resource, ledger: &Ledger, calls: &RecentCalls, now: Time) -> Option<f64> {
    let limits = resource.limits_by_id().filter(|(_, limit)| !limit.is_keyed());
    limits.filter_map(|limit| fed_by(ledger, calls, now, limit)).min_by(f64::total_cmp)
}

fn fed_by(ledger: &Ledger, calls: &RecentCalls, now: Time, (id, written): (LimitId, &Limit)) -> Option<f64> {
    let (secs, cost) = calls.means(id).filter(|(_, cost)| *cost > 0.0)?;
    let adaptive = ledger.adaptive(id);
    if adaptive.spent_until(now).is_some() {
        return Some(0.0);
    }
    if written.is_quota() {
        return None;
    }
    let (limit, period) = (adaptive.limit(), written.spec().period);
    let full = limit.rate().units(limit.full());
    if limit.counts_calls_in_flight() {
        return Some(full / cost);
    }
    let supply = if limit.has_tokens() { limit.rate().units(limit.rate().refill_within(period)) } else { full };
    Some(supply / period.secs() / cost * secs)
}
