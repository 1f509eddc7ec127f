//! How a resource is doing, for people.

use crate::credit::Credit;
use crate::ledger::Ledger;
use crate::limit::Limit;
use crate::line::Line;
use crate::resource::{Class, ClassId, LimitId};
use crate::scheduler::Scheduler;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::resources::{LimitInfo, ResourceInfo};
use rampmeter_protocol::status::{ClassStatus, Correction, Counters, LimitStatus};
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// The limits at `now`.
    #[must_use]
    pub fn limit_status(&mut self, now: Time) -> Vec<LimitStatus> {
        self.ledger.advance(now);
        let limits = self.resource.limits().iter().enumerate();
        let enforced = limits.map(|(index, limit)| status_of(&self.ledger, now, LimitId(index as u8), limit));
        let shadows = self.shadows.limits().map(|(id, limit, ledger, shadow)| LimitStatus {
            shadow: Some(shadow),
            ..status_of(ledger, now, id, limit)
        });
        enforced.chain(shadows).collect()
    }

    /// The classes at `now`, the most urgent first.
    #[must_use]
    pub fn class_status(&self, now: Time) -> Vec<ClassStatus> {
        let status = |(line, class): (&Line, &Class)| ClassStatus {
            name: class.name.clone(),
            queued: line.waiting() as u64,
            oldest_ms: line.oldest().map_or(0.0, |oldest| now.since(oldest.arrived).millis()),
        };
        self.lines.iter().zip(self.resource.classes()).map(status).collect()
    }

    /// How far estimates of costs have turned out to be off, by kind of call.
    #[must_use]
    pub fn corrections(&self) -> Vec<Correction> {
        self.estimates.report()
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
        let bill = self.resource.bill(&Labels::new(), [].into_iter()).ok()?;
        let behind = self.backlog_through(class);
        self.ledger.paid_behind(now, &behind, |_| Credit::ZERO, &bill, self.tier(class)).limited_by
    }

    /// The class with this index.
    #[must_use]
    pub fn class_name(&self, class: ClassId) -> &str {
        &self.resource.classes()[class.index()].name
    }
}

fn status_of(ledger: &Ledger, now: Time, id: LimitId, limit: &Limit) -> LimitStatus {
    let keys = &ledger.keys;
    let worst = keys.least(id, now);
    // What was learned of a limit changes how it is kept.
    let book = ledger.book(id);
    let (bucket, kept) = worst.map_or((&book.bucket, &book.limit), |(_, known)| (&known.bucket, limit));
    let frozen = bucket.freeze().map_or(Time::ORIGIN, |freeze| freeze.until());
    LimitStatus {
        name: limit.name().clone(),
        unit: limit.unit().clone(),
        algorithm: limit.algorithm().as_str().to_owned(),
        capacity: limit.capacity().units(),
        period_ms: limit.period().millis(),
        margin: limit.margin().units(),
        level: limit.rate().units(bucket.level(kept, now)),
        next_free_ms: bucket.next_free(kept, now).since(now).millis(),
        keys: if limit.is_keyed() { keys.live(id) as u64 } else { 1 },
        frozen_ms: frozen.since(now).millis(),
        learned: book.learner.report(now),
        shadow: None,
    }
}

/// The resource as configured.
#[must_use]
pub fn describe(resource: &crate::resource::Resource) -> ResourceInfo {
    let limits = resource.limits().iter().map(|limit| LimitInfo {
        name: limit.name().clone(),
        unit: limit.unit().clone(),
        algorithm: limit.algorithm().as_str().to_owned(),
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
