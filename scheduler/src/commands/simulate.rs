//! `rampmeter simulate`

use super::table::{right_aligned, table};
use crate::config;
use anyhow::Context;
use comfy_table::Table;
use indicatif::{ProgressBar, ProgressStyle};
use rampmeter_simulator::report::Report;
use rampmeter_simulator::strategy::Strategy;
use std::path::PathBuf;

/// What `simulate` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A world: limits, workers and a network.
    scenario: PathBuf,
    /// Simulate only this way to keep to the limits: `back-off`, `retry-after`, `static-share`, `plain-rule`,
    /// `reserve` or `late-binding`. All of them side by side otherwise.
    #[arg(long)]
    strategy: Option<Strategy>,
    /// The seed of all that is random, in place of the scenario's.
    #[arg(long)]
    seed: Option<u64>,
    /// Print one JSON array instead of tables.
    #[arg(long)]
    json: bool,
}

/// Runs a world, and prints how it fared.
///
/// # Errors
/// If the scenario can't be read, or what is wrong with it.
#[expect(clippy::print_stdout, reason = "what the command is for")]
pub fn run(args: &Args) -> anyhow::Result<()> {
    let world = config::load_scenario(&args.scenario, args.seed)?;
    let strategies = args.strategy.map_or(Strategy::ALL.to_vec(), |strategy| vec![strategy]);
    let progress = progress(args.json, strategies.len());
    let mut reports = Vec::new();
    for strategy in strategies {
        progress.set_message(strategy.to_string());
        let world = world.clone().by(strategy);
        let outcome = world.run().with_context(|| args.scenario.display().to_string())?;
        reports.push(Report::new(&world, &outcome));
        progress.inc(1);
    }
    progress.finish_and_clear();
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&reports)?),
        false => println!("{}\n{}", summary(&reports), waits(&reports)),
    }
    Ok(())
}

fn progress(hidden: bool, strategies: usize) -> ProgressBar {
    let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::new(strategies as u64) };
    bar.with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("a valid template"))
}

fn summary(reports: &[Report]) -> Table {
    let mut table = table(&["strategy", "served", "429", "took", "binding limit", "used", "Jain", "starved"]);
    for report in reports {
        table.add_row([
            report.strategy.clone(),
            report.ok.to_string(),
            report.rejected.to_string(),
            format!("{:.1} s", report.seconds),
            report.binding.clone(),
            format!("{:.1} %", report.used * 100.0),
            format!("{:.3}", report.jain),
            report.starved.to_string(),
        ]);
    }
    let table = right_aligned(table, 1..4);
    right_aligned(table, 5..8)
}

fn waits(reports: &[Report]) -> Table {
    let mut table = table(&["strategy", "fleet", "served", "429", "wait p50", "p99", "longest"]);
    for report in reports {
        for fleet in &report.fleets {
            table.add_row([
                report.strategy.clone(),
                fleet.fleet.clone(),
                fleet.ok.to_string(),
                fleet.rejected.to_string(),
                wait(fleet.wait_ms.p50),
                wait(fleet.wait_ms.p99),
                wait(fleet.wait_ms.max),
            ]);
        }
    }
    right_aligned(table, 2..7)
}

fn wait(millis: f64) -> String {
    format!("{:.2} s", millis / 1e3)
}
