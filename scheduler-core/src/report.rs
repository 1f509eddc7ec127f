//! How a resource is doing, for people.

use crate::limit::Limit;
use crate::line::Line;
use crate::resource::{ClassId, LimitId};
use crate::scheduler::Scheduler;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::resources::{LimitInfo, ResourceInfo};
use rampmeter_protocol::status::{ClassStatus, Counters, LimitStatus};
use rampmeter_protocol::time::Time;

/// The only algorithm of this version, as configuration and status write it.
pub const TOKEN_BUCKET: &str = "token-bucket";

impl<R: Clone> Scheduler<R> {
    /// The limits at `now`.
    #[must_use]
    pub fn limit_status(&mut self, now: Time) -> Vec<LimitStatus> {
        self.ledger.advance(&self.resource, now);
        let limits = self.resource.limits().iter().enumerate();
        limits.map(|(index, limit)| self.status_of(now, LimitId(index as u8), limit)).collect()
    }

    /// The classes at `now`, the most urgent first.
    #[must_use]
    pub fn class_status(&self, now: Time) -> Vec<ClassStatus> {
        let classes = self.lines.iter().zip(self.resource.classes());
        let status = |(line, class): (&Line, &crate::resource::Class)| ClassStatus {
            name: class.name.clone(),
            queued: line.len() as u64,
            oldest_ms: line.oldest().map_or(0.0, |(oldest, _)| now.since(oldest.arrived).millis()),
        };
        classes.map(status).collect()
    }

    /// Totals since this scheduler began.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Notes that the upstream answered a call with 429.
    pub fn count_upstream_429(&mut self) {
        self.counters.upstream_429 += 1;
    }

    /// How many permits are remembered.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.permits.len()
    }

    /// The limit that would delay one request of the default class now, if one would.
    #[must_use]
    pub fn limited_by(&self, now: Time) -> Option<LimitId> {
        let class = self.resource.default_class();
        let bill = self.resource.bill([].into_iter()).ok()?;
        let behind = self.backlog_through(class);
        self.ledger.paid_behind(&self.resource, now, &behind, &bill, self.tier(class)).limited_by
    }

    /// The class with this index.
    #[must_use]
    pub fn class_name(&self, class: ClassId) -> &str {
        &self.resource.classes()[class.index()].name
    }

    fn status_of(&self, now: Time, id: LimitId, limit: &Limit) -> LimitStatus {
        let level = self.ledger.level(&self.resource, id, now);
        LimitStatus {
            name: limit.name().clone(),
            unit: limit.unit().clone(),
            algorithm: TOKEN_BUCKET.to_owned(),
            capacity: limit.capacity().units(),
            period_ms: limit.period().millis(),
            margin: limit.margin().units(),
            level: limit.rate().micros(level) as f64 / Amount::ONE.micros() as f64,
            next_free_ms: self.ledger.next_free(&self.resource, id, now).since(now).millis(),
            keys: 1,
            frozen_ms: 0.0,
        }
    }
}

/// The resource as configured.
#[must_use]
pub fn describe(resource: &crate::resource::Resource) -> ResourceInfo {
    let limits = resource.limits().iter().map(|limit| LimitInfo {
        name: limit.name().clone(),
        unit: limit.unit().clone(),
        algorithm: TOKEN_BUCKET.to_owned(),
        capacity: limit.capacity().units(),
        period_ms: limit.period().millis(),
    });
    ResourceInfo {
        name: resource.name().clone(),
        limits: limits.collect(),
        classes: resource.classes().iter().map(|class| class.name.clone()).collect(),
        default_class: resource.classes()[resource.default_class().index()].name.clone(),
    }
}
