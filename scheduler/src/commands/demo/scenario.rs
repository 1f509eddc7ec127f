//! The account and its limits, for the upstream that enforces them and the scheduler that keeps to
//! them.

use super::Options;
use super::class::Class;
use crate::config::{self, Config};
use rampmeter_upstream::{Policy, ResponseTime};
use std::path::Path;
use std::time::Duration;

/// The name of the account's resource.
pub(super) const RESOURCE: &str = "demo";
/// The unit that calls take in different amounts.
pub(super) const PROCESSING_UNITS: &str = "processing-units";

/// One limit of the account.
struct Limit {
    unit: &'static str,
    capacity: u32,
    period: &'static str,
}

/// Limits of Sentinel Hub's kinds. The urgent classes need about 20 requests and 30 processing
/// units a second. Bulk therefore saturates the second limit, and the first burst ends soon.
const LIMITS: [Limit; 2] = [
    Limit { unit: "requests", capacity: 250, period: "5s" },
    Limit { unit: PROCESSING_UNITS, capacity: 500, period: "5s" },
];

/// The share of each capacity that a class leaves to more urgent classes.
fn headroom(class: Class) -> f64 {
    match class {
        Class::Interactive => 0.0,
        Class::Standard => 0.1,
        Class::Bulk => 0.2,
    }
}

/// What the demo is about to do.
pub(super) fn introduction(options: Options) -> String {
    let Options { workers, seconds, .. } = options;
    let [requests, units] = LIMITS.map(|limit| limit.capacity);
    let period = LIMITS[0].period.trim_end_matches('s');
    format!(
        "{workers} workers call an API that allows {requests} requests and {units} processing units in {period} s.\n\
         First each worker is on its own, then all ask for permits: {seconds} s each."
    )
}

/// The configuration of the upstream, with full buckets.
pub(super) fn upstream(seed: u64) -> anyhow::Result<rampmeter_upstream::Config> {
    let policy = |limit: &Limit| format!("{}={}/{}", limit.unit, limit.capacity, limit.period).parse();
    let policies = LIMITS.iter().map(policy).collect::<Result<Vec<Policy>, _>>()?;
    let response_time = ResponseTime::fixed(Duration::from_millis(80)).with_jitter(Duration::from_millis(40), seed);
    Ok(rampmeter_upstream::Config::new(policies).response_time(response_time))
}

/// The scheduler's configuration, in the form that a user would write.
pub(super) fn configuration(nats_url: &str) -> anyhow::Result<Config> {
    let text = format!(
        "[nats]\nurl = \"{nats_url}\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
         [[resource]]\nname = \"{RESOURCE}\"\ndialect = \"sentinel-hub\"\nclasses = [{}]\n{}",
        Class::ALL.map(class_entry).join(", "),
        LIMITS.each_ref().map(limit_table).concat(),
    );
    Ok(config::parse(Path::new("the demo's configuration"), &text)?)
}

fn class_entry(class: Class) -> String {
    format!("{{ name = \"{}\", headroom = {:?} }}", class.name(), headroom(class))
}

fn limit_table(limit: &Limit) -> String {
    let Limit { unit, capacity, period } = limit;
    format!("[[resource.limit]]\nname = \"{unit}\"\nunit = \"{unit}\"\ncapacity = {capacity}\nperiod = \"{period}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_says_what_it_does() {
        let text = introduction(Options { workers: 200, seconds: 25, seed: 1 });
        let golden = "200 workers call an API that allows 250 requests and 500 processing units in 5 s.\n\
                      First each worker is on its own, then all ask for permits: 25 s each.";
        assert_eq!(text, golden);
    }

    #[test]
    fn upstream_and_scheduler_have_the_same_limits() {
        assert!(upstream(1).is_ok());
        let config = configuration("nats://127.0.0.1:1").unwrap();
        let resource = config.resources[0].resource().unwrap();
        assert_eq!((config.nats.url.as_str(), config.http.listen.as_str()), ("nats://127.0.0.1:1", "127.0.0.1:0"));
        assert_eq!(resource.classes().len(), Class::ALL.len());
        assert_eq!(
            resource.limits().iter().map(|limit| limit.spec().capacity.units()).collect::<Vec<_>>(),
            [250.0, 500.0]
        );
        assert!(config.notes.is_empty());
    }
}
