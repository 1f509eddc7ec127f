//! The requests that a limit applies to, and the limits that apply to a request.

use crate::ids::LimitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use regex::Regex;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The largest number of labels in a bucket's key.
pub const MAX_KEY_LABELS: usize = 4;

/// Selects a limit's requests, and the labels that key its buckets; by default every request, and one bucket.
///
/// ```
/// use rampmeter_policy::spec::{Applies, Pattern};
///
/// // Each Discord server has a rate window of its own.
/// let per_server = Applies {
///     matching: [("route".to_owned(), Pattern::Prefix("/guilds/".to_owned()))].into(),
///     key: vec!["guild".to_owned()],
///     group: None,
/// };
/// assert!(per_server.is_keyed() && !Applies::default().is_keyed());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applies {
    /// Patterns by label. All must match; a request without such a label does not match.
    pub matching: BTreeMap<String, Pattern>,
    /// Labels whose values together name a bucket. The limit skips a request without one of them.
    pub key: Vec<String>,
    /// Of a group's matching limits, only the most specific one applies, or the first of several.
    pub group: Option<Name>,
}

/// A condition on the value of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Exactly this value.
    Exact(String),
    /// One of these values.
    OneOf(BTreeSet<String>),
    /// A value with this prefix.
    Prefix(String),
    /// A value that contains a match of this regular expression. Matching takes linear time.
    Regex(String),
}

impl Applies {
    /// Returns whether the limit has one bucket for each key.
    #[must_use]
    pub fn is_keyed(&self) -> bool {
        !self.key.is_empty()
    }

    /// Returns whether the limit applies by all labels of `other`, and by more.
    #[must_use]
    pub fn is_narrower_than(&self, other: &Applies) -> bool {
        let (own, others): (BTreeSet<_>, BTreeSet<_>) = (self.labels().collect(), other.labels().collect());
        own.len() > others.len() && own.is_superset(&others)
    }

    fn labels(&self) -> impl Iterator<Item = &String> {
        self.matching.keys().chain(&self.key)
    }

    /// Returns whether the limit applies to every request and has one bucket.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.matching.is_empty() && self.key.is_empty() && self.group.is_none()
    }
}

impl Pattern {
    /// Returns whether this pattern certainly matches every value that `other` matches.
    #[must_use]
    pub fn covers(&self, other: &Pattern) -> bool {
        match (self, other) {
            (Pattern::OneOf(own), Pattern::OneOf(others)) => own.is_superset(others),
            (Pattern::OneOf(own), Pattern::Exact(value)) => own.contains(value),
            (Pattern::Exact(_) | Pattern::OneOf(_) | Pattern::Prefix(_) | Pattern::Regex(_), _) => self == other,
        }
    }

    /// Returns the compiled expression of a pattern that is one.
    #[must_use]
    pub fn expression(&self) -> Option<Result<Regex, regex::Error>> {
        if let Pattern::Regex(regex) = self { Some(Regex::new(regex)) } else { None }
    }
}

/// Separates the values in a key of several labels. An [`ESCAPE`] precedes it inside a value.
const SEPARATOR: char = '|';
const ESCAPE: char = '\\';

/// All limits of a resource, by group. At most one limit of each group applies to a request.
#[derive(Clone, Debug)]
pub(crate) struct LimitMatcher(Vec<Group>);

/// The limits of one group, the most specific first; or one limit without a group.
type Group = Vec<Candidate>;

#[derive(Clone, Debug)]
struct Candidate {
    limit: LimitId,
    applies: Applies,
    expressions: BTreeMap<String, Regex>,
}

impl LimitMatcher {
    pub(crate) fn new<'a>(limits: impl Iterator<Item = &'a Applies>) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for (id, applies) in (0..).map(LimitId).zip(limits) {
            let candidate = Candidate::new(id, applies);
            let name = &candidate.applies.group;
            match groups.iter_mut().find(|group| name.is_some() && group[0].applies.group == *name) {
                Some(group) => group.push(candidate),
                None => groups.push(vec![candidate]),
            }
        }
        for group in &mut groups {
            group.sort_by_key(|candidate| Reverse(specificity(&candidate.applies)));
        }
        LimitMatcher(groups)
    }

    /// Returns the limits that apply to a request, and its key in each keyed limit.
    pub(crate) fn matching<'a>(
        &'a self,
        labels: &'a Labels<'_>,
    ) -> impl Iterator<Item = (LimitId, Option<Arc<str>>)> + 'a {
        let chosen = |group: &'a Group| group.iter().find(|candidate| candidate.is_for(labels));
        self.0.iter().filter_map(chosen).map(|candidate| (candidate.limit, candidate.key(labels)))
    }

    /// Whether all conditions of `limit` hold for these labels, even if its key lacks some.
    pub(crate) fn conditions_hold(&self, limit: LimitId, labels: &Labels<'_>) -> bool {
        let mut candidates = self.0.iter().flatten();
        candidates.find(|candidate| candidate.limit == limit).is_some_and(|candidate| candidate.conditions_hold(labels))
    }
}

impl Candidate {
    fn new(limit: LimitId, applies: &Applies) -> Self {
        let expression = |(label, pattern): (&String, &Pattern)| {
            let regex = pattern.expression()?.expect("checked with its specification");
            Some((label.clone(), regex))
        };
        let expressions = applies.matching.iter().filter_map(expression).collect();
        Candidate { limit, applies: applies.clone(), expressions }
    }

    fn is_for(&self, labels: &Labels<'_>) -> bool {
        self.conditions_hold(labels) && self.applies.key.iter().all(|label| labels.get(label).is_some())
    }

    fn conditions_hold(&self, labels: &Labels<'_>) -> bool {
        let matches = |label: &String, pattern: &Pattern, value: &str| match pattern {
            Pattern::Exact(wanted) => value == wanted,
            Pattern::OneOf(wanted) => wanted.contains(value),
            Pattern::Prefix(prefix) => value.starts_with(prefix),
            Pattern::Regex(_) => self.expressions[label].is_match(value),
        };
        let mut conditions = self.applies.matching.iter();
        conditions.all(|(label, pattern)| labels.get(label).is_some_and(|value| matches(label, pattern, value)))
    }

    fn key(&self, labels: &Labels<'_>) -> Option<Arc<str>> {
        self.applies.is_keyed().then(|| joined_key(&self.applies.key, labels))
    }
}

/// Counts exact values, sets, prefixes, prefix bytes and regular expressions, in order: an exact value beats any sets.
fn specificity(applies: &Applies) -> [usize; 5] {
    let mut counts = [0; 5];
    for pattern in applies.matching.values() {
        match pattern {
            Pattern::Exact(_) => counts[0] += 1,
            Pattern::OneOf(_) => counts[1] += 1,
            Pattern::Prefix(prefix) => {
                counts[2] += 1;
                counts[3] += prefix.len();
            }
            Pattern::Regex(_) => counts[4] += 1,
        }
    }
    counts
}

/// Joins values into one key, different for different values. A single value is its own key.
pub(crate) fn joined_key(keyed_by: &[String], labels: &Labels<'_>) -> Arc<str> {
    let value = |label: &String| labels.get(label).unwrap_or_default();
    if let [label] = keyed_by {
        return value(label).into();
    }
    let mut key = String::new();
    for (number, label) in keyed_by.iter().enumerate() {
        key.extend((number > 0).then_some(SEPARATOR));
        for character in value(label).chars() {
            key.extend(matches!(character, SEPARATOR | ESCAPE).then_some(ESCAPE));
            key.push(character);
        }
    }
    key.into()
}
