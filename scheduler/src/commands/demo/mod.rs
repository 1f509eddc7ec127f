//! `rampmeter demo`: the same workers against the same limits, first without and then with permits.
//!
//! A phase runs the `workers` of a `scenario` against a fresh upstream, and computes `figures`. The second phase has
//! permits of a scheduler, whose web page a browser may show. `progress` is shown meanwhile, `report` at the end.

mod figures;
mod progress;
mod report;
mod scenario;
mod workers;

use super::output;
use super::process::embedded_nats::PrivateServer;
use super::process::open_files::allow_many_files;
use super::process::signal::asked_to_stop;
use crate::running;
use anyhow::Context;
use figures::{Comparison, Figures, Observation, Waits};
use futures::future::{join_all, try_join_all};
use progress::Progress;
use rampmeter_upstream::Upstream;
use rampmeter_worker_sdk::{Client, Resource};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The longest wait for the scheduler. It leads within a second, unless the machine is under full load.
const READY: Duration = Duration::from_secs(20);
/// The number of connections that the workers share, as if they ran in this many processes.
const PROCESSES: usize = 8;
/// The interval of the upstream's snapshots.
const TICK: Duration = Duration::from_millis(200);
/// The program that opens an address in the user's browser.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// What `demo` takes.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// The length of each of the two phases, in seconds.
    #[arg(long, value_name = "S", default_value_t = 25, value_parser = clap::value_parser!(u64).range(2..=3600))]
    seconds: u64,
    /// The number of workers; all beyond 200 are bulk.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    workers: u32,
    /// The seed of pauses, back-off and response times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Open the scheduler's web page in a browser.
    #[arg(long)]
    open: bool,
    /// Print one JSON object instead of a table, and no progress.
    #[arg(long)]
    json: bool,
}

/// Shows the progress of both phases, and then their figures side by side.
///
/// # Errors
/// If there is no nats-server, a part of the demo fails to start, a call fails except by 429, or on a signal.
pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    allow_many_files();
    let mut progress = Progress::new(args.json);
    // If the comparison is dropped, nothing keeps running.
    let comparison = tokio::select! {
        comparison = compare(&args, &mut progress) => comparison?,
        signal = asked_to_stop() => anyhow::bail!("the demo was ended by {}", signal?),
    };
    drop(progress);
    if args.json {
        return output::json(&comparison);
    }
    let program = std::env::args().next().unwrap_or_else(|| "rampmeter".to_owned());
    output::line(report::side_by_side(&comparison))?;
    output::line(format_args!("\n{}", report::explanation(&comparison, &program)))
}

/// Runs both phases. NATS starts before them, so that a missing nats-server shows at once.
async fn compare(args: &DemoArgs, progress: &mut Progress) -> anyhow::Result<Comparison> {
    progress.say(&scenario::introduction(args.workers, args.seconds));
    progress.begin("starting NATS and a scheduler");
    let PrivateServer { mut server, url } = PrivateServer::start(None, false).await?;
    let scheduler = running::start(scenario::configuration(&url)?).await?;
    timeout(READY, scheduler.ready()).await.context("the demo's scheduler did not get ready")?;
    if let Some(address) = scheduler.http() {
        let url = format!("http://{address}/#/resource/{}", scenario::RESOURCE);
        progress.say(&format!("The scheduler's web page, as long as the demo runs: {url}"));
        if args.open && !open_with(OPENER, &url) {
            progress.say("This machine has no program that opens it in a browser.");
        }
    }
    let uncoordinated = phase("uncoordinated", args, &[None], progress).await?;
    let coordinated = with_permits(&url, args, progress).await?;
    scheduler.stop().await?;
    server.stop().await?;
    Ok(Comparison { uncoordinated, coordinated })
}

/// Runs the second phase, whose workers share some connections.
async fn with_permits(nats_url: &str, args: &DemoArgs, progress: &mut Progress) -> anyhow::Result<Figures> {
    let clients = try_join_all((0..PROCESSES).map(|_| Client::connect(nats_url))).await?;
    let resources = clients.iter().map(|client| client.resource(scenario::RESOURCE).map(Some));
    let figures = phase("with permits", args, &resources.collect::<Result<Vec<_>, _>>()?, progress).await?;
    // Unused permits are returned.
    join_all(clients.iter().map(Client::close)).await;
    Ok(figures)
}

/// Runs one phase against an upstream of its own, with full buckets.
async fn phase(
    name: &'static str,
    args: &DemoArgs,
    resources: &[Option<Resource>],
    progress: &mut Progress,
) -> anyhow::Result<Figures> {
    progress.begin(name);
    let upstream = Upstream::start(scenario::upstream(args.seed)?).await?;
    let (waits, length) = (Arc::new(Waits::new()), Duration::from_secs(args.seconds));
    let mut observation = Observation::new(upstream.stats());
    let mut workers = workers::start(args.workers, args.seed, &upstream.url(), resources, &waits);
    let mut ticks = interval(TICK);
    // A late snapshot delays the next one too: two in quick succession would not show a burst.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    // The last snapshot is taken before the workers stop.
    let figures = loop {
        tokio::select! {
            Some(failed) = workers.join_next() => match failed?.with_context(|| format!("a worker failed ({name})"))? {},
            _ = ticks.tick() => {}
        }
        let now = upstream.stats();
        let elapsed = now.uptime;
        observation.add(now);
        let figures = observation.figures(&waits);
        if elapsed >= length {
            break figures;
        }
        progress.show(name, elapsed, length, &figures);
    };
    workers.shutdown().await;
    upstream.stop().await;
    Ok(figures)
}

/// Opens `url`. Returns `false` if this machine has no such program, which the demo does not need.
fn open_with(program: &str, url: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
