//! The text that Prometheus reads: a picture of the moment, made on request.

pub mod exposition;
pub mod samples;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use rampmeter_protocol::explain::Explained;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::reason::Reason;
use rampmeter_protocol::status::{DifferingScheduler, LimitStatus, ProviderState, RejectionCause, ShadowStatus};
use rampmeter_serve::health::{Health, ServingState};
use rampmeter_serve::limits::differences::Differences;
use rampmeter_serve::limits::rulebook::Rulebook;
use rampmeter_serve::permits::answers::loop_request::Report;
use rampmeter_serve::permits::answers::tally::{BUCKETS, Histogram};
use rampmeter_telemetry::lost_spans;
use samples::{Counter, Gauge, Labels, Samples, Value};

/// The text of `/metrics`.
#[must_use]
pub fn render(
    reports: &[Report],
    health: &Health,
    rules: &Rulebook,
    differences: &Differences,
    lost_lines: u64,
    http_refused: impl Iterator<Item = (&'static str, u64)>,
) -> String {
    let mut registry = Registry::with_prefix("rampmeter");
    register_duties(&mut registry, health);
    register_limits(&mut registry, reports);
    register_classes(&mut registry, reports);
    register_counters(&mut registry, reports);
    register_calls(&mut registry, reports);
    register_upstreams(&mut registry, reports);
    register_safety(&mut registry, reports, health);
    register_providers(&mut registry, reports);
    register_rules(&mut registry, rules);
    register_differences(&mut registry, differences);
    register_shadows(&mut registry, reports);
    register_forecasts(&mut registry, reports);
    register_logs(&mut registry, lost_lines);
    let refused = http_refused.map(|(reason, count)| (vec![("reason", reason.to_owned())], Counter(count)));
    registry.register(
        "http_refused",
        "HTTP requests that were refused for want of a right",
        Samples(refused.collect()),
    );
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string can always be written to");
    text
}

fn register_duties(registry: &mut Registry, health: &Health) {
    let duties = health.duties().into_iter();
    let leading = duties.map(|(resource, duty)| {
        let leads = matches!(duty, ServingState::Leading { .. });
        (vec![("resource", resource.to_string())], Gauge(f64::from(u8::from(leads))))
    });
    registry.register("leader", "1 while this process answers for the resource", Samples(leading.collect()));
}

fn register_limits(registry: &mut Registry, reports: &[Report]) {
    let limits = || {
        let all = reports.iter().flat_map(|report| report.status.limits.iter().map(move |limit| (report, limit)));
        all.filter(|(_, limit)| limit.shadow.is_none())
    };
    let levels = limits().map(|(report, limit)| (limit_labels(report, limit), Gauge(limit.level)));
    registry.register(
        "level",
        "Tokens that could be spent now; negative when promises reach into the future",
        Samples(levels.collect()),
    );
    let capacities = limits().map(|(report, limit)| (limit_labels(report, limit), Gauge(limit.capacity)));
    registry.register("capacity", "Tokens that the upstream's full bucket holds", Samples(capacities.collect()));
    let rates = || {
        let rate = |limit: &LimitStatus| limit.learned.map_or(1.0, |learned| learned.rate);
        Samples(limits().map(|(report, limit)| (limit_labels(report, limit), Gauge(rate(limit)))).collect())
    };
    registry.register("rate_in_use_ratio", "The rate in use, as a part of the configured one", rates());
    registry.register("rate_in_use", "The former name of rate_in_use_ratio, for one more release", rates());
    let in_use = limits().map(|(report, limit)| {
        let stated = limit.reported.and_then(|report| report.capacity).unwrap_or(limit.capacity);
        (limit_labels(report, limit), Gauge(stated))
    });
    registry.register(
        "capacity_in_use",
        "The capacity that counts: less than the written one if the upstream's headers state less",
        Samples(in_use.collect()),
    );
    let others = limits().map(|(report, limit)| {
        (limit_labels(report, limit), Gauge(limit.reported.map_or(0.0, |report| report.others)))
    });
    registry.register(
        "used_by_others",
        "What others have used of the present window, by the upstream's headers",
        Samples(others.collect()),
    );
    let frozen = limits().map(|(report, limit)| (limit_labels(report, limit), Gauge(limit.frozen_ms / 1e3)));
    registry.register("frozen_seconds", "How long the limit is still frozen", Samples(frozen.collect()));
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
    let delays =
        classes().filter_map(|(report, _, class)| Some((delay_labels(report, class.first.as_ref()?), Gauge(1.0))));
    registry.register(
        "delayed",
        "1 for the limit and reason that hold the first waiting request",
        Samples(delays.collect()),
    );
    let waits = classes().map(|(report, at, class)| (labels(report, class), report.tally.waits[at]));
    registry.register("wait_seconds", "From asking to the start of the call", Samples(waits.collect()));
}

/// The labels of a class's first waiting request, and of the limit and reason that hold it.
fn delay_labels(report: &Report, first: &Explained) -> Labels {
    let limit = first.limited_by.as_ref().map_or(String::new(), ToString::to_string);
    let reason = first.reason.unwrap_or(Reason::Other).as_str().to_owned();
    let resource = report.status.resource.to_string();
    vec![("resource", resource), ("class", first.class.to_string()), ("limit", limit), ("reason", reason)]
}

fn register_counters(registry: &mut Registry, reports: &[Report]) {
    let standbys = reports.iter().map(|report| (resource(report), Gauge(report.status.standbys.unwrap_or(0) as f64)));
    registry.register("standbys", "How many other schedulers could take over", Samples(standbys.collect()));
    let mut counter = |name: &str, help: &str, count: &dyn Fn(&Report) -> u64| {
        let samples = reports.iter().map(|report| (resource(report), Counter(count(report))));
        registry.register(name, help, Samples(samples.collect()));
    };
    counter("granted", "Permits granted", &|report| report.status.counters.granted);
    counter("settled", "Permits settled", &|report| report.status.counters.settled);
    counter("returned", "Permits given back and waiting requests cancelled", &|report| report.status.counters.returned);
    counter("upstream_429", "Calls that the upstream answered with 429", &|report| report.status.counters.upstream_429);
    counter(
        "disbelieved",
        "Statements of the upstream's headers that are not followed: more than written, or contradicted by others",
        &|report| report.status.counters.disbelieved,
    );
    let refused = reports.iter().flat_map(|report| {
        report.tally.refusals.iter().map(|(code, count)| {
            let labels = vec![("resource", report.status.resource.to_string()), ("code", code.as_str().to_owned())];
            (labels, Counter(count))
        })
    });
    registry.register("refused", "Refusals by code", Samples(refused.collect()));
    let settles = reports.iter().flat_map(|report| {
        report.tally.refused_settles.iter().map(|(code, count)| {
            let labels = vec![("resource", report.status.resource.to_string()), ("code", code.as_str().to_owned())];
            (labels, Counter(count))
        })
    });
    registry.register(
        "refused_settles",
        "Settles that were refused, as a whole or in a part",
        Samples(settles.collect()),
    );
    let remembered = reports.iter().map(|report| (resource(report), Gauge(report.remembered as f64)));
    registry.register("remembered_permits", "Permits whose ids are known", Samples(remembered.collect()));
    let decisions = reports.iter().map(|report| (resource(report), report.tally.decisions));
    registry.register("decision_seconds", "From reading a message to having its answers", Samples(decisions.collect()));
}

fn register_calls(registry: &mut Registry, reports: &[Report]) {
    let taken = reports.iter().map(|report| (resource(report), report.tally.calls));
    registry.register("call_seconds", "From the start of a call to its settle", Samples(taken.collect()));
    let in_flight = reports.iter().map(|report| (resource(report), Gauge(report.calls_in_flight as f64)));
    registry.register(
        "calls_in_flight",
        "Calls that have started and were not settled, for five minutes at most",
        Samples(in_flight.collect()),
    );
    let useful = reports.iter().filter_map(|report| Some((resource(report), Gauge(report.useful_workers?))));
    registry.register(
        "useful_workers",
        "Workers of one call at a time that the limits can feed; absent before a call has told how long it takes",
        Samples(useful.collect()),
    );
    let rejections = reports.iter().flat_map(|report| {
        RejectionCause::ALL.into_iter().map(move |cause| {
            let labels = vec![("resource", report.status.resource.to_string()), ("cause", cause.as_str().to_owned())];
            (labels, Counter(report.status.counters.rejections.by(cause)))
        })
    });
    registry.register(
        "upstream_rejections",
        "Calls that the upstream answered with 429, by cause",
        Samples(rejections.collect()),
    );
}

fn register_upstreams(registry: &mut Registry, reports: &[Report]) {
    let answers = reports.iter().flat_map(|report| {
        report.tally.answers.iter().map(|(class, count)| {
            let labels = vec![("resource", report.status.resource.to_string()), ("status", class.to_owned())];
            (labels, Counter(count))
        })
    });
    registry.register("upstream_answers", "Answers of the upstream by class of status", Samples(answers.collect()));
    let unreadable = reports.iter().flat_map(|report| {
        report.tally.unreadable.iter().map(|(header, count)| {
            let labels = vec![("resource", report.status.resource.to_string()), ("header", header.to_owned())];
            (labels, Counter(count))
        })
    });
    registry.register(
        "unreadable_headers",
        "Values of the upstream's headers that could not be read",
        Samples(unreadable.collect()),
    );
}

fn register_safety(registry: &mut Registry, reports: &[Report], health: &Health) {
    let troubled = health.duties().into_iter().map(|(resource, duty)| {
        let troubled = matches!(duty, ServingState::Troubled { .. });
        (vec![("resource", resource.to_string())], Gauge(f64::from(u8::from(troubled))))
    });
    registry.register(
        "troubled",
        "1 while the resource can't be served; /readyz says why",
        Samples(troubled.collect()),
    );
    let epochs = reports.iter().map(|report| (resource(report), Gauge(report.status.epoch.get() as f64)));
    registry.register("epoch", "Grows with every change of leader", Samples(epochs.collect()));
    let ahead = reports.iter().map(|report| (resource(report), Gauge(report.tally.clock_ahead_secs)));
    registry.register(
        "clock_ahead_seconds",
        "How far the clock of this machine is ahead of that of NATS, by which windows are cut",
        Samples(ahead.collect()),
    );
    let mut count = |name: &str, help: &str, of: fn(&Report) -> u64| {
        let counts = reports.iter().map(|report| (resource(report), Counter(of(report))));
        registry.register(name, help, Samples(counts.collect()));
    };
    count("store_writes", "Checkpoints that the store has taken", |report| report.tally.checkpoints);
    count("store_losses", "Times that the store did not take a checkpoint", |report| report.tally.store_losses);
    count("store_went_back", "Times that the store turned out to be older than it was", |report| {
        report.tally.store_went_back
    });
    count("named_epochs", "Requests that named a higher epoch than this leader's; /readyz tells it", |report| {
        report.tally.named_epochs
    });
    count("undelivered", "Answers to requests that waited which have reached no client", |report| {
        report.tally.undelivered
    });
    count("lost_messages", "Messages of clients that were lost because too many waited", |report| {
        report.tally.lost_messages
    });
    count(
        "foreign_replies",
        "Messages that were dropped because they wanted answers at inboxes of no user",
        |report| report.tally.foreign_replies,
    );
    count("standstills", "Times that this process was stopped or its machine slept", |report| report.tally.standstills);
}

fn register_providers(registry: &mut Registry, reports: &[Report]) {
    let provided =
        || reports.iter().filter_map(|report| Some((resource(report), report, report.status.provider.as_ref()?)));
    let up = provided().map(|(labels, _, provider)| {
        let answers = provider.state == ProviderState::Ok;
        (labels, Gauge(f64::from(u8::from(answers))))
    });
    registry.register(
        "provider_up",
        "1 while the provider of the limits answers; without it the known limits count",
        Samples(up.collect()),
    );
    let failures = provided().flat_map(|(labels, report, _)| {
        report.tally.provider_failures.iter().map(move |(kind, count)| {
            let kind = [("kind", kind.as_str().to_owned())];
            (labels.iter().cloned().chain(kind).collect(), Counter(count))
        })
    });
    registry.register("provider_failures", "Questions that it did not answer", Samples(failures.collect()));
    let ages = provided().filter_map(|(labels, _, provider)| Some((labels, Gauge(provider.contract_age_ms? / 1e3))));
    registry.register("provider_contract_age_seconds", "How long ago it told the limits", Samples(ages.collect()));
}

fn register_rules(registry: &mut Registry, rules: &Rulebook) {
    let one = |value: f64| Samples(vec![(Vec::new(), Gauge(value))]);
    registry.register(
        "rules_revision",
        "The edition of the rules that counts; 0 without rules",
        one(rules.revision.get() as f64),
    );
    let refused = f64::from(u8::from(rules.refused.is_some()));
    registry.register("rules_stale", "1 while a later edition of the rules is refused; /readyz says why", one(refused));
    let refusals = Samples(vec![(Vec::new(), Counter(rules.refusals))]);
    registry.register("rules_refused", "Editions of the rules that were refused", refusals);
}

fn register_differences(registry: &mut Registry, differences: &Differences) {
    let mut samples = Vec::new();
    for (resource, schedulers) in differences.all() {
        for DifferingScheduler { scheduler, limits, settings } in schedulers {
            let limits = limits.into_iter().map(|limit| ("limit", limit.to_string()));
            for part in limits.chain(settings.into_iter().map(|setting| ("setting", setting))) {
                let labels = vec![("resource", resource.to_string()), ("scheduler", scheduler.clone()), part];
                samples.push((labels, Gauge(1.0)));
            }
        }
    }
    registry.register(
        "configuration_differs",
        "1 for each limit and setting in which another scheduler differs from this one",
        Samples(samples),
    );
}

/// When long limits end. A quantile that is not reached before the reset has no value.
fn register_forecasts(registry: &mut Registry, reports: &[Report]) {
    let forecasts = || {
        let all = reports.iter().map(|report| &report.status);
        all.flat_map(|status| status.forecasts.iter().map(move |forecast| (&status.resource, forecast)))
    };
    let labels = |resource: &Name, limit: &Name| vec![("resource", resource.to_string()), ("limit", limit.to_string())];
    let ends = forecasts().flat_map(|(resource, forecast)| {
        let quantiles = [("0.1", forecast.p10_ms), ("0.5", forecast.p50_ms), ("0.9", forecast.p90_ms)];
        quantiles.into_iter().filter_map(move |(quantile, at)| {
            let mut labels = labels(resource, &forecast.limit);
            labels.push(("quantile", quantile.to_owned()));
            Some((labels, Gauge(at? / 1000.0)))
        })
    });
    registry.register(
        "forecast_end_seconds",
        "In how many seconds a limit ends at the present pace; no value if it lasts until its reset",
        Samples(ends.collect()),
    );
    let shares = forecasts().map(|(resource, forecast)| (labels(resource, &forecast.limit), Gauge(forecast.share)));
    registry.register(
        "forecast_ends_in_time_ratio",
        "The share of replays of the last weeks in which a limit ends before its reset",
        Samples(shares.collect()),
    );
}

fn register_shadows(registry: &mut Registry, reports: &[Report]) {
    let shadows = || {
        let all = reports.iter().flat_map(|report| report.status.limits.iter().map(move |limit| (report, limit)));
        all.filter_map(|(report, limit)| Some((report, limit, limit.shadow?)))
    };
    let mut count = |name: &str, help: &str, of: fn(&ShadowStatus) -> u64| {
        let counts = shadows().map(|(report, limit, shadow)| (limit_labels(report, limit), Counter(of(&shadow))));
        registry.register(name, help, Samples(counts.collect()));
    };
    count("shadow_calls", "Calls that a limit in shadow mode is for", |shadow| shadow.calls);
    count("shadow_would_wait", "Calls that it would have held up", |shadow| shadow.would_wait);
    count("shadow_would_refuse", "Calls that it would have had refused", |shadow| shadow.would_refuse);
    let longest =
        shadows().map(|(report, limit, shadow)| (limit_labels(report, limit), Gauge(shadow.longest_wait_ms / 1e3)));
    registry.register(
        "shadow_longest_wait_seconds",
        "The longest that it would have held one up",
        Samples(longest.collect()),
    );
}

fn register_logs(registry: &mut Registry, lost_lines: u64) {
    let lost = Samples(vec![(Vec::new(), Counter(lost_lines))]);
    registry.register("log_lines_lost", "Lines of the log that standard error did not take", lost);
    let lost = Samples(vec![(Vec::new(), Counter(lost_spans()))]);
    registry.register("lost_spans", "Spans that the collector did not take", lost);
}

fn limit_labels(report: &Report, limit: &LimitStatus) -> Labels {
    vec![
        ("resource", report.status.resource.to_string()),
        ("limit", limit.name.to_string()),
        ("unit", limit.unit.to_string()),
    ]
}

fn resource(report: &Report) -> Labels {
    vec![("resource", report.status.resource.to_string())]
}

impl Value for Histogram {
    const TYPE: MetricType = MetricType::Histogram;

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let bounds = BUCKETS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.buckets).collect();
        encoder.encode_histogram::<NoLabelSet>(self.sum, self.count, &buckets, None)
    }
}
