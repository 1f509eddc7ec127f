//! `rampmeter simulate`

mod fleet;
mod scenario;
pub(crate) mod what_if;

use super::output;
use super::output::human::duration;
use super::output::table::table;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use rampmeter_config::ConfigError;
use rampmeter_protocol::suggestion::{did_you_mean, quoted};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_simulator::outcome::Outcome;
use rampmeter_simulator::picture;
use rampmeter_simulator::report::{Group, Report};
use rampmeter_simulator::strategy::Strategy;
use rampmeter_simulator::world::World;
use rampmeter_upstream::Preset;
use std::path::{Path, PathBuf};

/// What `simulate` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Strategies:
  back-off      call at once; after a 429 wait longer each time, by chance
  retry-after   call at once; after a 429 wait for as long as it says
  static-share  each worker keeps to its part of every limit
  plain-rule    take from shared counters now, sleep until none is negative
  reserve       permits that are promised at once
  late-binding  permits that are granted when the turn has come

Columns: `unfinished` calls were wanted and not served when the world ended; `used` is the part of what the binding
limit held and refilled; `Jain` tells how evenly clients were served, by weight, from 0 to 1; `starved` clients asked
and were never served. `p50`, `p99` and `longest` are the waits of served calls, from when they were first wanted.

How scenarios are written: simulator/scenarios/README.md")]
pub struct SimulateArgs {
    /// The scenario: limits, workers and a network.
    scenario: PathBuf,
    /// Simulate only this strategy, and show its clients; without it, all strategies side by side.
    #[arg(long)]
    strategy: Option<Strategy>,
    /// The seed of everything random, in place of the scenario's.
    #[arg(long)]
    seed: Option<u64>,
    /// Print one JSON array instead of tables.
    #[arg(long)]
    json: bool,
    /// Draw levels over time, waits by class and 429s into this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// The folder of the repository's scenarios.
const SCENARIOS: &str = "simulator/scenarios";
/// The number of observations of levels in a picture.
const OBSERVATIONS: u64 = 600;
/// The number of clients in a table, those with the longest waits.
const CLIENTS: usize = 10;

/// Simulates a scenario, and prints the result.
///
/// # Errors
/// If the scenario can't be read, or is invalid.
pub fn run(args: &SimulateArgs) -> anyhow::Result<()> {
    let world = scenario::load(&args.scenario, args.seed).map_err(|error| with_scenarios(error, &args.scenario))?;
    let strategies = args.strategy.map_or(Strategy::ALL.to_vec(), |strategy| vec![strategy]);
    let progress = progress(args.json, &world, strategies.len());
    let mut runs = Vec::new();
    for strategy in &strategies {
        progress.set_message(strategy.to_string());
        let done = progress.length().map_or(0, |length| length / strategies.len() as u64 * runs.len() as u64);
        let watch = |now: Time| progress.set_position(done + now.since(Time::ORIGIN).secs() as u64);
        let run = simulate(&world.clone().by(*strategy), args.plot.is_some(), watch);
        runs.push(run.with_context(|| args.scenario.display().to_string())?);
    }
    progress.finish_and_clear();
    let reports: Vec<&Report> = runs.iter().map(|(report, _)| report).collect();
    match args.json {
        true => output::json(&reports)?,
        false => print_tables(&reports)?,
    }
    if let Some(path) = &args.plot {
        let picture = picture::svg(&world, &runs)?;
        std::fs::write(path, picture).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

/// Runs a world, twice for a picture because only the first run shows how long it lasts.
fn simulate(world: &World, observed: bool, watch: impl FnMut(Time)) -> anyhow::Result<(Report, Outcome)> {
    let outcome = world.run_watched(watch)?;
    let report = Report::new(world, &outcome);
    if !observed {
        return Ok((report, outcome));
    }
    let (finished, interval) = (outcome.finished(), Span::from_nanos(outcome.finished().nanos() / OBSERVATIONS));
    let world = world.clone().until(world.end().min(Time::ORIGIN + finished));
    Ok((report, world.observed_every(interval).run()?))
}

/// Returns the upstream of the scenario in `text`, if that is valid.
pub(super) fn upstream(text: &str) -> anyhow::Result<Preset> {
    let world = scenario::parse(Path::new("scenario"), text, None)?;
    Ok(world.upstream()?)
}

fn print_tables(reports: &[&Report]) -> anyhow::Result<()> {
    output::line(summary(reports))?;
    output::line(waits(reports, "fleet", |report| report.fleets.iter().collect()))?;
    if reports.iter().any(|report| report.classes.len() > 1) {
        output::line(waits(reports, "class", |report| report.classes.iter().collect()))?;
    }
    // With several strategies, tables of clients would take too much space.
    match reports {
        [report] => print_clients(report),
        _ => Ok(()),
    }
}

fn print_clients(report: &Report) -> anyhow::Result<()> {
    if report.clients.len() > 1 {
        output::line(waits(&[report], "client", longest_waiting))?;
    }
    if let Some(others) = report.clients.len().checked_sub(CLIENTS).filter(|others| *others > 0) {
        output::line(format_args!("These {CLIENTS} clients waited longest; `--json` shows the other {others} too."))?;
    }
    Ok(())
}

/// Adds the existing scenarios to the error for one that can't be read.
fn with_scenarios(error: ConfigError, asked: &Path) -> anyhow::Error {
    let ConfigError::Unreadable { source, .. } = &error else { return error.into() };
    let names = scenarios_beside(asked);
    let help = match names.is_empty() {
        true => "scenarios are described and found in simulator/scenarios of the repository".to_owned(),
        false => {
            let stem = asked.file_stem().unwrap_or_default().to_string_lossy();
            let stems = names.iter().filter_map(|name| name.file_stem()?.to_str());
            let listed: Vec<String> = names.iter().map(|name| name.display().to_string()).collect();
            format!("there are {}{}", quoted(listed.iter().map(String::as_str)), did_you_mean(&stem, stems))
        }
    };
    anyhow::anyhow!("{}: this scenario can't be read: {source}; {help}", asked.display())
}

/// Returns the scenarios in the folder of `asked`, or else in the repository's own.
fn scenarios_beside(asked: &Path) -> Vec<PathBuf> {
    let own = asked.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folders = [own.unwrap_or(Path::new(".")), Path::new(SCENARIOS)];
    let found = folders.into_iter().map(|folder| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut scenarios: Vec<PathBuf> = entries.filter(|path| is_scenario(path)).collect();
        scenarios.sort();
        scenarios
    });
    found.into_iter().find(|scenarios| !scenarios.is_empty()).unwrap_or_default()
}

/// Returns whether a file has workers to simulate; a configuration has none.
fn is_scenario(path: &Path) -> bool {
    let is_toml = path.extension().is_some_and(|ending| ending == "toml");
    is_toml && std::fs::read_to_string(path).is_ok_and(|text| text.contains("[[fleet]]"))
}

fn longest_waiting(report: &Report) -> Vec<&Group> {
    let mut clients: Vec<&Group> = report.clients.iter().collect();
    clients.sort_by(|a, b| b.wait_ms.p99.total_cmp(&a.wait_ms.p99));
    clients.truncate(CLIENTS);
    clients
}

/// Creates a bar in simulated seconds of all strategies, if their end is known.
fn progress(hidden: bool, world: &World, strategies: usize) -> ProgressBar {
    let endless = world.end() == Time::NEVER;
    let all = world.end().since(Time::ORIGIN).secs() as u64 * strategies as u64;
    let bar = match (hidden, endless) {
        (true, _) => ProgressBar::hidden(),
        (false, true) => ProgressBar::no_length(),
        (false, false) => ProgressBar::new(all),
    };
    let template = if endless { "{spinner} {msg}: {pos} s simulated" } else { "{bar:30} {percent} % {msg}" };
    bar.with_style(ProgressStyle::with_template(template).expect("a valid template"))
}

fn summary(reports: &[&Report]) -> String {
    // Strategies mostly use the same limit most: then a sentence names it.
    let binding = reports.first().filter(|first| reports.iter().all(|report| report.binding == first.binding));
    let rows = reports.iter().map(|report| {
        [
            report.strategy.clone(),
            report.ok.to_string(),
            report.rejected.to_string(),
            report.unfinished.to_string(),
            duration(report.seconds * 1e3),
            used(report, binding.is_none()),
            format!("{:.3}", report.jain),
            report.starved.to_string(),
        ]
    });
    let head = ["strategy", "served", "429", "unfinished", "took", "used", "Jain", "starved"];
    let named = binding.map_or(String::new(), |report| format!("The binding limit is `{}`.\n\n", report.binding));
    named + &table(&head, 1..8, rows) + "\n"
}

/// Formats the use of the binding limit, with its name if strategies differ in it.
fn used(report: &Report, with_name: bool) -> String {
    let name = if with_name { format!(" of {}", report.binding) } else { String::new() };
    format!("{:.1} %{name}", report.used * 100.0)
}

fn waits<'a>(reports: &[&'a Report], by: &str, groups: impl Fn(&'a Report) -> Vec<&'a Group>) -> String {
    let row = |report: &Report, group: &Group| {
        [
            report.strategy.clone(),
            group.name.clone(),
            group.ok.to_string(),
            group.rejected.to_string(),
            group.unfinished.to_string(),
            wait(group, group.wait_ms.p50),
            wait(group, group.wait_ms.p99),
            wait(group, group.wait_ms.max),
        ]
    };
    let rows = reports.iter().flat_map(|&report| groups(report).into_iter().map(move |group| row(report, group)));
    table(&["strategy", by, "served", "429", "unfinished", "p50", "p99", "longest"], 2..8, rows) + "\n"
}

fn wait(group: &Group, millis: f64) -> String {
    if group.ok == 0 { "–".to_owned() } else { duration(millis) }
}
