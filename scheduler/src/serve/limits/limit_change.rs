//! A change of a resource's limits, for the core and for workers.

use rampmeter_protocol::name::Name;
use rampmeter_protocol::news::LimitNews;
use rampmeter_scheduler_core::policy::limit::Limit;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::LimitSpec;

/// Other limits, from now on.
///
/// Workers learn of all limits that are new or have other sizes.
#[derive(Debug)]
pub(crate) struct LimitChange {
    resource: Box<Resource>,
    news: Vec<LimitNews>,
}

impl LimitChange {
    pub(crate) fn between(before: &Resource, after: Box<Resource>) -> Self {
        LimitChange { news: differing(before.limits(), after.limits()), resource: after }
    }

    /// The resource under the new limits, and what workers learn.
    pub(crate) fn into_parts(self) -> (Box<Resource>, Vec<LimitNews>) {
        (self.resource, self.news)
    }
}

/// Limits that are new, or have other sizes.
fn differing(before: &[Limit], after: &[Limit]) -> Vec<LimitNews> {
    let sizes =
        |limit: &LimitSpec| -> (Name, u64, u64) { (limit.name.clone(), limit.capacity.micros(), limit.period.nanos()) };
    let is_new = |limit: &&LimitSpec| !before.iter().any(|known| sizes(known.spec()) == sizes(limit));
    let news = after.iter().map(Limit::spec).filter(is_new).map(|limit| LimitNews {
        name: limit.name.clone(),
        capacity: limit.capacity.units(),
        period_ms: limit.period.millis(),
    });
    news.collect()
}
