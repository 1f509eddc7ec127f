//! The status of a resource.
//!
//! Of all keys, status shows the one with the lowest level among four thousand. Keys in debt are
//! read first. Reading a million keys would stop the permit loop for over a millisecond.

use super::explain::first_of;
use crate::adaptation::AdaptiveLimit;
use crate::arithmetic::{Credit, StartCost};
use crate::ids::{ClassId, LimitId, Tier};
use crate::ledger::{KeyBucket, Ledger, ShadowLimits};
use crate::limits::{Bucket, WindowState};
use crate::policy::{Class, Limit, Resource};
use crate::scheduler::wait_estimator::WaitEstimator;
use rampmeter_protocol::left::Left;
use rampmeter_protocol::reason::PauseCause;
use rampmeter_protocol::resources::{LimitInfo, ResourceInfo};
use rampmeter_protocol::status::{ClassStatus, LimitStatus, UpstreamReport};
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{Span, Time};

/// The status of all classes, the most urgent first.
pub(super) fn class_statuses<R>(waits: &WaitEstimator<'_, R>) -> Vec<ClassStatus> {
    let status = |(id, class): (ClassId, &Class)| {
        let queue = waits.queues.class(id);
        ClassStatus {
            name: class.name.clone(),
            queued: queue.waiting() as u64,
            oldest_ms: queue.oldest().map_or(0.0, |oldest| waits.now.since(oldest.at).millis()),
            first: first_of(waits, id).map(Box::new),
        }
    };
    waits.resource.classes_by_id().map(status).collect()
}

/// The status of all limits; a keyed limit shows its bucket with the lowest level.
pub(super) fn limit_statuses(resource: &Resource, ledger: &Ledger, now: Time) -> Vec<LimitStatus> {
    let lowest = ledger.keys.lowest(now);
    let status = |((id, limit), lowest): ((LimitId, &Limit), &Option<&KeyBucket>)| {
        let (spec, adaptive) = (limit.spec(), ledger.adaptive(id));
        // The bucket of a limit without keys follows the learned limit.
        let (bucket, kept) = lowest.map_or((adaptive.bucket(), adaptive.limit()), |known| (&known.bucket, limit));
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
            frozen_ms: bucket.freeze().map_or(Span::ZERO, |freeze| freeze.until().since(now)).millis(),
            paused_by: paused_by(bucket, adaptive.spent_until(now).is_some(), now),
            missing_labels: Vec::new(),
            learned: adaptive.estimator().report(now),
            reported: upstream_report(window, kept, adaptive, now),
            found: None,
            shadow: None,
        }
    };
    resource.limits_by_id().zip(&lowest).map(status).collect()
}

/// The status of shadow limits, and what was measured of each.
pub(super) fn shadow_statuses(shadow: &ShadowLimits, now: Time) -> impl Iterator<Item = LimitStatus> {
    let limits = limit_statuses(shadow.resource(), shadow.ledger(), now).into_iter();
    limits.zip(shadow.tallies()).map(|(limit, tally)| LimitStatus { shadow: Some(*tally), ..limit })
}

/// Why no call starts, if a freeze or a spent quota is the cause.
fn paused_by(bucket: &Bucket, is_spent: bool, now: Time) -> Option<PauseCause> {
    match bucket.freeze().filter(|freeze| freeze.until() > now) {
        Some(freeze) if freeze.is_ordered() => Some(PauseCause::Operator),
        Some(_) | None if is_spent => Some(PauseCause::Quota),
        Some(_) => Some(PauseCause::Upstream),
        None => None,
    }
}

/// The upstream's reports on a limit, if there are any.
fn upstream_report(window: WindowState, limit: &Limit, adaptive: &AdaptiveLimit, now: Time) -> Option<UpstreamReport> {
    let units = |credit: Credit| limit.rate().units(credit);
    let stated = adaptive.stated();
    let report = UpstreamReport {
        states: adaptive.announced().map(|announced| announced.capacity.units()),
        capacity: stated.map(|stated| stated.capacity.units()),
        capacity_for_ms: stated.map(|stated| now.since(stated.since).millis()),
        others: units(window.claimed),
        held_back: units(window.held_for_others),
        window_ends_ms: window.reported_end.map(|ends| ends.until.since(now).millis()),
        window_slack_ms: window.reported_end.map(|ends| ends.length().millis()),
    };
    (report != UpstreamReport::default()).then_some(report)
}

/// The remaining amount at `now`, and the time until the bucket is full.
pub(super) fn left(bucket: &Bucket, limit: &Limit, now: Time) -> Left<'static> {
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

/// The configuration of a resource.
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
