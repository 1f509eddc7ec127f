//! The limits of an upstream.

use crate::{Arrival, Policy, parsed::parsed, refusal::Refusal};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One limit of an upstream: a policy and the calls that it counts.
///
/// ```
/// use rampmeter_upstream::{Account, Arrival, Cost, Rule};
/// use std::time::Duration;
///
/// let rule = Rule::new("requests=1/10s".parse()?).for_each(&["guild"]).only("route", &["roles*"]);
/// let mut account = Account::of(vec![rule]);
/// let mut call = |route: &str, guild: &str| {
///     let label = |name: &str| Some(if name == "route" { route } else { guild }.to_owned());
///     account.admit_call(Duration::ZERO, &Arrival { cost: &Cost::new(), label: &label }).is_ok()
/// };
/// assert!(call("roles", "a") && call("roles", "b") && !call("roles/1", "a") && call("messages", "a"));
/// # Ok::<(), rampmeter_upstream::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The policy.
    #[serde(rename = "limit", deserialize_with = "parsed")]
    pub policy: Policy,
    pub(crate) name: Option<String>,
    /// Labels whose combinations of values are counted separately.
    #[serde(default)]
    pub(crate) key: Vec<String>,
    /// The calls that it counts; `roles*` matches all values that begin with `roles`.
    #[serde(default, rename = "match")]
    pub(crate) matching: Matching,
    /// Calls that match one of these are not counted.
    #[serde(default)]
    pub(crate) except: Vec<Matching>,
    /// Whether headers show it only when it rejects a call.
    #[serde(default)]
    pub(crate) hidden: bool,
    /// The family of headers that show it; by default the usual headers.
    pub(crate) family: Option<String>,
    /// The shown remaining amount is rounded up or down to a multiple of this many units.
    pub(crate) rounded_to: Option<u32>,
    #[serde(default)]
    pub(crate) sharing: Sharing,
    /// How this limit rejects calls; by default as the others do.
    pub(crate) refusal: Option<Refusal>,
}

/// The values that match, by label; a call must have a matching value for each.
pub(crate) type Matching = BTreeMap<String, Vec<String>>;

/// Whose calls a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sharing {
    /// The caller's calls to one part of the API.
    #[default]
    User,
    /// All calls of the caller. Its rejections have no headers about limits.
    Global,
    /// Calls of other accounts too, so that a rejection is not the caller's fault.
    Shared,
}

impl Rule {
    /// Creates a limit of all calls.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            name: None,
            key: Vec::new(),
            matching: Matching::new(),
            except: Vec::new(),
            hidden: false,
            family: None,
            rounded_to: None,
            sharing: Sharing::default(),
            refusal: None,
        }
    }

    /// Sets the name that responses state.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Counts each combination of values of these labels separately, and no calls without them.
    #[must_use]
    pub fn for_each(self, labels: &[&str]) -> Self {
        Self { key: labels.iter().map(|label| (*label).to_owned()).collect(), ..self }
    }

    /// Counts only calls whose label has one of these values. A trailing `*` matches any ending.
    #[must_use]
    pub fn only(mut self, label: &str, values: &[&str]) -> Self {
        self.matching.insert(label.to_owned(), values.iter().map(|value| (*value).to_owned()).collect());
        self
    }

    /// Excludes the calls that one of `others` counts by their labels.
    #[must_use]
    pub fn except<'a>(mut self, others: impl IntoIterator<Item = &'a Rule>) -> Self {
        self.except.extend(others.into_iter().map(|other| other.matching.clone()));
        self
    }

    /// Returns its name, or else the text of its policy.
    pub(crate) fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.policy.to_string())
    }

    /// Returns the values that select a call's bucket; `None` if the call is not counted.
    pub(crate) fn key_of(&self, arrival: &Arrival<'_>) -> Option<Vec<String>> {
        let has_one = |(label, values): (&String, &Vec<String>)| {
            (arrival.label)(label).is_some_and(|value| values.iter().any(|pattern| fits(pattern, &value)))
        };
        let matches = |matching: &Matching| matching.iter().all(has_one);
        if !matches(&self.matching) || self.except.iter().any(matches) {
            return None;
        }
        self.key.iter().map(|label| (arrival.label)(label)).collect()
    }
}

impl From<Policy> for Rule {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}

impl Sharing {
    /// The name of the scope in Discord's header.
    pub(crate) fn scope(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Global => "global",
            Self::Shared => "shared",
        }
    }
}

fn fits(pattern: &str, value: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == value, |beginning| value.starts_with(beginning))
}
