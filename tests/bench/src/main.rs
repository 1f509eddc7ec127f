//! Measures a bare echo, the scheduler and the SDK, side by side on one NATS server.
//!
//! Absolute figures depend on the machine, so every figure comes with its ratio to the echo,
//! measured in alternating rounds of the same run. The scheduler is compared with an echo under the
//! same load generator. The SDK is compared with an echo under the client library's plain
//! `request`.

mod case;
mod echo;
mod figures;
mod load;
mod nginx;
mod proxy;

use anyhow::{Context, ensure};
use case::{Case, Measured, Path};
use clap::Parser;
use figures::median;
use indicatif::{ProgressBar, ProgressStyle};
use load::PREFIX;
use proxy::Measurements;
use rampmeter_config as config;
use rampmeter_nats_server::{Binary, Options, Server};
use rampmeter_protocol::suggestion::quoted;
use rampmeter_scheduler::commands::process::logging::{self, LogFormat};
use rampmeter_scheduler::commands::process::open_files::allow_many_files;
use rampmeter_scheduler::commands::process::signal::asked_to_stop;
use rampmeter_scheduler::running;
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

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let args = BenchArgs::parse();
    logging::start(LogFormat::default(), "warn")?;
    let done = if args.proxy { compare_proxy(&args).await } else { compare_permits(&args).await };
    logging::finish(None);
    done
}

/// Prints what was measured before a failure or a signal, too.
async fn compare_proxy(args: &BenchArgs) -> anyhow::Result<()> {
    allow_many_files();
    let mut measurements = Measurements::default();
    let measured = tokio::select! {
        measured = measurements.measure(args.rounds, args.round()) => measured,
        signal = asked_to_stop() => Err(anyhow::anyhow!("{}: what was measured so far is shown", signal?)),
    };
    args.print(&serde_json::to_value(&measurements)?, &measurements.table())?;
    measured
}

async fn compare_permits(args: &BenchArgs) -> anyhow::Result<()> {
    let names: Vec<String> = Case::all().map(|case| case.to_string()).collect();
    let known = names.iter().any(|name| name.contains(&args.only));
    ensure!(known, "no case has `{}` in its name; there are {}", args.only, quoted(names.iter().map(String::as_str)));
    let mut private = None;
    let url = match &args.nats {
        Some(url) => url.clone(),
        None => private.insert(Server::start(&Binary::find().await?, Options::default()).await?).url().to_owned(),
    };
    let measured = measure_all(&url, args).await?;
    if let Some(mut server) = private {
        server.stop().await?;
    }
    args.print(&serde_json::json!({ "cases": measured }), &case::table(&measured))
}

async fn measure_all(url: &str, args: &BenchArgs) -> anyhow::Result<Vec<Measured>> {
    let text = configuration(url, args.otlp.as_deref());
    let scheduler = running::start(config::parse(FilePath::new("bench"), &text)?).await?;
    scheduler.ready().await;
    let echo = echo::start(url).await?;
    let progress = args.progress();
    let mut measured = Vec::new();
    for case in Case::all().filter(|case| case.to_string().contains(&args.only)) {
        progress.set_message(case.to_string());
        measured.extend(measure(url, case, args, &progress).await.with_context(|| case.to_string())?);
    }
    progress.finish_and_clear();
    drop(echo);
    scheduler.stop().await?;
    Ok(measured)
}

/// Measures one case. The echo comes first in every round.
async fn measure(url: &str, case: Case, args: &BenchArgs, progress: &ProgressBar) -> anyhow::Result<[Measured; 2]> {
    let (mut echoes, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        echoes.push(load::round(url, case, Path::Echo, args.round()).await?);
        ours.push(load::round(url, case, case.path, args.round()).await?);
        progress.inc(1);
    }
    let ratio = median(ours.iter().zip(&echoes).map(|(ours, echo)| ours.per_second / echo.per_second));
    Ok([case.measured(Path::Echo, &echoes, 1.0), case.measured(case.path, &ours, ratio)])
}

/// A configuration with a resource for each case and three limits that are never reached.
/// Each case has its own resource, so that its permits use no other case's bound.
fn configuration(url: &str, otlp: Option<&str>) -> String {
    let limits = [("a", "requests"), ("b", "processing-units"), ("c", "processing-units")].map(|(name, unit)| {
        format!("[[resource.limit]]\nname = \"{name}\"\nunit = \"{unit}\"\ncapacity = 1000000000\nperiod = \"1s\"\n")
    });
    let limits = limits.concat();
    let resource = |case: Case| format!("[[resource]]\nname = \"{}\"\nstart = \"full\"\n{limits}", case.resource());
    let resources: String = Case::all().map(resource).collect();
    let telemetry = otlp.map(|url| format!("[telemetry]\notlp = \"{url}\"\nsample = 0.01\n")).unwrap_or_default();
    format!("[nats]\nurl = \"{url}\"\nprefix = \"{PREFIX}\"\n[http]\nlisten = \"\"\n{telemetry}{resources}")
}

impl BenchArgs {
    /// The length of a round.
    fn round(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.rounds))
    }

    fn progress(&self) -> ProgressBar {
        let rounds = Case::all().count() as u64 * u64::from(self.rounds);
        let bar = if self.json { ProgressBar::hidden() } else { ProgressBar::new(rounds) };
        bar.with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("a valid template"))
    }

    fn print(&self, json: &serde_json::Value, table: &str) -> anyhow::Result<()> {
        Ok(if self.json { writeln!(stdout(), "{json:#}") } else { writeln!(stdout(), "{table}") }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(arguments: &[&str]) -> BenchArgs {
        BenchArgs::parse_from(["bench", "--seconds", "0.02", "--rounds", "1"].iter().chain(arguments))
    }

    #[tokio::test]
    async fn each_path_is_measured_beside_the_echo() {
        let server = Server::start(&Binary::find().await.unwrap(), Options::default()).await.unwrap();
        let measured = measure_all(server.url(), &args(&["--only", "1×1", "--json"])).await.unwrap();
        let json = serde_json::to_value(&measured).unwrap();
        let row = |row: &serde_json::Value| ["path", "client"].map(|key| row[key].as_str().unwrap().to_owned());
        let found: Vec<_> = json.as_array().unwrap().iter().map(row).collect();
        let expected = [["echo", "multiplexer"], ["scheduler", "multiplexer"], ["echo", "request"], ["sdk", "sdk"]];
        assert_eq!(found, expected);
        let all_answered = measured.iter().all(|row| row.figures.per_second > 0.0);
        assert!(all_answered, "{measured:?}");
    }

    /// The least ratios to the echo in a build of tests, which is hardly optimised: about half of
    /// what a quiet machine shows, so that only a loss of speed is noticed and not a busy machine.
    const LEAST: [(&str, f64); 3] = [("scheduler 256×1", 0.2), ("scheduler 16×64", 0.03), ("sdk 256×1", 0.2)];
    /// A busy machine may disturb some attempts.
    const ATTEMPTS: usize = 3;

    #[tokio::test]
    #[allow(clippy::print_stdout, reason = "figures of tests are for people")]
    async fn permits_keep_up_with_the_echo() {
        let server = Server::start(&Binary::find().await.unwrap(), Options::default()).await.unwrap();
        for (case, least) in LEAST {
            let mut ratios = Vec::new();
            while ratios.iter().all(|ratio| *ratio < least) {
                assert!(ratios.len() < ATTEMPTS, "{case} has {ratios:?} of the echo's rate, less than {least}");
                let args =
                    BenchArgs::parse_from(["bench", "--seconds", "0.6", "--rounds", "3", "--only", case, "--json"]);
                let measured = measure_all(server.url(), &args).await.unwrap();
                ratios.push(measured[1].ratio_to_echo);
            }
            println!("{case}: {:.2} of the echo's rate, at least {least}", ratios[ratios.len() - 1]);
        }
    }
}
