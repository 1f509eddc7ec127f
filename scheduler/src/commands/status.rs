//! `rampmeter status`

use super::limits::limit_end;
use super::nats_arg::NatsArg;
use super::output;
use super::output::human::{amount, count, duration, escaped, wrapped};
use super::output::reasons::{About, sentence, word};
use super::output::table::{table, text_width};
use super::schedulers::Schedulers;
use super::watch::{self, watch};
use crate::commands::output::error_text::with_causes;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::explain::Explained;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::reason::{Holder, PauseCause, Reason};
use rampmeter_protocol::status::{
    Correction, DifferingScheduler, DiscoveredStatus, LimitStatus, ProviderState, ProviderStatus, RulesStatus, Status,
    UnreadableHeader, UpstreamReport,
};
use serde_json::json;
use std::cmp::Reverse;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

/// Bound on the kinds of calls whose costs are shown. A resource may have a thousand.
const SHOWN_CORRECTIONS: usize = 10;

/// Epochs from here on are times in milliseconds since 2001, which no count reaches.
const CLOCK_EPOCHS: u64 = 1_000_000_000_000;

/// The names of algorithms whose limits have no period.
const IN_FLIGHT: &str = "concurrency";
const QUOTA: &str = "quota";

/// What `status` takes.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The resource; all resources, if none is named.
    resource: Option<Name>,
    /// Print the protocol's status messages as a JSON array.
    #[arg(long)]
    json: bool,
    /// Show it again each second, or at another interval, until Ctrl-C; with --json, each time in a line.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          value_parser = watch::seconds)]
    watch: Option<f64>,
    #[command(flatten)]
    nats: NatsArg,
}

impl StatusArgs {
    /// Returns the log levels. With `watch` the connection logs nothing, because the table itself shows failures.
    #[must_use]
    pub fn log_levels(&self) -> &'static str {
        if self.watch.is_some() { "error,async_nats=off" } else { "warn" }
    }
}

/// Prints the status of resources, once or repeatedly.
///
/// # Errors
/// If NATS can't be reached, or, without `--watch`, no scheduler answers.
pub async fn run(args: StatusArgs) -> anyhow::Result<()> {
    let schedulers = Schedulers::connect(&args.nats, "rampmeter-status").await?;
    let ask = async || schedulers.statuses(args.resource.as_ref()).await;
    match args.watch {
        Some(seconds) => {
            let in_place = !args.json && stdout().is_terminal();
            let look = async || if args.json { json_line(ask().await) } else { text(ask().await) };
            watch(Duration::from_secs_f64(seconds), in_place, look).await
        }
        None => output::show(args.json, &ask().await?, |all| tables(all)),
    }
}

/// Formats the answers or their failure as JSON on one line.
fn json_line(answers: anyhow::Result<Vec<Status>>) -> String {
    let line = answers.and_then(|all| Ok(serde_json::to_string(&all)?));
    line.unwrap_or_else(|error| json!({"error": with_causes(&*error)}).to_string()) + "\n"
}

fn text(answers: anyhow::Result<Vec<Status>>) -> String {
    answers.map_or_else(|error| format!("rampmeter: {}\n\n", with_causes(&*error)), |all| tables(&all))
}

/// Formats each status, followed by an empty line.
fn tables(all: &[Status]) -> String {
    all.iter().map(|status| render(status) + "\n").collect()
}

fn render(status: &Status) -> String {
    let forecasts = status.forecasts.iter().filter_map(limit_end::ends);
    let notes = status.limits.iter().flat_map(notes).chain(forecasts);
    let notes = notes.map(|note| wrapped(&note, text_width()) + "\n");
    format!(
        "{}\n{}\n{}{}{}{}\n",
        heading(status, text_width()),
        limits(status),
        notes.collect::<String>(),
        missing_labels(status),
        corrections(&status.corrections),
        classes(status),
    )
}

/// Formats the status of the resource as a whole, in lines of `columns` columns.
fn heading(status: &Status, columns: usize) -> String {
    let counters = &status.counters;
    format!(
        "{} · epoch {} · led by {}{}\n{}{}{}{} granted, {} refused, {} settled, {} returned, {} × 429 upstream{}\n{}",
        status.resource,
        epoch(status.epoch),
        status.leader,
        standbys(status),
        status.differing.iter().map(differing).collect::<String>(),
        status.rules.as_ref().map(rules).unwrap_or_default(),
        status.provider.as_ref().map(provider).unwrap_or_default() + &unreadable(status) + &remarks(status),
        count(counters.granted),
        count(counters.refused),
        count(counters.settled),
        count(counters.returned),
        count(counters.upstream_429),
        status.since.as_ref().map(|since| format!("\ncounted since {since}")).unwrap_or_default(),
        delayed(status, columns),
    )
}

/// Formats an epoch, as a count or, where the count was lost, as a time.
fn epoch(epoch: Epoch) -> String {
    match epoch.get() {
        counted if counted < CLOCK_EPOCHS => counted.to_string(),
        time => format!("{time} (a time, as the count was lost)"),
    }
}

fn standbys(status: &Status) -> String {
    match status.standbys {
        None => String::new(),
        Some(0) => ", no standby".to_owned(),
        Some(1) => ", 1 standby".to_owned(),
        Some(more) => format!(", {} standbys", count(more)),
    }
}

/// Returns a line on a scheduler whose configuration differs from the leader's.
fn differing(other: &DifferingScheduler) -> String {
    let scheduler = &other.scheduler;
    format!("warning: {scheduler} has another configuration: {other}; what counts depends on which scheduler leads\n")
}

/// Returns a line on a header of the upstream that could not be read.
fn unreadable(status: &Status) -> String {
    let told = |UnreadableHeader { header, value }: &_| {
        let (header, value) = (escaped(header), escaped(value));
        format!("note: the upstream's header `{header}` can't be read: `{value}`; docs/upstreams.md has what can\n")
    };
    status.unreadable.as_ref().map(told).unwrap_or_default()
}

fn remarks(status: &Status) -> String {
    status.notes.iter().map(|note| format!("note: {note}\n")).collect()
}

/// Explains what delays the first waiting request of each class, or else another one of the default class.
fn delayed(status: &Status, columns: usize) -> String {
    let waiting: Vec<&Explained> = status.first_waiting().collect();
    let of_class = |request: &Explained| match waiting.len() {
        1 => "the next request".to_owned(),
        _ => format!("the next request of class `{}`", request.class),
    };
    let line = |request: &&Explained| {
        let takes = request.limited_by.as_ref().and_then(|limit| request.takes.get(limit));
        let about = About { takes: takes.copied(), class: Some(&request.class) };
        let cause = (request.limited_by.as_ref(), request.reason, request.held_by.as_ref());
        delay(status, &of_class(request), cause, &about, columns)
    };
    if waiting.is_empty() {
        let cause = (status.limited_by.as_ref(), status.reason, status.held_by.as_ref());
        return delay(status, "the next request", cause, &About { takes: None, class: None }, columns);
    }
    waiting.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Explains what delays one request, which `subject` names.
fn delay(
    status: &Status,
    subject: &str,
    cause: (Option<&Name>, Option<Reason>, Option<&Holder>),
    about: &About<'_>,
    columns: usize,
) -> String {
    let limit = status.limits.iter().find(|limit| Some(&limit.name) == cause.0);
    match (cause, limit) {
        ((Some(name), Some(reason), Some(holder)), Some(limit)) => {
            let verb = if reason == Reason::QuotaSpent { "refused" } else { "delayed" };
            let because = sentence(reason, limit, holder, about);
            format!("{subject} is {verb} by `{name}`:\n{}", wrapped(&because, columns))
        }
        ((Some(name), ..), _) => format!("{subject} is delayed by `{name}`"),
        ((None, Some(reason), _), _) => format!("{subject} waits: {}", word(reason)),
        ((None, None, _), _) => format!("nothing delays {subject}"),
    }
}

fn rules(rules: &RulesStatus) -> String {
    let counting = match (rules.counts, &rules.by, &rules.at) {
        (false, ..) => format!("limits of the configuration; rules of revision {} have none for it\n", rules.revision),
        (true, Some(by), Some(at)) => format!("rules of revision {}, applied by {by} at {at}\n", rules.revision),
        (true, ..) => format!("rules of revision {}\n", rules.revision),
    };
    let differ: String = rules.differ.iter().map(|difference| format!("note: {difference}\n")).collect();
    let refused = rules.refused.as_ref();
    let refused =
        refused.map(|refused| format!("rules of revision {} are refused: {}\n", refused.revision, refused.reason));
    counting + &differ + &refused.unwrap_or_default()
}

fn provider(provider: &ProviderStatus) -> String {
    let received = provider
        .contract_age_ms
        .map_or("no limits received yet".to_owned(), |age_ms| format!("limits received {} ago", duration(age_ms)));
    let state = match (provider.state, &provider.reason) {
        (ProviderState::Unknown, _) => "no answer yet".to_owned(),
        (ProviderState::Ok, _) => "ok".to_owned(),
        (ProviderState::Failing, reason) => {
            format!("failing, so that the known limits count: {}", reason.as_deref().unwrap_or("unknown reason"))
        }
    };
    let notes = provider.notes.iter().map(|note| format!("note: {note}\n"));
    format!("provider {}: {state}; {received}\n{}", provider.kind, notes.collect::<String>())
}

fn limits(status: &Status) -> String {
    let row = |limit: &LimitStatus| {
        let (level, capacity) = (amount(limit.level), amount(limit.capacity));
        [limit.name.to_string(), level, capacity, limit.unit.to_string(), period(limit), next_free(limit)]
    };
    table(&["limit", "left", "of", "unit", "per", "next free"], [1, 2, 4, 5], status.limits.iter().map(row))
}

/// Returns a remark on each keyed limit that holds no request because requests lack its labels.
fn missing_labels(status: &Status) -> String {
    let lacking = status.limits.iter().filter(|limit| !limit.missing_labels.is_empty());
    let note = |limit: &LimitStatus| {
        let labels = limit.missing_labels.join("`, `");
        format!("note: no request has carried the label `{labels}`, so that `{}` holds none\n", limit.name)
    };
    lacking.map(note).collect()
}

/// Formats by how much cost estimates are off, for the kinds with the most calls.
fn corrections(corrections: &[Correction]) -> String {
    let mut most: Vec<&Correction> = corrections.iter().collect();
    most.sort_by_key(|correction| Reverse(correction.calls));
    let line = |correction: &&Correction| {
        let Correction { kind, unit, factor, calls } = correction;
        let (kind, factor, calls) = (escaped(kind), amount(*factor), count(*calls));
        format!("cost of `{kind}`: {factor} × the estimate of {unit}, learned from {calls} calls\n")
    };
    let shown: String = most.iter().take(SHOWN_CORRECTIONS).map(line).collect();
    match corrections.len().saturating_sub(SHOWN_CORRECTIONS) {
        0 => shown,
        more => format!("{shown}{more} more kinds of calls have costs of their own; --json tells all\n"),
    }
}

fn period(limit: &LimitStatus) -> String {
    match &*limit.algorithm {
        IN_FLIGHT => "in flight".to_owned(),
        QUOTA if limit.period_ms <= 0.0 => "in all".to_owned(),
        _ => duration(limit.period_ms),
    }
}

fn next_free(limit: &LimitStatus) -> String {
    match limit.likely_free_ms {
        Some(likely) => format!("~ {}", duration(likely)),
        None if limit.next_free_ms <= 0.0 => "now".to_owned(),
        None => duration(limit.next_free_ms),
    }
}

/// Returns further notes on a limit, a sentence each.
fn notes(limit: &LimitStatus) -> Vec<String> {
    let margin = (limit.margin > 0.0)
        .then(|| format!("a margin of {} is never used, because clocks and delays differ", amount(limit.margin)));
    let in_flight = (limit.algorithm == IN_FLIGHT).then(|| {
        format!("a call holds its place until it is settled, or for its TTL of {}", duration(limit.period_ms))
    });
    let keys = limit.key.as_ref().map(|key| {
        let keys = if limit.keys == 1 { "1 key is".to_owned() } else { format!("{} keys are", count(limit.keys)) };
        format!("{keys} in use; this is the fullest, `{}`", escaped(key))
    });
    let pauses = if limit.paused_by == Some(PauseCause::Operator) { "an operator" } else { "the upstream" };
    let because = limit.pause.as_ref().map(|pause| format!(": {pause}")).unwrap_or_default();
    let frozen =
        (limit.frozen_ms > 0.0).then(|| format!("{pauses} pauses it for {}{because}", duration(limit.frozen_ms)));
    let learned = limit.learned.map(|learned| {
        format!(
            "the upstream gives {:.1} % of this rate; {} more are held back",
            100.0 * learned.rate,
            amount(learned.held_back)
        )
    });
    let states = limit.reported.and_then(|report| report.states);
    let (file, of) = (amount(limit.capacity), period(limit));
    let states = states.map(|states| format!("the upstream states {} in {of}, the file says {file}", amount(states)));
    let allows = limit.reported.and_then(|report| report.allows);
    let allows = allows
        .map(|allows| format!("the upstream seems to allow about {} in {of}, the file says {file}", amount(allows)));
    let reported = limit.reported.and_then(reported);
    let shadow = limit.shadow.map(|shadow| {
        format!(
            "in shadow mode: of {} calls, {} would wait and {} be refused",
            count(shadow.calls),
            count(shadow.would_wait),
            count(shadow.would_refuse)
        )
    });
    let found = limit.found.as_ref().map(found);
    let all = [found, margin, in_flight, keys, frozen, learned, states, allows, reported, shadow];
    let all = all.into_iter().flatten().chain(limit.notes.iter().cloned());
    all.map(|note| format!("`{}`: {note}", limit.name)).collect()
}

fn found(found: &DiscoveredStatus) -> String {
    let by = match &*found.by {
        "headers" => "the upstream's headers tell of it",
        "refusals" => "the upstream has refused faster calls, or was not called faster yet",
        "in-flight" => "the upstream has refused more calls in flight, or was slower with more",
        other => other,
    };
    let (routes, keys) = (list(" for routes ", &found.routes), list(", each value of ", &found.key));
    format!("it is not configured: found {} ago{routes}{keys}, because {by}", duration(found.for_ms))
}

/// Returns `beginning` followed by `names`, or an empty text if there are none.
fn list(beginning: &str, names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", escaped(name))).collect();
    if names.is_empty() { String::new() } else { format!("{beginning}{}", names.join(", ")) }
}

fn reported(report: UpstreamReport) -> Option<String> {
    let capacity = report.capacity.zip(report.capacity_for_ms);
    let capacity =
        capacity.map(|(capacity, since)| format!("a capacity of {} since {}", amount(capacity), duration(since)));
    let others = (report.others > 0.0).then(|| format!("{} used by others", amount(report.others)));
    let held_back = (report.held_back > 0.0).then(|| format!("{} held back for them", amount(report.held_back)));
    let slack = report.window_slack_ms.unwrap_or_default();
    let ends = report.window_ends_ms.map(|ends| match slack > 0.0 {
        true => format!("a window that ends in {}, or up to {} earlier", duration(ends), duration(slack)),
        false => format!("a window that ends in {}", duration(ends)),
    });
    let all: Vec<String> = [capacity, others, held_back, ends].into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("the upstream's headers tell of {}", all.join(", ")))
}

fn classes(status: &Status) -> String {
    let rows = status.classes.iter().map(|class| {
        let oldest = if class.queued == 0 { "–".to_owned() } else { duration(class.oldest_ms) };
        [class.name.to_string(), count(class.queued), oldest]
    });
    table(&["class", "waiting", "longest wait"], 1..3, rows)
}
