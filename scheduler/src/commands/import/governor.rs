//! Converts rates files of EOM Governor to a configuration of one resource, which the scheduler then checks.

use rampmeter_protocol::name::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The group of all limits. Only one limit of a group applies to a request.
const GROUP: &str = "governor";
/// The labels matched by rules.
const ROUTE: &str = "route";
const METHOD: &str = "method";
const LONGEST_NAME: usize = 64;

/// A rule of a rates file. The first rule that matches a request applies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    name: String,
    /// A regular expression for the whole path.
    route: String,
    /// The methods; any if empty.
    #[serde(default)]
    methods: Vec<String>,
    limit: f64,
    /// Calls per second.
    drain_velocity: f64,
    project: Option<String>,
}

pub(super) fn rules(text: &str) -> Result<Vec<Rule>, serde_json::Error> {
    serde_json::from_str(text)
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) resource: Name,
    /// The label with a request's project.
    pub(super) project_label: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ImportError {
    /// A rule in the file for projects has no project.
    #[error("rule `{0}` of the projects' rates names no `project`")]
    NoProject(String),
    /// The rules have no form in TOML.
    #[error(transparent)]
    Unwritable(#[from] toml::ser::Error),
}

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
    /// Zero, since Governor enforces its own counts and no upstream can count differently.
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

/// Returns a configuration with one limit per rule, those of projects first. Each of these needs a project.
pub(super) fn configuration(settings: &Settings, projects: Vec<Rule>, rates: Vec<Rule>) -> Result<String, ImportError> {
    if let Some(rule) = projects.iter().find(|rule| rule.project.is_none()) {
        return Err(ImportError::NoProject(rule.name.clone()));
    }
    let mut names = Vec::new();
    let limits = projects.into_iter().chain(rates).map(|rule| {
        let name = unused_name(&names, &rule.name);
        names.push(name.clone());
        limit(settings, name, rule)
    });
    let resource = Resource { name: settings.resource.clone(), limit: limits.collect() };
    Ok(toml::to_string(&File { resource: [resource] })?)
}

/// Converts a rule to a limit. All rules match on route and method, so that the first match applies. A rule of a
/// project also matches on the project, and therefore precedes the others.
fn limit(settings: &Settings, name: String, rule: Rule) -> Limit {
    let methods = if rule.methods.is_empty() { ".*".to_owned() } else { rule.methods.join("|") };
    let mut matching = BTreeMap::from([
        (ROUTE.to_owned(), Pattern::Regex(format!("^(?:{})$", rule.route))),
        (METHOD.to_owned(), Pattern::Regex(format!("^(?:{methods})$"))),
    ]);
    matching.extend(rule.project.map(|project| (settings.project_label.clone(), Pattern::OneOf([project]))));
    Limit {
        name,
        group: GROUP,
        algorithm: "leaky-bucket",
        limit: rule.limit,
        drain_velocity: rule.drain_velocity,
        margin: 0,
        learn: false,
        key: [settings.project_label.clone()],
        matching,
    }
}

/// Returns an unused name with valid characters only.
fn unused_name(used: &[String], wanted: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    let base: String = wanted.chars().map(plain).take(LONGEST_NAME - 4).collect();
    let base = if base.is_empty() { "rule".to_owned() } else { base };
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    std::iter::once(base.clone()).chain(numbered).find(|name| !used.contains(name)).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings { resource: Name::new("governor").unwrap(), project_label: "project".to_owned() }
    }

    fn rule(name: &str, project: &str) -> Vec<Rule> {
        let text = format!(r#"[{{"name": "{name}", "route": "/", "limit": 1, "drain_velocity": 2 {project}}}]"#);
        rules(&text).unwrap()
    }

    #[test]
    fn names_become_valid_and_unique() {
        let used = ["a-b".to_owned(), "a-b-2".to_owned()];
        for (wanted, name) in [("a b", "a-b-3"), ("", "rule"), ("c", "c"), (&*"x".repeat(80), &*"x".repeat(60))] {
            assert_eq!(unused_name(&used, wanted), name);
        }
    }

    #[test]
    fn rules_of_projects_go_first_and_name_one() {
        let text = configuration(&settings(), rule("own", r#", "project": "big""#), rule("all", "")).unwrap();
        assert!(text.find("\"own\"").unwrap() < text.find("\"all\"").unwrap(), "{text}");
        assert!(text.contains(r#"project = ["big"]"#), "{text}");
        assert!(text.contains(r#"algorithm = "leaky-bucket""#), "{text}");
        let error = configuration(&settings(), rule("own", ""), rule("all", "")).unwrap_err();
        assert_eq!(error.to_string(), "rule `own` of the projects' rates names no `project`");
    }
}
