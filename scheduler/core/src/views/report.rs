//! The status of a resource: its limits, classes and shares, and how many workers it can feed.
//!
//! For a keyed limit, it shows the key with the lowest level among four thousand; keys in debt are
//! read first. Reading a million keys would stop the permit loop for over a millisecond.

use crate::adaptation::{AdaptiveLimit, RecentCalls, Rejections};
use crate::ledger::{KeyBucket, Ledger};
use crate::limits::{Bucket, WindowState};
use crate::queue::{ClassQueue, ServiceCount};
use crate::scheduler::Scheduler;
use crate::views::explain::first_of;
use rampmeter_policy::arithmetic::{Credit, StartCost};
use rampmeter_policy::ids::{ClassId, LimitId, Tier};
use rampmeter_policy::{Class, Limit, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::left::Left;
use rampmeter_protocol::reason::PauseCause;
use rampmeter_protocol::resources::{LimitInfo, ResourceInfo};
use rampmeter_protocol::shares::{Share, Shares};
use rampmeter_protocol::status::{ClassStatus, LimitStatus, UpstreamReport};
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clients that are listed; people read no more.
const MAX_CLIENTS_LISTED: usize = 50;
/// Waiting clients that are scanned in each class, which takes a fraction of a millisecond.
const MAX_WAITING_CLIENTS: usize = 1024;

impl<R: Clone> Scheduler<R> {
    /// Returns the status of all limits at `now`.
    #[must_use]
    pub fn limit_status(&mut self, now: Time) -> Vec<LimitStatus> {
        self.advance(now);
        let mut limits = limit_statuses(self.resource(), &self.ledger, &self.rejections, now);
        let (resource, ledger, tallies) = self.shadow_limits.measured();
        let shadows = limit_statuses(resource, ledger, &Rejections::default(), now).into_iter().zip(tallies);
        limits.extend(shadows.map(|(limit, tally)| LimitStatus { shadow: Some(*tally), ..limit }));
        limits
    }

    /// Returns the status of all classes at `now`, the most urgent first.
    #[must_use]
    pub fn class_status(&mut self, now: Time) -> Vec<ClassStatus> {
        self.advance(now);
        let status = |(id, class): (ClassId, &Class)| {
            let queue = self.queues.class(id);
            ClassStatus {
                name: class.name.clone(),
                queued: queue.waiting() as u64,
                oldest_ms: queue.oldest().map_or(0.0, |oldest| self.now.since(oldest.at).millis()),
                first: first_of(self, id).map(Box::new),
            }
        };
        self.resource.classes_by_id().map(status).collect()
    }

    /// Returns the remaining amount at `now` in each limit that the permit `id` is charged to,
    /// keyed limits last; empty for an unknown permit. Another request may take the amount at any
    /// time. `now` must not be before the last event.
    #[must_use]
    pub fn left(&mut self, now: Time, id: &PermitId) -> Vec<Left<'static>> {
        self.advance(now);
        let Some(slot) = self.permits.find(id) else { return Vec::new() };
        let permit = self.permits.get(slot);
        self.ledger.read_each(now, &permit.bill, |bucket, limit| left(bucket, limit, now)).collect()
    }

    /// Returns the grants to classes and clients in the last minutes under this leader.
    #[must_use]
    pub fn shares(&mut self, now: Time) -> Shares {
        self.advance(now);
        let counts: Vec<ServiceCount> = self.resource.classes_by_id().map(|(id, _)| self.recent.class(id)).collect();
        let all: u128 = counts.iter().map(|count| count.share).sum();
        let classes = self.queues.classes().iter().zip(self.resource.classes()).zip(&counts);
        let classes = classes.map(|((queue, class), count)| share(&class.name, count, queue.waiting(), all)).collect();
        let (clients, more_clients) = client_shares(self, all);
        Shares { over_ms: now.since(self.recent.since).millis(), classes, clients, more_clients }
    }

    /// Counts the calls that have started by `now` and are neither settled nor forgotten.
    #[must_use]
    pub fn calls_in_flight(&self, now: Time) -> u64 {
        self.calls.count(now)
    }

    /// Returns how many workers with one call at a time exhaust the scarcest limit. By Little's
    /// law, this is the rate of calls that the limit allows times their mean time from start to
    /// settle, with the mean cost of recent calls.
    ///
    /// `None` before a settled call was charged to a limit without keys. Keyed limits do not count,
    /// as keys have no bound. A quota bounds no rate, and counts only while it is spent.
    #[must_use]
    pub fn useful_workers(&self, now: Time) -> Option<f64> {
        let limits = self.resource.limits_by_id().filter(|(_, limit)| !limit.is_keyed());
        limits.filter_map(|limit| fed_by(&self.ledger, &self.calls, now, limit)).min_by(f64::total_cmp)
    }
}

fn limit_statuses(resource: &Resource, ledger: &Ledger, rejections: &Rejections, now: Time) -> Vec<LimitStatus> {
    let lowest = ledger.keys.lowest(now);
    let status = |((id, limit), lowest): ((LimitId, &Limit), &Option<&KeyBucket>)| {
        let (spec, adaptive) = (limit.spec(), ledger.adaptive(id));
        let learned = lowest.and_then(KeyBucket::adaptive).unwrap_or(adaptive);
        let shared = (adaptive.bucket(), adaptive.limit());
        let (bucket, kept) = lowest.map_or(shared, |known| known.in_force(resource.limits()));
        let window = bucket.window_state(kept, now);
        let likely_free = || bucket.likely_end(kept, now, adaptive.mean_call_time()?);
        let is_full = bucket.level(kept, now) <= Credit::ZERO;
        let next_free = bucket.opens(kept, now).max(adaptive.spent_until(now).unwrap_or(now));
        LimitStatus {
            name: spec.name.clone(),
            unit: spec.unit.clone(),
            algorithm: spec.algorithm.as_str().to_owned(),
            capacity: spec.capacity.units(),
            period_ms: spec.period.millis(),
            margin: limit.margin().units(),
            level: limit.rate().units(bucket.level(kept, now)),
            next_free_ms: next_free.since(now).millis(),
            resets_ms: window.ends.map(|ends| ends.since(now).millis()),
            likely_free_ms: is_full.then(likely_free).flatten().map(|at| at.since(now).millis()),
            keys: if limit.is_keyed() { ledger.keys.count(id) as u64 } else { 1 },
            key: lowest.map(|known| known.key.to_string()),
            frozen_ms: bucket.freeze().map_or(Span::ZERO, |freeze| freeze.until.since(now)).millis(),
            paused_by: paused_by(bucket, adaptive.spent_until(now).is_some(), now),
            pause: None,
            notes: Vec::new(),
            missing_labels: Vec::new(),
            learned: learned.estimator().report(now),
            reported: upstream_report(window, kept, learned, rejections.allowed(id, limit), now),
            found: None,
            shadow: None,
        }
    };
    resource.limits_by_id().zip(&lowest).map(status).collect()
}

fn paused_by(bucket: &Bucket, is_spent: bool, now: Time) -> Option<PauseCause> {
    match bucket.freeze().filter(|freeze| freeze.until > now) {
        Some(freeze) if freeze.is_ordered => Some(PauseCause::Operator),
        Some(_) | None if is_spent => Some(PauseCause::Quota),
        Some(_) => Some(PauseCause::Upstream),
        None => None,
    }
}

fn upstream_report(
    window: WindowState,
    limit: &Limit,
    adaptive: &AdaptiveLimit,
    allowed: Option<Amount>,
    now: Time,
) -> Option<UpstreamReport> {
    let units = |credit: Credit| limit.rate().units(credit);
    let stated = adaptive.stated();
    let report = UpstreamReport {
        states: adaptive.announced().map(|announced| announced.capacity.units()),
        allows: allowed.map(Amount::units),
        capacity: stated.map(|stated| stated.capacity.units()),
        capacity_for_ms: stated.map(|stated| now.since(stated.since).millis()),
        others: units(window.claimed),
        held_back: units(window.held_for_others),
        window_ends_ms: window.reported_end.map(|ends| ends.until.since(now).millis()),
        window_slack_ms: window.reported_end.map(|ends| ends.length().millis()),
    };
    (report != UpstreamReport::default()).then_some(report)
}

fn left(bucket: &Bucket, limit: &Limit, now: Time) -> Left<'static> {
    let full = StartCost { credit: limit.full(), tier: Tier::NO_HEADROOM };
    let full = bucket.paid_after(limit, now, Credit::ZERO, full);
    let comes_back = full < Time::NEVER && !limit.counts_calls_in_flight();
    Left {
        limit: Text::from(limit.spec().name.to_string()),
        unit: Text::from(limit.spec().unit.to_string()),
        remaining: limit.rate().units(bucket.level(limit, now).max(Credit::ZERO)),
        reset_ms: comes_back.then(|| full.since(now).millis()),
    }
}

/// Describes the configuration of a resource.
#[must_use]
pub fn describe(resource: &Resource) -> ResourceInfo {
    let limits = resource.limits().iter().map(Limit::spec).map(|limit| LimitInfo {
        name: limit.name.clone(),
        unit: limit.unit.clone(),
        algorithm: limit.algorithm.as_str().to_owned(),
        capacity: limit.capacity.units(),
        period_ms: limit.period.millis(),
    });
    ResourceInfo {
        name: resource.name().clone(),
        limits: limits.collect(),
        classes: resource.classes().iter().map(|class| class.name.clone()).collect(),
        default_class: resource.classes()[resource.default_class().index()].name.clone(),
    }
}

fn client_shares<R>(core: &Scheduler<R>, all: u128) -> (Vec<Share>, u64) {
    let waiting = |queue: &'_ ClassQueue| queue.waiting_clients().take(MAX_WAITING_CLIENTS).collect::<Vec<_>>();
    let waiting = core.queues.classes().iter().flat_map(waiting).map(|client| (client, ServiceCount::default()));
    let granted = core.recent.clients();
    let granted = granted.into_iter().map(|(client, count)| (Arc::clone(core.meter.names.name(client)), count));
    let mut known: BTreeMap<Arc<str>, ServiceCount> = waiting.chain(granted).collect();
    known.remove("");
    let known = known.into_iter().map(|(client, count)| (Arc::clone(&client), count, core.queues.waiting_of(&client)));
    let mut ranked: Vec<(Arc<str>, ServiceCount, usize)> = known.collect();
    // Clients that wait and got nothing come first, as people look for these.
    ranked.sort_by_key(|(_, count, waiting)| {
        (count.granted > 0 || *waiting == 0, Reverse(count.share), Reverse(*waiting))
    });
    let more = ranked.len().saturating_sub(MAX_CLIENTS_LISTED) as u64;
    ranked.truncate(MAX_CLIENTS_LISTED);
    (ranked.iter().map(|(client, count, waiting)| share(client, count, *waiting, all)).collect(), more)
}

fn share(name: &str, count: &ServiceCount, waiting: usize, all: u128) -> Share {
    let within = |percent| count.wait_within(percent).map(|wait| wait.millis());
    Share {
        name: name.to_owned(),
        share: if all == 0 { 0.0 } else { count.share as f64 / all as f64 },
        granted: count.granted,
        waiting: waiting as u64,
        starved: count.promoted,
        wait_p50_ms: within(50),
        wait_p99_ms: within(99),
    }
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
