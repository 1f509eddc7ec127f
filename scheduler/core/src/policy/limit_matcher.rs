//! Finds the limits that apply to a request.

use super::applies::{Applies, Pattern};
use super::limit::Limit;
use crate::ids::LimitId;
use rampmeter_protocol::labels::Labels;
use regex::Regex;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    pub(crate) fn new(limits: &[Limit]) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for (id, limit) in (0..).map(LimitId).zip(limits) {
            let candidate = Candidate::new(id, &limit.spec().applies);
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

    /// The limits that apply to a request with these labels, and its key in each keyed limit.
    pub(crate) fn matching<'a>(
        &'a self,
        labels: &'a Labels<'_>,
    ) -> impl Iterator<Item = (LimitId, Option<Arc<str>>)> + 'a {
        let chosen = |group: &'a Group| group.iter().find(|candidate| candidate.is_for(labels));
        self.0.iter().filter_map(chosen).map(|candidate| (candidate.limit, candidate.key(labels)))
    }

    /// Whether all conditions of `limit` hold for these labels, even if labels of its key are
    /// missing.
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
        let has = |(label, pattern): (&String, &Pattern)| {
            labels.get(label).is_some_and(|value| self.matches(label, pattern, value))
        };
        self.applies.matching.iter().all(has)
    }

    fn matches(&self, label: &str, pattern: &Pattern, value: &str) -> bool {
        match pattern {
            Pattern::Exact(wanted) => value == wanted,
            Pattern::OneOf(wanted) => wanted.contains(value),
            Pattern::Prefix(prefix) => value.starts_with(prefix),
            Pattern::Regex(_) => self.expressions[label].is_match(value),
        }
    }

    fn key(&self, labels: &Labels<'_>) -> Option<Arc<str>> {
        self.applies.is_keyed().then(|| joined_key(&self.applies.key, labels))
    }
}

/// The counts of exact values, sets, prefixes, prefix bytes and regular expressions, compared in
/// this order. So one exact value beats any number of sets.
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
