//! `rampmeter demo`: the same workers against the same limits, first without and then with permits.
//!
//! [`compare`] runs the whole demo. A `phase` runs a `fleet` of `worker`s against a fresh upstream
//! and keeps an `observation` of it. `scenario` has the limits, and `class` the kinds of workers.
//! `coordination` is NATS and the scheduler. `figures` is the result, `side_by_side` its table, and
//! `notes` explains it. `browser` shows the scheduler's web page meanwhile.

mod api;
mod backoff;
mod browser;
mod class;
mod coordination;
mod figures;
mod fleet;
mod notes;
mod observation;
mod options;
mod phase;
mod progress;
mod scenario;
mod side_by_side;
mod text;
mod waits;
mod worker;

pub use class::{ByClass, Class};
pub use figures::{Comparison, Figures, Wait};
pub use options::Options;
pub use progress::Progress;

use super::output;
use super::process::open_files::allow_many_files;
use super::process::signal::asked_to_stop;
use coordination::Coordination;
use phase::Phase;
use worker::Manner;

/// What `demo` takes.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    #[command(flatten)]
    options: Options,
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
/// The errors of [`compare`], and a signal that ends the demo early.
pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let mut progress = if args.json { Progress::silent() } else { Progress::live() };
    let comparison = tokio::select! {
        comparison = compare_and_show(args.options, &mut progress, args.open) => comparison?,
        signal = asked_to_stop() => anyhow::bail!("the demo was ended by {}", signal?),
    };
    drop(progress);
    print(&comparison, args.json)
}

fn print(comparison: &Comparison, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(comparison);
    }
    let program = std::env::args().next().unwrap_or_else(|| "rampmeter".to_owned());
    output::line(side_by_side::render(comparison))?;
    output::line(format_args!("\n{}", notes::render(comparison, &program)))
}

/// Runs both phases, each against an upstream with full buckets. It takes about twice
/// [`Options::seconds`].
///
/// If the future is dropped before its end, nothing keeps running.
///
/// # Errors
/// If there is no nats-server, a part of the demo cannot be started, or a call fails with anything
/// but 429.
pub async fn compare(options: Options, progress: &mut Progress) -> anyhow::Result<Comparison> {
    compare_and_show(options, progress, false).await
}

/// Runs [`compare`]. If `opens` is set, a browser shows the web page meanwhile.
async fn compare_and_show(options: Options, progress: &mut Progress, opens: bool) -> anyhow::Result<Comparison> {
    allow_many_files();
    progress.introduce(&scenario::introduction(options));
    progress.say("starting NATS and a scheduler");
    // NATS starts before the first phase, so that a missing nats-server shows at once.
    let coordination = Coordination::start().await?;
    if let Some(url) = coordination.page() {
        progress.introduce(&format!("The scheduler's web page, as long as the demo runs: {url}"));
        if opens && !browser::open(&url) {
            progress.introduce("This machine has no program that opens it in a browser.");
        }
    }
    let uncoordinated = Phase { name: "uncoordinated", options }.run(&[Manner::Alone], progress).await?;
    let coordinated = with_permits(&coordination, options, progress).await?;
    coordination.stop().await?;
    Ok(Comparison { uncoordinated, coordinated })
}

async fn with_permits(
    coordination: &Coordination,
    options: Options,
    progress: &mut Progress,
) -> anyhow::Result<Figures> {
    let processes = coordination.connect().await?;
    let figures = Phase { name: "with permits", options }.run(&processes.manners()?, progress).await?;
    processes.close().await;
    Ok(figures)
}
