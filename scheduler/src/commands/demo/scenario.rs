//! The account of the demo with its limits, for the upstream and the scheduler, and the classes of its workers.

use rampmeter_config::{self as config, Config};
use rampmeter_protocol::time::Span;
use rampmeter_upstream::{Policy, ResponseTime};
use std::path::Path;
use std::time::Duration;

pub(super) const RESOURCE: &str = "demo";
/// The unit that calls use in different amounts.
pub(super) const PROCESSING_UNITS: &str = "processing-units";

/// Units and capacities, as at Sentinel Hub. The urgent classes need about 20 requests and 30 processing units
/// a second, so bulk saturates the second limit, and the first burst ends soon.
const LIMITS: [(&str, u32); 2] = [("requests", 250), (PROCESSING_UNITS, 500)];
const PERIOD: &str = "5s";

pub(super) struct Class {
    /// The name in the configuration and in figures.
    pub(super) name: &'static str,
    /// The processing units of a call, besides one request.
    pub(super) processing_units: u32,
    pub(super) mean_pause: Span,
    /// The share of each capacity that is left to more urgent classes.
    headroom: f64,
}

/// The classes, the most urgent first: a few workers with small calls and pauses, such as a map that waits for a
/// picture; more workers with longer pauses; and all others without a pause, which saturate the account.
pub(super) const CLASSES: [Class; 3] = [
    Class { name: "interactive", processing_units: 1, mean_pause: Span::from_secs(1), headroom: 0.0 },
    Class { name: "standard", processing_units: 2, mean_pause: Span::from_secs(4), headroom: 0.1 },
    Class { name: "bulk", processing_units: 3, mean_pause: Span::ZERO, headroom: 0.2 },
];
/// Indices in [`CLASSES`].
pub(super) const INTERACTIVE: usize = 0;
pub(super) const STANDARD: usize = 1;
pub(super) const BULK: usize = 2;

/// The size of a group of workers in which classes have fixed shares.
const MIXED: u32 = 20;
/// The number of workers in such groups. All others are bulk, so that the headroom covers the urgent ones.
const MIXED_WORKERS: u32 = 200;

/// Returns the class of the worker with this number, from 0.
pub(super) fn class_of(worker: u32) -> usize {
    match worker % MIXED {
        _ if worker >= MIXED_WORKERS => BULK,
        1 => INTERACTIVE,
        2..=5 => STANDARD,
        _ => BULK,
    }
}

pub(super) fn introduction(workers: u32, seconds: u64) -> String {
    let [requests, units] = LIMITS.map(|(_, capacity)| capacity);
    let period = PERIOD.trim_end_matches('s');
    format!(
        "{workers} workers call an API that allows {requests} requests and {units} processing units in {period} s.\n\
         First each worker is on its own, then all ask for permits: {seconds} s each."
    )
}

/// Returns the configuration of the upstream, with full buckets.
pub(super) fn upstream(seed: u64) -> anyhow::Result<rampmeter_upstream::Config> {
    let policy = |(unit, capacity)| format!("{unit}={capacity}/{PERIOD}").parse();
    let policies = LIMITS.into_iter().map(policy).collect::<Result<Vec<Policy>, _>>()?;
    let response_time = ResponseTime::fixed(Duration::from_millis(80)).with_jitter(Duration::from_millis(40), seed);
    Ok(rampmeter_upstream::Config { response_time, ..rampmeter_upstream::Config::new(policies) })
}

/// Returns the scheduler's configuration, parsed from the form that a user would write.
pub(super) fn configuration(nats_url: &str) -> anyhow::Result<Config> {
    let classes =
        CLASSES.map(|Class { name, headroom, .. }| format!("{{ name = \"{name}\", headroom = {headroom:?} }}"));
    let limits = LIMITS.map(|(unit, capacity)| {
        format!("{{ name = \"{unit}\", unit = \"{unit}\", capacity = {capacity}, period = \"{PERIOD}\" }}")
    });
    let text = format!(
        "[nats]\nurl = \"{nats_url}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[[resource]]\nname = \"{RESOURCE}\"\n\
         dialect = \"sentinel-hub\"\nclasses = [{}]\nlimit = [{}]\n",
        classes.join(", "),
        limits.join(", "),
    );
    Ok(config::parse(Path::new("the demo's configuration"), &text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_and_scheduler_have_the_same_limits() {
        assert!(upstream(1).is_ok());
        let config = configuration("nats://127.0.0.1:1").unwrap();
        let resource = config.resources[0].resource().unwrap();
        assert_eq!((config.nats.url.as_str(), config.http.listen.as_str()), ("nats://127.0.0.1:1", "127.0.0.1:0"));
        assert_eq!(resource.classes().len(), CLASSES.len());
        assert_eq!(
            resource.limits().iter().map(|limit| limit.spec().capacity.units()).collect::<Vec<_>>(),
            [250.0, 500.0]
        );
        assert!(config.notes.is_empty());
    }
}
