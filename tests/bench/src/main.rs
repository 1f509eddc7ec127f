//! Measures a bare echo, the scheduler and the SDK, side by side on one NATS server.
//!
//! Absolute figures depend on the machine, so every figure comes with its ratio to the echo,
//! measured in alternating rounds of the same run. The scheduler is compared with an echo under the
//! same load generator. The SDK is compared with an echo under the client library's plain
//! `request`.

mod case;
mod echo;
mod flood;
mod held;
mod nginx;
mod plain;
mod proxied;
mod round;
mod sdk;
mod table;
mod thread;

use anyhow::{Context, bail};
use case::{CASES, Case, Measured, PREFIX, Path};
use clap::Parser;
use echo::Echo;
use indicatif::{ProgressBar, ProgressStyle};
use rampmeter_nats_server::{Binary, Options, Server};
use rampmeter_protocol::suggestion::quoted;
use rampmeter_scheduler::logging::{self, LogFormat};
use rampmeter_scheduler::{config, serve};
use round::{Round, median};
use std::io::{Write, stdout};
use std::path::Path as FilePath;
use std::time::Duration;

/// The allocator of the scheduler's binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures permits a second side by side with a bare echo.
#[derive(Debug, clap::Parser)]
#[command(name = "rampmeter-bench")]
struct BenchArgs {
    /// The time to measure each path of each case, in all its rounds.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// The number of alternating rounds; figures are medians over them.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Measure only cases with this text in their name, such as `sdk` or `16×64`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Measure calls of an API through a proxy, side by side with the same calls without it and
    /// through nginx, if that is installed; and the memory of 10 000 held requests.
    #[arg(long, conflicts_with_all = ["only", "nats"])]
    proxy: bool,
    /// A NATS server to measure on, in place of a private one.
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// Record one request in a hundred, and send the spans to the collector at this address.
    #[arg(long, value_name = "URL", conflicts_with = "proxy")]
    otlp: Option<String>,
}

/// Measures all cases and prints them.
///
/// # Errors
/// If there is no NATS server, or an answer is not a permit.
#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let args = BenchArgs::parse();
    logging::start(LogFormat::default(), "warn")?;
    let done = run(args).await;
    logging::finish(None);
    done
}

async fn run(args: BenchArgs) -> anyhow::Result<()> {
    if args.proxy {
        return proxied::run(proxied::Rounds { seconds: args.seconds, rounds: args.rounds }, args.json).await;
    }
    let names: Vec<String> = CASES.iter().map(ToString::to_string).collect();
    if !names.iter().any(|name| name.contains(&args.only)) {
        bail!("no case has `{}` in its name; there are {}", args.only, quoted(names.iter().map(String::as_str)));
    }
    let mut private = None;
    let url = match &args.nats {
        Some(url) => url.clone(),
        None => private.insert(Server::start(&Binary::find().await?, Options::default()).await?).url().to_owned(),
    };
    let measured = measure_all(&url, &args).await?;
    if let Some(mut server) = private {
        server.stop().await?;
    }
    match args.json {
        true => json(&serde_json::json!({ "cases": measured })),
        false => Ok(write!(stdout(), "{}", table::render(&measured))?),
    }
}

/// Prints a value as JSON.
fn json(value: &serde_json::Value) -> anyhow::Result<()> {
    Ok(writeln!(stdout(), "{value:#}")?)
}

async fn measure_all(url: &str, args: &BenchArgs) -> anyhow::Result<Vec<Measured>> {
    let scheduler =
        running::start(config::parse(FilePath::new("bench"), &configuration(url, args.otlp.as_deref()))?).await?;
    scheduler.ready().await;
    let echo = Echo::start(url).await?;
    let progress = progress(args);
    let mut measured = Vec::new();
    for case in CASES.iter().filter(|case| case.to_string().contains(&args.only)) {
        progress.set_message(case.to_string());
        measured.extend(measure(url, case, args, &progress).await.with_context(|| case.to_string())?);
    }
    progress.finish_and_clear();
    echo.stop().await?;
    scheduler.stop().await?;
    Ok(measured)
}

/// Measures one case. The echo comes first in every round.
async fn measure(url: &str, case: &Case, args: &BenchArgs, progress: &ProgressBar) -> anyhow::Result<Vec<Measured>> {
    let length = Duration::from_secs_f64(args.seconds / f64::from(args.rounds));
    let (mut echoes, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        echoes.push(one_round(url, case, Path::Echo, length).await?);
        ours.push(one_round(url, case, case.path, length).await?);
        progress.inc(1);
    }
    let ratios = ours.iter().zip(&echoes).map(|(ours, echo)| ours.per_second / echo.per_second).collect();
    Ok(vec![case.measured(Path::Echo, &echoes, 1.0), case.measured(case.path, &ours, median(ratios))])
}

async fn one_round(url: &str, case: &Case, path: Path, length: Duration) -> anyhow::Result<Round> {
    let subject = match path {
        Path::Echo => echo::SUBJECT.to_owned(),
        Path::Scheduler | Path::Sdk => format!("{PREFIX}.permit.{}", case.resource()),
    };
    match (case.path, path) {
        (_, Path::Sdk) => sdk::round(url, case, length).await,
        (Path::Sdk, Path::Echo | Path::Scheduler) => plain::round(url, &subject, case, length).await,
        (Path::Echo | Path::Scheduler, Path::Echo | Path::Scheduler) => {
            flood::round(url, &subject, case, path, length).await
        }
    }
}

/// A configuration with a resource for each case and three limits that are never reached.
/// Each case has its own resource, so that its permits use no other case's bound.
fn configuration(url: &str, otlp: Option<&str>) -> String {
    let limit = |name: &str, unit: &str| {
        format!("[[resource.limit]]\nname = \"{name}\"\nunit = \"{unit}\"\ncapacity = 1000000000\nperiod = \"1s\"\n")
    };
    let limits =
        [("a", "requests"), ("b", "processing-units"), ("c", "processing-units")].map(|(name, unit)| limit(name, unit));
    let resources = CASES
        .iter()
        .map(|case| format!("[[resource]]\nname = \"{}\"\nstart = \"full\"\n{}", case.resource(), limits.concat()));
    let resources: String = resources.collect();
    let telemetry = otlp.map(|url| format!("[telemetry]\notlp = \"{url}\"\nsample = 0.01\n")).unwrap_or_default();
    format!("[nats]\nurl = \"{url}\"\nprefix = \"{PREFIX}\"\n[http]\nlisten = \"\"\n{telemetry}{resources}")
}

fn progress(args: &BenchArgs) -> ProgressBar {
    let bar =
        if args.json { ProgressBar::hidden() } else { ProgressBar::new(CASES.len() as u64 * u64::from(args.rounds)) };
    bar.with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("a valid template"))
}
