//! What Prometheus reads: a picture of the moment, made when it asks.

use super::health::{Duty, Health};
use super::permit_loop::Report;
use super::tally::{BUCKETS, Histogram};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Labels of one sample, by name.
type Labels = Vec<(&'static str, String)>;

/// All samples of one metric.
#[derive(Debug)]
struct Samples<V>(Vec<(Labels, V)>);

/// A number that goes up and down.
#[derive(Debug)]
struct Gauge(f64);

/// A number that only goes up.
#[derive(Debug)]
struct Counter(u64);

/// The text of `/metrics`.
#[must_use]
pub fn render(reports: &[Report], health: &Health) -> String {
    let mut registry = Registry::with_prefix("rampmeter");
    register_duties(&mut registry, health);
    register_limits(&mut registry, reports);
    register_classes(&mut registry, reports);
    register_counters(&mut registry, reports);
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string can always be written to");
    text
}

fn register_duties(registry: &mut Registry, health: &Health) {
    let duties = health.duties().into_iter();
    let leading = duties.map(|(resource, duty)| {
        let leads = matches!(duty, Duty::Leading { .. });
        (vec![("resource", resource.to_string())], Gauge(f64::from(u8::from(leads))))
    });
    registry.register("leader", "1 while this process answers for the resource", Samples(leading.collect()));
}

fn register_limits(registry: &mut Registry, reports: &[Report]) {
    let limits = || reports.iter().flat_map(|report| report.status.limits.iter().map(move |limit| (report, limit)));
    let labels = |report: &Report, limit: &rampmeter_protocol::status::LimitStatus| {
        vec![
            ("resource", report.status.resource.to_string()),
            ("limit", limit.name.to_string()),
            ("unit", limit.unit.to_string()),
        ]
    };
    let levels = limits().map(|(report, limit)| (labels(report, limit), Gauge(limit.level)));
    registry.register(
        "level",
        "Tokens that could be spent now; negative when promises reach into the future",
        Samples(levels.collect()),
    );
    let capacities = limits().map(|(report, limit)| (labels(report, limit), Gauge(limit.capacity)));
    registry.register("capacity", "Tokens that the upstream's full bucket holds", Samples(capacities.collect()));
}

fn register_classes(registry: &mut Registry, reports: &[Report]) {
    let classes = || {
        reports
            .iter()
            .flat_map(|report| report.status.classes.iter().enumerate().map(move |(at, class)| (report, at, class)))
    };
    let labels = |report: &Report, class: &rampmeter_protocol::status::ClassStatus| {
        vec![("resource", report.status.resource.to_string()), ("class", class.name.to_string())]
    };
    let queued = classes().map(|(report, _, class)| (labels(report, class), Gauge(class.queued as f64)));
    registry.register("queued", "Requests that wait", Samples(queued.collect()));
    let oldest = classes().map(|(report, _, class)| (labels(report, class), Gauge(class.oldest_ms / 1e3)));
    registry.register("oldest_wait_seconds", "How long the oldest request has waited", Samples(oldest.collect()));
    let waits = classes().map(|(report, at, class)| (labels(report, class), report.tally.waits[at]));
    registry.register("wait_seconds", "From asking to the start of the call", Samples(waits.collect()));
}

fn register_counters(registry: &mut Registry, reports: &[Report]) {
    let resource = |report: &Report| vec![("resource", report.status.resource.to_string())];
    let mut counter = |name: &str, help: &str, count: &dyn Fn(&Report) -> u64| {
        let samples = reports.iter().map(|report| (resource(report), Counter(count(report))));
        registry.register(name, help, Samples(samples.collect()));
    };
    counter("granted", "Permits granted", &|report| report.status.counters.granted);
    counter("settled", "Permits settled", &|report| report.status.counters.settled);
    counter("returned", "Permits given back and waiting requests cancelled", &|report| report.status.counters.returned);
    counter("upstream_429", "Calls that the upstream answered with 429", &|report| report.status.counters.upstream_429);
    let refused = reports.iter().flat_map(|report| {
        report.tally.refusals.iter().map(|(code, count)| {
            let labels = vec![("resource", report.status.resource.to_string()), ("code", code.as_str().to_owned())];
            (labels, Counter(count))
        })
    });
    registry.register("refused", "Refusals by code", Samples(refused.collect()));
    let remembered = reports.iter().map(|report| (resource(report), Gauge(report.remembered as f64)));
    registry.register("remembered_permits", "Permits whose ids are known", Samples(remembered.collect()));
    let decisions = reports.iter().map(|report| (resource(report), report.tally.decisions));
    registry.register("decision_seconds", "From reading a message to having its answers", Samples(decisions.collect()));
}

/// How one value is written.
trait Value: std::fmt::Debug + Send + Sync + 'static {
    const TYPE: MetricType;

    fn encode(&self, encoder: MetricEncoder<'_>) -> std::fmt::Result;
}

impl Value for Gauge {
    const TYPE: MetricType = MetricType::Gauge;

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        encoder.encode_gauge(&self.0)
    }
}

impl Value for Counter {
    const TYPE: MetricType = MetricType::Counter;

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        encoder.encode_counter::<NoLabelSet, _, u64>(&self.0, None)
    }
}

impl Value for Histogram {
    const TYPE: MetricType = MetricType::Histogram;

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let bounds = BUCKETS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.buckets).collect();
        encoder.encode_histogram::<NoLabelSet>(self.sum, self.count, &buckets, None)
    }
}

impl<V: Value> EncodeMetric for Samples<V> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for (labels, value) in &self.0 {
            value.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        V::TYPE
    }
}
