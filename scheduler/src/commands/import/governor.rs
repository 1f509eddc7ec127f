//! `rampmeter import governor`

use crate::config;
use anyhow::{Context, ensure};
use rampmeter_protocol::name::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Of its limits one applies to a request.
const GROUP: &str = "governor";
/// The labels that rules look at.
const ROUTE: &str = "route";
const METHOD: &str = "method";
const LONGEST_NAME: usize = 64;

/// What `import governor` takes.
#[derive(Debug, clap::Args)]
pub(super) struct GovernorArgs {
    /// The rates of all projects: a JSON list of rules, of which the first that matches counts.
    #[arg(value_name = "RATES")]
    rates: PathBuf,
    /// The rates of single projects, which go first.
    #[arg(long, value_name = "FILE")]
    projects: Option<PathBuf>,
    /// What the resource is to be called.
    #[arg(long, value_name = "NAME", default_value = "governor")]
    resource: Name,
    /// The label that names a request's project.
    #[arg(long, value_name = "LABEL", default_value = "project")]
    project_label: String,
}

/// A rule as Governor has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    /// A regular expression for the whole path.
    route: String,
    /// None means any.
    #[serde(default)]
    methods: Vec<String>,
    limit: f64,
    /// In a second.
    drain_velocity: f64,
    project: Option<String>,
}

/// As the configuration has it.
#[derive(Debug, Serialize)]
struct File {
    resource: [Resource; 1],
}

#[derive(Debug, Serialize)]
struct Resource {
    name: Name,
    limit: Vec<Limit>,
}

#[derive(Debug, Serialize)]
struct Limit {
    name: String,
    group: &'static str,
    algorithm: &'static str,
    limit: f64,
    drain_velocity: f64,
    /// Governor counts by itself: there is no upstream whose word would count more.
    margin: u32,
    learn: bool,
    key: [String; 1],
    #[serde(rename = "match")]
    matching: BTreeMap<String, Pattern>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Pattern {
    Regex(String),
    OneOf([String; 1]),
}

/// Prints the configuration.
///
/// # Errors
/// If a file can't be read, or a rule can't be kept to.
#[expect(clippy::print_stdout, reason = "what the command is for")]
pub(super) fn run(args: &GovernorArgs) -> anyhow::Result<()> {
    let mut rules = match &args.projects {
        Some(projects) => read(projects)?,
        None => Vec::new(),
    };
    let of_projects = rules.len();
    rules.extend(read(&args.rates)?);
    for rule in &rules[..of_projects] {
        ensure!(rule.project.is_some(), "rule `{}` of the projects' rates names no `project`", rule.name);
    }
    let text = toml::to_string(&File { resource: [resource(args, rules)] })?;
    config::parse(Path::new("the imported configuration"), &text).context("these rules can't be kept to")?;
    print!("{text}");
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<Rule>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a list of Governor's rules", path.display()))
}

fn resource(args: &GovernorArgs, rules: Vec<Rule>) -> Resource {
    let mut names = Vec::new();
    let limits = rules.into_iter().map(|rule| {
        let name = unused_name(&names, &rule.name);
        names.push(name.clone());
        limit(args, name, rule)
    });
    Resource { name: args.resource.clone(), limit: limits.collect() }
}

/// All rules match on as much, so that of those that match the first counts, and those of a project before all others.
fn limit(args: &GovernorArgs, name: String, rule: Rule) -> Limit {
    let methods = if rule.methods.is_empty() { ".*".to_owned() } else { rule.methods.join("|") };
    let mut matching = BTreeMap::from([
        (ROUTE.to_owned(), Pattern::Regex(format!("^(?:{})$", rule.route))),
        (METHOD.to_owned(), Pattern::Regex(format!("^(?:{methods})$"))),
    ]);
    matching.extend(rule.project.map(|project| (args.project_label.clone(), Pattern::OneOf([project]))));
    Limit {
        name,
        group: GROUP,
        algorithm: "leaky-bucket",
        limit: rule.limit,
        drain_velocity: rule.drain_velocity,
        margin: 0,
        learn: false,
        key: [args.project_label.clone()],
        matching,
    }
}

/// A name of the characters that names have, which no other limit has.
fn unused_name(used: &[String], wanted: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    let base: String = wanted.chars().map(plain).take(LONGEST_NAME - 4).collect();
    let base = if base.is_empty() { "rule".to_owned() } else { base };
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    std::iter::once(base.clone()).chain(numbered).find(|name| !used.contains(name)).unwrap_or(base)
}
