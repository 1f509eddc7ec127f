//! One limit of an upstream, and what its answers tell of it.

use crate::{Arrival, Policy, parsed::parsed, refusal::Refusal};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One limit of an upstream: a policy, and the calls that it counts.
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
    /// Labels; each combination of their values counts separately.
    #[serde(default)]
    pub(crate) key: Vec<String>,
    /// The calls that it counts; `roles*` means all values that begin with `roles`.
    #[serde(default, rename = "match")]
    pub(crate) matching: Matching,
    /// Calls that match one of these are not counted.
    #[serde(default)]
    pub(crate) except: Vec<Matching>,
    /// Whether no headers show it, as long as it refuses no call.
    #[serde(default)]
    pub(crate) hidden: bool,
    /// The dialect's headers for limits of this family show it; by default the usual ones.
    pub(crate) family: Option<String>,
    /// The remaining amount is shown rounded to a multiple of this many units, up or down.
    pub(crate) rounded_to: Option<u32>,
    #[serde(default)]
    pub(crate) sharing: Sharing,
    /// How this limit refuses calls; by default as the other limits do.
    pub(crate) refusal: Option<Refusal>,
}

/// By label, the values of calls that match; each label has to have one of its values.
pub(crate) type Matching = BTreeMap<String, Vec<String>>;

/// Whose calls a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sharing {
    /// Counts calls of the caller in one part of the API.
    #[default]
    User,
    /// Counts all calls of the caller. Its refusals have no headers about limits.
    Global,
    /// Counts calls of other accounts, too. A refusal by it is not the caller's fault.
    Shared,
}

impl Rule {
    /// A limit of all calls.
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

    /// The same limit under a name, which answers tell.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// The same limit for each combination of values of these labels. It does not count calls that
    /// lack one of the labels.
    #[must_use]
    pub fn for_each(self, labels: &[&str]) -> Self {
        Self { key: labels.iter().map(|label| (*label).to_owned()).collect(), ..self }
    }

    /// The same limit, only for calls whose label has one of these values. A value that ends in `*`
    /// matches all values that begin like it.
    #[must_use]
    pub fn only(mut self, label: &str, values: &[&str]) -> Self {
        self.matching.insert(label.to_owned(), values.iter().map(|value| (*value).to_owned()).collect());
        self
    }

    /// The same limit without the calls that one of `others` counts by their labels.
    #[must_use]
    pub fn except<'a>(mut self, others: impl IntoIterator<Item = &'a Rule>) -> Self {
        self.except.extend(others.into_iter().map(|other| other.matching.clone()));
        self
    }

    /// Its name, else the text of its policy.
    pub(crate) fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.policy.to_string())
    }

    /// The values that name the bucket of a call; `None` for a call that it does not count.
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
