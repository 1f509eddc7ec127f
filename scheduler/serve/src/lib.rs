//! Runs the core of each resource, on at most one permit thread per processor; all other work has two threads.
//!
//! [`permits`] answers requests. [`leadership`] elects leaders and keeps their state. [`limits`] decides which
//! limits are in force. [`discovery`] announces what is served. Imports go one way: from leadership to
//! permits, and from permits to limits and messages.

pub mod audit;
pub mod connection;
pub mod context;
pub mod denials;
pub mod discovery;
mod forecast;
pub mod health;
pub mod leadership;
pub mod limits;
pub mod messages;
pub mod peers;
pub mod permits;
pub mod stop;
pub mod telemetry;
mod wall_time;

use anyhow::{Context, anyhow};
use connection::{connect_noting, state_keys, warn_of_open_files};
use context::ProcessContext;
use denials::Denials;
use discovery::Announcement;
use health::{Health, ServingState};
use leadership::peer_discovery::keep_calling;
use leadership::resource_task::{PublishedResource, ResourceTask};
use limits::limit_sources::LimitSources;
use limits::rulebook::RulebookReceiver;
use peers::Peers;
use permits::loop_handle::{LoopPublisher, LoopWatch, Reporter};
use permits::permit_thread::{Ended, PermitThreads};
use permits::watch::stall_detector::ProcessWatch;
use rampmeter_account::SentinelHub;
use rampmeter_config::{Config, Configured, NatsTable};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_store::Store;
use rampmeter_telemetry::{Exporter, Spans};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;
use stop::Stop;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a graceful stop may take.
const DRAIN: Duration = Duration::from_secs(5);

/// A running scheduler. Dropping it stops it without a handover; see [`hand_over`](Scheduler::hand_over).
pub struct Scheduler {
    stop: watch::Sender<bool>,
    work: Work,
    announcement: Announcement,
    view: Arc<SchedulerView>,
    exporter: Option<Exporter>,
}

/// The parts of a running scheduler that its HTTP front reads.
#[derive(Debug)]
pub struct SchedulerView {
    /// The shared state of the process. Its connection counts for readiness.
    pub context: ProcessContext,
    /// The rules in force, and why later ones were refused.
    pub rules: RulebookReceiver,
    /// A reporter for each resource.
    pub reporters: Vec<Reporter>,
    /// The resources of this scheduler's configuration, with the loops of those that it leads.
    pub led: BTreeMap<Name, LoopWatch>,
    /// The settings of the connection.
    pub nats: NatsTable,
    /// Becomes `true` when the process is to stop.
    pub stopping: Stop,
}

/// Starts leading the resources in `config`, or standing by for them.
///
/// # Errors
/// If NATS can't be reached or is too old, or the KV bucket can't be made.
pub async fn start(config: Config) -> anyhow::Result<Scheduler> {
    let leader = process_name();
    let subjects = config.nats.subjects();
    let nats = config.nats.clone();
    warn_of_open_files(&nats);
    let keys = state_keys(&nats)?;
    if keys.accepts_unsigned() {
        tracing::warn!("state without a signature counts, too; remove the line `unsigned` from `nats.state_key_file`");
    }
    let clock = Clock::start();
    let (spans, exporter) = telemetry::start(config.telemetry.as_ref(), clock, &leader)?.unzip();
    let denials = Denials::default();
    let (stop, stopping) = watch::channel(false);
    let client = connect_noting(&denials, Some(&stopping), &nats, &leader).await?;
    let store = Store::open(&client, &nats.prefix, nats.replicas).await;
    let store = store.map_err(|error| anyhow!(denials.reason(&[], &error)))?.with_keys(keys);
    let rules = limits::rulebook::keep(client.clone(), denials.clone(), nats.prefix.clone(), nats.replicas);
    tokio::spawn(limits::rules_desk::serve(client.clone(), subjects.clone()).await?);
    let (permits, permits_ended) = start_threads(&config, &leader, &stopping).await?;
    let process = ProcessWatch::start(clock)?;
    let providers =
        config.resources.iter().map(|configured| open(configured, clock)).collect::<anyhow::Result<Vec<_>>>()?;
    let known = config.resources.iter().filter_map(Configured::resource).collect();
    let (loops, reporters) = loops_of(&config.resources);
    let context = ProcessContext {
        client,
        denials,
        store,
        subjects,
        health: Arc::new(Health::new(config.resources.iter().map(Configured::name))),
        peers: Arc::new(Peers::new(&leader)),
        differences: Arc::default(),
        clock,
        process,
        leader,
        spans,
    };
    let announcement = Announcement::start(context.clone(), reporters.clone(), known).await?;
    tokio::spawn(keep_calling(context.clone(), stopping.clone()));
    let led = loops.iter().map(|(_, led)| led.clone());
    let led = config.resources.iter().map(Configured::name).cloned().zip(led).collect();
    let resources = config.resources.into_iter().zip(providers).zip(loops);
    let leaders = spawn_resources(&context, &permits, &announcement, &rules, resources, &stopping);
    let view = Arc::new(SchedulerView { context, rules, reporters, led, nats, stopping });
    let work = Work { leaders, permits_ended };
    Ok(Scheduler { stop, work, announcement, view, exporter })
}

/// Starts a task for each resource, which leads it or stands by.
fn spawn_resources(
    context: &ProcessContext,
    permits: &PermitThreads,
    announcement: &Announcement,
    rules: &RulebookReceiver,
    resources: impl Iterator<Item = ((Configured, Option<SentinelHub>), (LoopPublisher, LoopWatch))>,
    stopping: &Stop,
) -> JoinSet<anyhow::Result<()>> {
    let mut leaders = JoinSet::new();
    for ((configured, provider), led) in resources {
        let mut limits = LimitSources::new(rules.clone(), configured.spec.clone(), provider.is_some());
        limits.notes.clone_from(&configured.uncosted);
        let shown = PublishedResource { known: announcement.known(), context: context.clone() };
        let (context, permits, stop) = (context.clone(), permits.clone(), stopping.clone());
        let task = ResourceTask { context, permits, shown, led, limits, stop };
        leaders.spawn(task.run(configured, provider));
    }
    leaders
}

/// Creates the channel on which each resource's loop is published, and a reporter that reads from it.
fn loops_of(resources: &[Configured]) -> (Vec<(LoopPublisher, LoopWatch)>, Vec<Reporter>) {
    let loops: Vec<(LoopPublisher, LoopWatch)> = resources.iter().map(|_| watch::channel(None)).collect();
    let reporter = |(configured, (_, led)): (&Configured, &(LoopPublisher, LoopWatch))| {
        Reporter::new(configured.name().clone(), led.clone())
    };
    let reporters = resources.iter().zip(&loops).map(reporter).collect();
    (loops, reporters)
}

async fn start_threads(config: &Config, leader: &str, stopping: &Stop) -> anyhow::Result<(PermitThreads, Ended)> {
    let connecting = |number| {
        let (nats, name) = (config.nats.clone(), format!("{leader}-permits-{number}"));
        let stopping = stopping.clone();
        async move { connect_noting(&Denials::default(), Some(&stopping), &nats, &name).await }
    };
    PermitThreads::start(permit_threads(config.resources.len()), connecting).await
}

fn permit_threads(resources: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    resources.clamp(1, cores)
}

fn open(configured: &Configured, clock: Clock) -> anyhow::Result<Option<SentinelHub>> {
    let opened = configured.provider.as_ref().map(|settings| SentinelHub::open(settings, clock)).transpose();
    opened.with_context(|| format!("the provider of resource `{}`", configured.name()))
}

impl Scheduler {
    /// Returns the parts that the HTTP front reads.
    #[must_use]
    pub fn view(&self) -> &Arc<SchedulerView> {
        &self.view
    }

    /// Returns the sender of spans, if this process sends any.
    #[must_use]
    pub fn spans(&self) -> Option<Spans> {
        self.view.context.spans.clone()
    }

    /// Returns when every resource is led, by this scheduler or another.
    pub async fn ready(&self) {
        self.view.context.health.ready().await;
    }

    /// Waits until every resource is led, and returns the leaders, `None` for this scheduler.
    pub fn leaders(&self) -> impl Future<Output = Vec<(Name, Option<String>)>> + use<> {
        let view = self.view.clone();
        async move {
            let ProcessContext { health, peers, .. } = &view.context;
            health.ready().await;
            let leader = |(name, duty): (Name, ServingState)| {
                let other = (!matches!(duty, ServingState::Leading { .. })).then(|| peers.leader_of(&name));
                (name, other)
            };
            health.duties().into_iter().map(leader).collect()
        }
    }

    /// Returns the reason once a part ends that should keep running. The process should then be replaced.
    pub async fn broken(&mut self) -> anyhow::Error {
        self.work.broken().await
    }

    /// Hands every resource over: ends readiness, sends waiting requests elsewhere, and writes the state.
    ///
    /// # Errors
    /// If that takes longer than 5 s.
    pub async fn hand_over(&mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let handed_over = tokio::time::timeout(DRAIN, self.work.done()).await;
        self.announcement.withdraw().await;
        handed_over.map_err(|_| anyhow!("the handover took longer than {DRAIN:?}; some state may be older"))
    }

    /// Sends the last spans.
    pub async fn finish(self) {
        if let Some(exporter) = self.exporter {
            exporter.stop().await;
        }
    }
}

/// The tasks and threads that run until the process stops.
struct Work {
    leaders: JoinSet<anyhow::Result<()>>,
    permits_ended: Ended,
}

impl Work {
    /// Returns the reason once any of them ends.
    async fn broken(&mut self) -> anyhow::Error {
        tokio::select! {
            Some(ended) = self.leaders.join_next() => match ended {
                Ok(Ok(())) => anyhow!("a resource is not led any more"),
                Ok(Err(error)) => error,
                Err(panic) => panic.into(),
            },
            () = self.permits_ended.any() => anyhow!("a permit thread has ended"),
        }
    }

    /// Returns once all of them have ended.
    async fn done(&mut self) {
        while self.leaders.join_next().await.is_some() {}
        self.permits_ended.all().await;
    }
}

/// Returns a name that no other scheduler process has.
fn process_name() -> String {
    format!("scheduler-{}-{:08x}", std::process::id(), rand::random::<u32>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    /// Why work with this leader is broken, while its permit threads go on.
    async fn broken(leader: impl Future<Output = anyhow::Result<()>> + Send + 'static) -> String {
        let (_goes_on, end) = oneshot::channel();
        let mut work = Work { leaders: JoinSet::new(), permits_ended: Ended([end].into_iter().collect()) };
        work.leaders.spawn(std::future::pending());
        work.leaders.spawn(leader);
        work.broken().await.to_string()
    }

    #[tokio::test]
    async fn work_is_broken_when_a_leader_ends_or_panics() {
        assert_eq!(broken(async { Err(anyhow!("its loop has ended")) }).await, "its loop has ended");
        assert_eq!(broken(async { Ok(()) }).await, "a resource is not led any more");
        assert!(broken(async { panic!("a bug") }).await.contains("a bug"));
    }

    #[tokio::test]
    async fn work_is_broken_when_a_permit_thread_ends() {
        let (ending, end) = oneshot::channel();
        let mut work = Work { leaders: JoinSet::new(), permits_ended: Ended([end].into_iter().collect()) };
        work.leaders.spawn(std::future::pending());
        drop(ending);
        assert_eq!(work.broken().await.to_string(), "a permit thread has ended");
    }
}
