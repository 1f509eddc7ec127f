//! `rampmeter jobs metrics`: gauges of queues for Prometheus, whose NATS account is not that of schedulers.

use super::access::open;
use crate::commands::nats_arg::NatsArg;
use crate::commands::output;
use crate::commands::process::signal::asked_to_stop;
use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rampmeter_front::metrics::exposition;
use rampmeter_front::metrics::samples::{Counter, Gauge, Labels, Samples};
use rampmeter_jobs::{GroupStatus, Queue};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

/// How long counts are repeated, since counting takes some messages for each group with a running job.
const FRESH: Span = Span::from_secs(5);
/// Timeout for counting a queue. By default, Prometheus waits for ten seconds.
const COUNT_TIMEOUT: Duration = Duration::from_secs(3);
/// The label of jobs without a class, as in subjects.
const NO_CLASS: &str = "-";
/// Bound on the classes with their own gauges. Further ones, which publishers may invent, share `OTHER_CLASSES`.
const MAX_CLASSES: usize = 32;
const OTHER_CLASSES: &str = "other";

/// What `jobs metrics` takes.
#[derive(Debug, clap::Args)]
pub(super) struct MetricsArgs {
    /// The queues.
    #[arg(required = true)]
    queues: Vec<Name>,
    /// The address of /metrics.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9482")]
    listen: SocketAddr,
    #[command(flatten)]
    nats: NatsArg,
}

struct Gauges {
    queues: Vec<Queue>,
    clock: Clock,
    /// The last page with its time. Locked while a new one is made, so that two readers do not count at once.
    last: Mutex<Option<(Time, String)>>,
}

/// The counts of one queue, or `None` if it could not be counted.
struct Counts {
    queue: String,
    groups: Option<(Vec<GroupStatus>, u64)>,
}

#[derive(Clone, Copy, Default)]
struct ClassCounts {
    delayed: usize,
    running: usize,
    dead: usize,
    groups: usize,
}

pub(super) async fn run(args: MetricsArgs) -> anyhow::Result<()> {
    let MetricsArgs { queues: names, listen, nats } = args;
    let mut queues = Vec::new();
    for name in &names {
        queues.push(open(&nats, name).await?);
    }
    let listener = TcpListener::bind(listen).await.with_context(|| format!("can't listen at {listen}"))?;
    output::line(format_args!("gauges of jobs at http://{}/metrics", listener.local_addr()?))?;
    let gauges = Arc::new(Gauges { queues, clock: Clock::start(), last: Mutex::default() });
    let app = Router::new().route("/metrics", get(page)).with_state(gauges);
    axum::serve(listener, app)
        .with_graceful_shutdown(async {
            asked_to_stop().await.ok();
        })
        .await?;
    Ok(())
}

async fn page(State(gauges): State<Arc<Gauges>>) -> Response {
    let mut last = gauges.last.lock().await;
    let fresh = last.as_ref().filter(|(at, _)| gauges.clock.now().since(*at) < FRESH);
    let text = match fresh {
        Some((_, text)) => text.clone(),
        None => {
            let text = render(&gauges.count().await);
            *last = Some((gauges.clock.now(), text.clone()));
            text
        }
    };
    exposition::respond(&text)
}

impl Gauges {
    async fn count(&self) -> Vec<Counts> {
        let mut all = Vec::new();
        for queue in &self.queues {
            let counting =
                async { Ok::<_, rampmeter_jobs::QueueError>((queue.status().await?, queue.repeated().await?)) };
            let groups = tokio::time::timeout(COUNT_TIMEOUT, counting).await.ok().and_then(Result::ok);
            all.push(Counts { queue: queue.name().to_owned(), groups });
        }
        all
    }
}

fn render(all: &[Counts]) -> String {
    let mut registry = Registry::with_prefix("rampmeter");
    let up = all.iter().map(|counts| {
        let is_counted = f64::from(u8::from(counts.groups.is_some()));
        (of_queue(counts), Gauge::new(is_counted))
    });
    registry.register("jobs_up", "1 while the queue can be counted", Samples(up.collect()));
    let (mut jobs, mut waiting, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for counts in all {
        let Some((groups, duplicates)) = &counts.groups else { continue };
        repeated.push((of_queue(counts), Counter::new(*duplicates)));
        for (class, ClassCounts { delayed, running, dead, groups }) in by_class(groups) {
            let of_class: Labels = of_queue(counts).into_iter().chain([("class", class)]).collect();
            for (state, count) in [("delayed", delayed), ("running", running), ("dead", dead)] {
                let labels = of_class.iter().cloned().chain([("state", state.to_owned())]).collect();
                jobs.push((labels, Gauge::new(count as f64)));
            }
            waiting.push((of_class, Gauge::new(groups as f64)));
        }
    }
    registry.register("jobs", "Jobs by state; delayed ones wait for their permit or their turn", Samples(jobs));
    registry.register("job_groups", "Groups with jobs that wait or run", Samples(waiting));
    registry.register("jobs_repeated", "Jobs that were dropped because their ids were known", Samples(repeated));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string can always be written to");
    text
}

fn of_queue(counts: &Counts) -> Labels {
    vec![("queue", counts.queue.clone())]
}

fn by_class(groups: &[GroupStatus]) -> BTreeMap<String, ClassCounts> {
    // A queue without jobs has gauges too, which are zero.
    let mut classes = BTreeMap::from([(NO_CLASS.to_owned(), ClassCounts::default())]);
    for group in groups {
        let name = group.class.as_deref().unwrap_or(NO_CLASS);
        let is_told_apart = classes.contains_key(name) || classes.len() < MAX_CLASSES;
        let class = classes.entry(if is_told_apart { name } else { OTHER_CLASSES }.to_owned()).or_default();
        class.delayed += group.delayed;
        class.running += group.running;
        class.dead += group.dead;
        class.groups += usize::from(group.delayed + group.running > 0);
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `metrics::MAX_CLASSES`.
    #[test]
    fn publishers_make_a_bounded_number_of_classes() {
        let group = |number: usize| {
            let mut group = GroupStatus::default();
            (group.class, group.dead) = (Some(number.to_string()), 1);
            group
        };
        let groups: Vec<GroupStatus> = (0..100).map(group).collect();
        let classes = by_class(&groups);
        assert_eq!((classes.len(), classes[OTHER_CLASSES].dead), (33, 100 - 31));
    }
}
