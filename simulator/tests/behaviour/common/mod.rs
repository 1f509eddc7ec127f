//! Parts of worlds.

use rampmeter_policy::spec::{FairShare, LimitSpec, ResourceSpec};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_simulator::outcome::FleetOutcome;
use std::collections::BTreeMap;

pub(crate) const PROCESSING_UNITS: &str = "processing-units";

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

pub(crate) fn amount(units: f64) -> Amount {
    Amount::new(units).unwrap()
}

pub(crate) fn secs(secs: u64) -> Time {
    Time::ORIGIN + Span::from_secs(secs)
}

/// A limit of the same name as its unit, with the default margin.
pub(crate) fn limit(unit: &str, capacity: f64, period: Span) -> LimitSpec {
    LimitSpec::new(name(unit), name(unit), amount(capacity), period)
}

/// Limits in the proportions of Sentinel Hub's.
pub(crate) fn sentinel_hub() -> Vec<LimitSpec> {
    let ten_seconds = Span::from_secs(10);
    vec![limit("requests", 50.0, ten_seconds), limit(PROCESSING_UNITS, 200.0, ten_seconds)]
}

/// A resource with fair shares.
pub(crate) fn shared(limits: Vec<LimitSpec>) -> ResourceSpec {
    let fair_share = FairShare { label: "client".to_owned(), weights: BTreeMap::new() };
    ResourceSpec { fair_share: Some(fair_share), ..ResourceSpec::new(name("api"), limits) }
}

pub(crate) fn describe(fleet: &FleetOutcome) {
    let [half, most, all] = [50, 99, 100].map(|percent| fleet.wait_percentile(percent));
    println!("  {}: {} ok, waits: p50 {half}, p99 {most}, longest {all}", fleet.name, fleet.ok());
}
