//! `rampmeter top`

mod classes_panel;
mod dashboard;
mod limits_panel;
mod pace;
mod painted_sheet;
mod palette;
mod panel;
mod picture;
mod popup;
mod queue_panel;
mod resources_panel;
pub mod screen;
mod sheet;
mod survey;
mod watch;

use crate::commands::nats_arg::NatsArg;
use crate::commands::output;
use crate::commands::output::table::text_width;
use crate::serve::connection::connect;
use anyhow::bail;
use dashboard::Dashboard;
use picture::Picture;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::Status;
use rampmeter_protocol::subject::Subjects;
use serde::Serialize;
use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;
use survey::{ListWanted, Survey, Surveyor, WaitingList};
use watch::Watch;

/// What `top` takes.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// The resource to look at first; the first by name, if none is named.
    resource: Option<Name>,
    /// How many seconds pass from one look to the next.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds, conflicts_with = "once")]
    every: f64,
    /// Print one picture and end.
    #[arg(long)]
    once: bool,
    /// Print JSON instead of a picture: each resource with its status, and the requests that wait.
    #[arg(long, requires = "once")]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

impl TopArgs {
    /// Only severe messages are logged while the screen is in use, because they are written into
    /// the picture.
    #[must_use]
    pub fn log_levels(&self) -> &'static str {
        if self.once { "warn" } else { "error,async_nats=off" }
    }
}

/// What `--json` prints of a resource.
#[derive(Debug, Serialize)]
struct ResourceAtOnce {
    status: Status,
    queue: WaitingList,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds".to_owned())?;
    if (0.2..=60.0).contains(&seconds) { Ok(seconds) } else { Err("0.2 to 60 seconds".to_owned()) }
}

/// Shows resources, limits, classes and waiting requests on the terminal.
///
/// # Errors
/// If NATS can't be reached, there is no terminal, or, for one picture, no scheduler answers.
pub async fn run(args: TopArgs) -> anyhow::Result<()> {
    let has_terminal = stdin().is_terminal() && stdout().is_terminal();
    if !args.once && !has_terminal {
        bail!("there is no terminal; `rampmeter top --once` prints one picture");
    }
    let client = connect(&args.nats.table(), "rampmeter-top").await?;
    let subjects = Subjects::new(&args.nats.prefix)?;
    let resources = subjects.resources();
    let surveyor = Surveyor::new(client, subjects);
    let dashboard = Dashboard::new(args.resource);
    match (args.once, args.json) {
        (false, _) => Watch::new(surveyor, dashboard, Duration::from_secs_f64(args.every)).run().await,
        (true, false) => print_once(&surveyor, dashboard, &resources).await,
        (true, true) => print_json(&surveyor, dashboard, &resources).await,
    }
}

async fn print_once(surveyor: &Surveyor, mut dashboard: Dashboard, subject: &str) -> anyhow::Result<()> {
    let survey = first_survey(surveyor, &dashboard, subject).await?;
    dashboard.take(survey);
    let columns = u16::try_from(text_width()).unwrap_or(u16::MAX);
    output::print(Picture::printed(&dashboard, columns))
}

/// Prints all resources, or the one that was named.
async fn print_json(surveyor: &Surveyor, dashboard: Dashboard, subject: &str) -> anyhow::Result<()> {
    let named = dashboard.resource().cloned();
    let survey = first_survey(surveyor, &dashboard, subject).await?;
    let mut all = Vec::new();
    for resource in survey.resources {
        if named.as_ref().is_none_or(|named| *named == resource.name) {
            let status = resource.status.map_err(anyhow::Error::msg)?;
            let wanted = ListWanted { resource: resource.name, after: None };
            all.push(ResourceAtOnce { status, queue: surveyor.list(&wanted).await? });
        }
    }
    output::json(&all)
}

/// The first answers, for a picture that is printed.
async fn first_survey(surveyor: &Surveyor, dashboard: &Dashboard, subject: &str) -> anyhow::Result<Survey> {
    let names = surveyor.names().await?;
    let Some(first) = names.first() else {
        bail!("no scheduler answers on `{subject}`; is `rampmeter serve` running?");
    };
    let resource = dashboard.resource().unwrap_or(first).clone();
    if !names.contains(&resource) {
        bail!("no running scheduler owns resource `{resource}`");
    }
    Ok(surveyor.look(&names, Some(ListWanted { resource, after: None })).await)
}
