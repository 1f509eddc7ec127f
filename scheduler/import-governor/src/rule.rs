//! The rules of Governor's files.

use serde::Deserialize;

/// A rule of a rates file. The first rule that matches a request counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub(crate) name: String,
    /// A regular expression for the whole path.
    pub(crate) route: String,
    /// An empty list means any method.
    #[serde(default)]
    pub(crate) methods: Vec<String>,
    pub(crate) limit: f64,
    /// Calls a second.
    pub(crate) drain_velocity: f64,
    pub(crate) project: Option<String>,
}

/// The rules of a rates file.
///
/// # Errors
/// If it is not a JSON list of rules.
pub fn rules(text: &str) -> Result<Vec<Rule>, serde_json::Error> {
    serde_json::from_str(text)
}
