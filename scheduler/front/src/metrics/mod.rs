//! The metrics for Prometheus, a snapshot made on each request.

pub mod exposition;
pub mod samples;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;
use rampmeter_account::FailureKind;
use rampmeter_protocol::explain::Explained;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::reason::Reason;
use rampmeter_protocol::status::{
    ClassStatus, DifferingScheduler, LimitStatus, ProviderState, RejectionCause, ShadowStatus,
};
use rampmeter_serve::health::{Health, ServingState};
use rampmeter_serve::limits::differences::Differences;
use rampmeter_serve::limits::rulebook::Rulebook;
use rampmeter_serve::permits::answers::loop_request::Report;
use rampmeter_serve::permits::answers::tally::{BUCKETS, Histogram};
use rampmeter_telemetry::lost_spans;
use samples::{Counter, Gauge, Labels, Samples};
use std::fmt::Debug;

/// Renders the text of `/metrics`.
#[must_use]
pub fn render(
    reports: &[Report],
    health: &Health,
    rules: &Rulebook,
    differences: &Differences,
    lost_lines: u64,
    http_refused: impl Iterator<Item = (&'static str, u64)>,
) -> String {
    let mut metrics = Metrics { registry: Registry::with_prefix("rampmeter"), reports };
    metrics.add_duties(health);
    metrics.add_limits();
    metrics.add_classes();
    metrics.add_calls();
    metrics.add_safety();
    metrics.add_providers();
    metrics.add_rules(rules);
    metrics.add_differences(differences);
    metrics.add_shadows();
    metrics.add_forecasts();
    metrics.add_one("log_lines_lost", "Lines of the log that standard error did not take", Counter::new(lost_lines));
    metrics.add_one("lost_spans", "Spans that the collector did not take", Counter::new(lost_spans()));
    let refused = http_refused.map(|(reason, count)| (vec![("reason", reason.to_owned())], Counter::new(count)));
    metrics.add("http_refused", "HTTP requests that were refused for want of a right", refused);
    let mut text = String::new();
    encode(&mut text, &metrics.registry).expect("a string can always be written to");
    text
}

/// The metrics under construction, most of them of the resources that this process leads.
struct Metrics<'a> {
    registry: Registry,
    reports: &'a [Report],
}

trait SampleValue: EncodeMetric + TypedMetric + Debug + Send + Sync + 'static {}

impl<V: EncodeMetric + TypedMetric + Debug + Send + Sync + 'static> SampleValue for V {}

impl<'a> Metrics<'a> {
    fn add<V: SampleValue>(&mut self, name: &str, help: &str, samples: impl Iterator<Item = (Labels, V)>) {
        self.registry.register(name, help, Samples(samples.collect()));
    }

    /// Adds a metric of the whole process.
    fn add_one<V: SampleValue>(&mut self, name: &str, help: &str, value: V) {
        self.add(name, help, [(Vec::new(), value)].into_iter());
    }

    fn gauge(&mut self, name: &str, help: &str, of: fn(&Report) -> f64) {
        self.add(name, help, self.reports.iter().map(|report| (resource(report), Gauge::new(of(report)))));
    }

    fn count(&mut self, name: &str, help: &str, of: fn(&Report) -> u64) {
        self.add(name, help, self.reports.iter().map(|report| (resource(report), Counter::new(of(report)))));
    }

    /// Adds a counter of each resource and each value of `label`.
    fn count_by<T: ToString>(&mut self, name: &str, help: &str, label: &'static str, of: fn(&Report) -> Vec<(T, u64)>) {
        let samples = self.reports.iter().flat_map(|report| {
            let labels = move |value: T| with(resource(report), label, value);
            of(report).into_iter().map(move |(value, count)| (labels(value), Counter::new(count)))
        });
        self.add(name, help, samples);
    }

    fn durations(&mut self, name: &str, help: &str, of: fn(&Report) -> Histogram) {
        self.add(name, help, self.reports.iter().map(|report| (resource(report), Durations(of(report)))));
    }

    /// Adds a metric of each limit for which `of` returns a value.
    fn limits<V: SampleValue>(&mut self, name: &str, help: &str, of: impl Fn(&LimitStatus) -> Option<V>) {
        let all = self.reports.iter().flat_map(|report| report.status.limits.iter().map(move |limit| (report, limit)));
        self.add(name, help, all.filter_map(|(report, limit)| Some((limit_labels(report, limit), of(limit)?))));
    }

    fn add_duties(&mut self, health: &Health) {
        let duties = health.duties();
        let mut gauge = |name: &str, help: &str, is: fn(&ServingState) -> bool| {
            let sample = |(resource, duty): (&Name, _)| (vec![("resource", resource.to_string())], truth(is(duty)));
            self.add(name, help, duties.iter().map(sample));
        };
        gauge("leader", "1 while this process answers for the resource", |duty| {
            matches!(duty, ServingState::Leading { .. })
        });
        gauge("troubled", "1 while the resource can't be served; /readyz says why", |duty| {
            matches!(duty, ServingState::Troubled { .. })
        });
    }

    fn add_limits(&mut self) {
        let mut gauge = |name: &str, help: &str, of: fn(&LimitStatus) -> f64| {
            self.limits(name, help, |limit| limit.shadow.is_none().then(|| Gauge::new(of(limit))));
        };
        gauge("level", "Tokens that could be spent now; negative when promises reach into the future", |limit| {
            limit.level
        });
        gauge("capacity", "Tokens that the upstream's full bucket holds", |limit| limit.capacity);
        let rate: fn(&LimitStatus) -> f64 = |limit| limit.learned.map_or(1.0, |learned| learned.rate);
        gauge("rate_in_use_ratio", "The rate in use, as a part of the configured one", rate);
        gauge("rate_in_use", "The former name of rate_in_use_ratio, for one more release", rate);
        let help = "The capacity that counts: less than the written one if the upstream's headers state less";
        gauge("capacity_in_use", help, |limit| {
            limit.reported.and_then(|report| report.capacity).unwrap_or(limit.capacity)
        });
        let help = "What others have used of the present window, by the upstream's headers";
        gauge("used_by_others", help, |limit| limit.reported.map_or(0.0, |report| report.others));
        gauge("frozen_seconds", "How long the limit is still frozen", |limit| limit.frozen_ms / 1e3);
    }

    fn add_classes(&mut self) {
        let classes = self.reports.iter().flat_map(|report| {
            let labels = move |class: &ClassStatus| with(resource(report), "class", &class.name);
            report
                .status
                .classes
                .iter()
                .zip(&report.tally.waits)
                .map(move |(class, waits)| (labels(class), class, waits))
        });
        let gauge = |of: fn(&ClassStatus) -> f64| {
            classes.clone().map(move |(labels, class, _)| (labels, Gauge::new(of(class))))
        };
        self.add("queued", "Requests that wait", gauge(|class| class.queued as f64));
        let oldest = gauge(|class| class.oldest_ms / 1e3);
        self.add("oldest_wait_seconds", "How long the oldest request has waited", oldest);
        let delays = classes
            .clone()
            .filter_map(|(labels, class, _)| Some((with_delay(labels, class.first.as_ref()?), Gauge::new(1.0))));
        self.add("delayed", "1 for the limit and reason that hold the first waiting request", delays);
        let waits = classes.map(|(labels, _, waits)| (labels, Durations(*waits)));
        self.add("wait_seconds", "From asking to the start of the call", waits);
    }

    fn add_calls(&mut self) {
        self.count("granted", "Permits granted", |report| report.status.counters.granted);
        self.count("settled", "Permits settled", |report| report.status.counters.settled);
        let help = "Permits given back and waiting requests cancelled";
        self.count("returned", help, |report| report.status.counters.returned);
        let help = "Calls that the upstream answered with 429";
        self.count("upstream_429", help, |report| report.status.counters.upstream_429);
        let help =
            "Statements of the upstream's headers that are not followed: more than written, or contradicted by others";
        self.count("disbelieved", help, |report| report.status.counters.disbelieved);
        self.count_by("refused", "Refusals by code", "code", |report| report.tally.refusals.iter().collect());
        let help = "Settles that were refused, as a whole or in a part";
        self.count_by("refused_settles", help, "code", |report| report.tally.refused_settles.iter().collect());
        self.gauge("remembered_permits", "Permits whose ids are known", |report| report.remembered as f64);
        let help = "From reading a message to having its answers";
        self.durations("decision_seconds", help, |report| report.tally.decisions);
        self.durations("call_seconds", "From the start of a call to its settle", |report| report.tally.calls);
        let help = "Calls that have started and were not settled, for five minutes at most";
        self.gauge("calls_in_flight", help, |report| report.calls_in_flight as f64);
        let useful = |report: &Report| Some((resource(report), Gauge::new(report.useful_workers?)));
        let help =
            "Workers of one call at a time that the limits can feed; absent before a call has told how long it takes";
        self.add("useful_workers", help, self.reports.iter().filter_map(useful));
        let help = "Calls that the upstream answered with 429, by cause";
        self.count_by("upstream_rejections", help, "cause", |report| {
            RejectionCause::ALL.into_iter().map(|cause| (cause, report.status.counters.rejections.by(cause))).collect()
        });
        let help = "Answers of the upstream by class of status";
        self.count_by("upstream_answers", help, "status", |report| report.tally.answers.iter().collect());
        let help = "Values of the upstream's headers that could not be read";
        self.count_by("unreadable_headers", help, "header", |report| {
            report.tally.unreadable.iter().map(|(header, count)| (header.to_owned(), count)).collect()
        });
    }

    fn add_safety(&mut self) {
        let help = "How many other schedulers could take over";
        self.gauge("standbys", help, |report| report.status.standbys.unwrap_or(0) as f64);
        self.gauge("epoch", "Grows with every change of leader", |report| report.status.epoch.get() as f64);
        let help = "How far the clock of this machine is ahead of that of NATS, by which windows are cut";
        self.gauge("clock_ahead_seconds", help, |report| report.tally.clock_ahead_secs);
        self.count("store_writes", "Checkpoints that the store has taken", |report| report.tally.checkpoints);
        let help = "Checkpoints that all standbys held before the store took them";
        self.count("standby_writes", help, |report| report.tally.witnessed);
        let help = "Times that the store did not take a checkpoint";
        self.count("store_losses", help, |report| report.tally.store_losses);
        let help = "Times that the store turned out to be older than it was";
        self.count("store_went_back", help, |report| report.tally.store_went_back);
        let help = "Requests that named a higher epoch than this leader's; /readyz tells it";
        self.count("named_epochs", help, |report| report.tally.named_epochs);
        let help = "Answers to requests that waited which have reached no client";
        self.count("undelivered", help, |report| report.tally.undelivered);
        let help = "Messages of clients that were lost because too many waited";
        self.count("lost_messages", help, |report| report.tally.lost_messages);
        let help = "Messages that were dropped because they wanted answers at inboxes of no user";
        self.count("foreign_replies", help, |report| report.tally.foreign_replies);
        let help = "Times that this process was stopped or its machine slept";
        self.count("standstills", help, |report| report.tally.standstills);
    }

    fn add_providers(&mut self) {
        let provided =
            self.reports.iter().filter_map(|report| Some((resource(report), report.status.provider.as_ref()?)));
        let up = provided.clone().map(|(labels, provider)| (labels, truth(provider.state == ProviderState::Ok)));
        self.add("provider_up", "1 while the provider of the limits answers; without it the known limits count", up);
        let ages =
            provided.filter_map(|(labels, provider)| Some((labels, Gauge::new(provider.contract_age_ms? / 1e3))));
        self.add("provider_contract_age_seconds", "How long ago it told the limits", ages);
        self.count_by("provider_failures", "Questions that it did not answer", "kind", |report| {
            let provider = report.status.provider.iter();
            provider.flat_map(|_| FailureKind::ALL.into_iter().zip(report.tally.provider_failures)).collect()
        });
    }

    fn add_rules(&mut self, rules: &Rulebook) {
        let revision = Gauge::new(rules.revision.get() as f64);
        self.add_one("rules_revision", "The revision of the rules that counts; 0 without rules", revision);
        let help = "1 while a later revision of the rules is refused; /readyz says why";
        self.add_one("rules_stale", help, truth(rules.refused.is_some()));
        self.add_one("rules_refused", "Revisions of the rules that were refused", Counter::new(rules.refusals));
    }

    fn add_differences(&mut self, differences: &Differences) {
        let mut samples = Vec::new();
        for (resource, schedulers) in differences.all() {
            for DifferingScheduler { scheduler, limits, settings } in schedulers {
                let limits = limits.into_iter().map(|limit| ("limit", limit.to_string()));
                for part in limits.chain(settings.into_iter().map(|setting| ("setting", setting))) {
                    let labels = vec![("resource", resource.to_string()), ("scheduler", scheduler.clone()), part];
                    samples.push((labels, Gauge::new(1.0)));
                }
            }
        }
        let help = "1 for each limit and setting in which another scheduler differs from this one";
        self.add("configuration_differs", help, samples.into_iter());
    }

    /// Adds the forecasts of long limits. A quantile that is not reached before the reset has no value.
    fn add_forecasts(&mut self) {
        let forecasts = self.reports.iter().flat_map(|report| {
            let labels = move |limit| with(resource(report), "limit", limit);
            report.status.forecasts.iter().map(move |forecast| (labels(&forecast.limit), forecast))
        });
        let ends = forecasts.clone().flat_map(|(labels, forecast)| {
            let quantiles = [("0.1", forecast.p10_ms), ("0.5", forecast.p50_ms), ("0.9", forecast.p90_ms)];
            quantiles.into_iter().filter_map(move |(quantile, at)| {
                Some((with(labels.clone(), "quantile", quantile), Gauge::new(at? / 1000.0)))
            })
        });
        let help = "In how many seconds a limit ends at the present pace; no value if it lasts until its reset";
        self.add("forecast_end_seconds", help, ends);
        let help = "The share of replays of the last weeks in which a limit ends before its reset";
        let shares = forecasts.map(|(labels, forecast)| (labels, Gauge::new(forecast.share)));
        self.add("forecast_ends_in_time_ratio", help, shares);
    }

    fn add_shadows(&mut self) {
        let mut count = |name: &str, help: &str, of: fn(&ShadowStatus) -> u64| {
            self.limits(name, help, |limit| limit.shadow.as_ref().map(|shadow| Counter::new(of(shadow))));
        };
        count("shadow_calls", "Calls that a limit in shadow mode is for", |shadow| shadow.calls);
        count("shadow_would_wait", "Calls that it would have held up", |shadow| shadow.would_wait);
        count("shadow_would_refuse", "Calls that it would have had refused", |shadow| shadow.would_refuse);
        self.limits("shadow_longest_wait_seconds", "The longest that it would have held one up", |limit| {
            limit.shadow.map(|shadow| Gauge::new(shadow.longest_wait_ms / 1e3))
        });
    }
}

fn truth(truth: bool) -> Gauge {
    Gauge::new(f64::from(u8::from(truth)))
}

fn resource(report: &Report) -> Labels {
    vec![("resource", report.status.resource.to_string())]
}

fn limit_labels(report: &Report, limit: &LimitStatus) -> Labels {
    with(with(resource(report), "limit", &limit.name), "unit", &limit.unit)
}

/// Adds the limit and the reason that hold a class's first waiting request to its labels.
fn with_delay(labels: Labels, first: &Explained) -> Labels {
    let limit = first.limited_by.as_ref().map_or(String::new(), ToString::to_string);
    with(with(labels, "limit", limit), "reason", first.reason.unwrap_or(Reason::Other).as_str())
}

fn with(mut labels: Labels, name: &'static str, value: impl ToString) -> Labels {
    labels.push((name, value.to_string()));
    labels
}

#[derive(Debug)]
struct Durations(Histogram);

impl TypedMetric for Durations {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let Histogram { sum, count, buckets } = self.0;
        let buckets: Vec<(f64, u64)> = BUCKETS.into_iter().chain([f64::INFINITY]).zip(buckets).collect();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
