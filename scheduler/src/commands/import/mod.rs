//! `rampmeter import`

mod governor;

use super::output;
use anyhow::Context;
use rampmeter_config as config;
use rampmeter_protocol::name::Name;
use std::path::{Path, PathBuf};

/// What `import` takes.
#[derive(Debug, clap::Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    /// Turn rates files of EOM Governor into a resource with a limit for each rule.
    Governor(GovernorArgs),
}

/// What `import governor` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A rates file is a JSON list of rules, of which the first one that matches counts:

  [{\"name\": \"slow\", \"route\": \"/slow/\\\\d+\", \"methods\": [\"GET\"], \"limit\": 250, \"drain_velocity\": 1.75}]

`route` is a regular expression for the whole path; without `methods` a rule is for all; `drain_velocity` is in calls a
second. A rule of --projects has a \"project\" too.

Workers then send three labels with each request: `route`, `method` and the project (see --project-label).")]
struct GovernorArgs {
    /// The rates of all projects: a JSON list of rules. The first matching rule counts.
    #[arg(value_name = "RATES")]
    rates: PathBuf,
    /// The rates of single projects. They come before those of all projects.
    #[arg(long, value_name = "FILE")]
    projects: Option<PathBuf>,
    /// The name of the resource.
    #[arg(long, value_name = "NAME", default_value = "governor")]
    resource: Name,
    /// The label that names a request's project.
    #[arg(long, value_name = "LABEL", default_value = "project")]
    project_label: String,
}

/// Prints the converted configuration.
///
/// # Errors
/// If a file can't be read, or the scheduler can't keep to a rule.
pub fn run(args: ImportArgs) -> anyhow::Result<()> {
    match args.from {
        From::Governor(args) => import_governor(&args),
    }
}

fn import_governor(args: &GovernorArgs) -> anyhow::Result<()> {
    let projects = args.projects.as_deref().map_or(Ok(Vec::new()), read)?;
    let settings = governor::Settings { resource: args.resource.clone(), project_label: args.project_label.clone() };
    let text = governor::configuration(&settings, projects, read(&args.rates)?)?;
    config::parse(Path::new("the imported configuration"), &text).context("these rules can't be kept to")?;
    output::print(format_args!("{}{text}", header(&args.project_label)))
}

/// Returns comments above the configuration about what workers must send.
fn header(project_label: &str) -> String {
    format!(
        "# Imported from the rates of EOM Governor; docs/limits.md describes both formats.\n\
         # Workers send three labels with each request: `route`, the path; `method`, such as GET; and\n\
         # `{project_label}`. A request that lacks one of them is not limited.\n\n"
    )
}

fn read(path: &Path) -> anyhow::Result<Vec<governor::Rule>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    governor::rules(&text).with_context(|| format!("{} is not a list of Governor's rules", path.display()))
}
