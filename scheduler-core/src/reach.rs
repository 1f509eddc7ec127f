//! Which limits a request is for.

use crate::applies::{Applies, Pattern};
use crate::resource::LimitId;
use crate::spec::LimitSpec;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use regex::Regex;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Between the values of a key of several labels; in a value it stands behind an [`ESCAPE`].
const SEPARATOR: char = '|';
const ESCAPE: char = '\\';

/// Where a request belongs in a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// In the one bucket that there is.
    Shared(LimitId),
    /// In the bucket of this key.
    Keyed(LimitId, Arc<str>),
}

/// The limits of a resource, as requests are matched with them.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// Of each choice, at most one limit is for a request.
    choices: Vec<Choice>,
    /// Whether there is nothing to match: every request is for every limit.
    unconditional: bool,
}

/// The most specific first.
type Choice = Vec<Candidate>;

#[derive(Clone, Debug)]
struct Candidate {
    limit: LimitId,
    tests: Vec<(String, Test)>,
    key: Vec<String>,
}

#[derive(Clone, Debug)]
enum Test {
    Exact(String),
    OneOf(BTreeSet<String>),
    Prefix(String),
    Regex(Regex),
}

impl Reach {
    /// # Errors
    /// The index of a limit with a regular expression that is none, and what is wrong with it.
    pub(crate) fn new(limits: &[LimitSpec]) -> Result<Self, (usize, String)> {
        let mut choices: Vec<(Option<&Name>, Vec<usize>)> = Vec::new();
        for (index, limit) in limits.iter().enumerate() {
            let group = limit.applies.group.as_ref();
            match choices.iter_mut().find(|(known, _)| known.is_some() && *known == group) {
                Some((_, members)) => members.push(index),
                None => choices.push((group, vec![index])),
            }
        }
        let choice = |(_, mut members): (Option<&Name>, Vec<usize>)| {
            members.sort_by_key(|index| Reverse(specificity(&limits[*index].applies)));
            members
                .into_iter()
                .map(|index| Candidate::new(index, &limits[index].applies))
                .collect::<Result<Choice, _>>()
        };
        Ok(Reach {
            choices: choices.into_iter().map(choice).collect::<Result<_, _>>()?,
            unconditional: limits.iter().all(|limit| limit.applies.is_everything()),
        })
    }

    /// Whether every request is for every limit, and no bucket has a key.
    pub(crate) fn is_unconditional(&self) -> bool {
        self.unconditional
    }

    /// Where a request with these labels belongs.
    pub(crate) fn of<'a>(&'a self, labels: &'a Labels<'_>) -> impl Iterator<Item = Belongs> + 'a {
        self.choices.iter().filter_map(|choice| choice.iter().find_map(|candidate| candidate.belongs(labels)))
    }
}

impl Candidate {
    fn new(index: usize, applies: &Applies) -> Result<Self, (usize, String)> {
        let test = |(label, pattern): (&String, &Pattern)| Ok((label.clone(), Test::new(pattern)?));
        let tests = applies.matching.iter().map(test).collect::<Result<_, regex::Error>>();
        let tests = tests.map_err(|error| (index, format!("not a regular expression: {error}")))?;
        Ok(Candidate { limit: LimitId(index as u8), tests, key: applies.key.clone() })
    }

    fn belongs(&self, labels: &Labels<'_>) -> Option<Belongs> {
        let holds = |(label, test): &(String, Test)| labels.get(label).is_some_and(|value| test.holds(value));
        if !self.tests.iter().all(holds) {
            return None;
        }
        Some(match &self.key[..] {
            [] => Belongs::Shared(self.limit),
            [label] => Belongs::Keyed(self.limit, Arc::from(labels.get(label)?)),
            several if several.iter().all(|label| labels.get(label).is_some()) => {
                Belongs::Keyed(self.limit, joined(several, labels))
            }
            _ => return None,
        })
    }
}

impl Test {
    fn new(pattern: &Pattern) -> Result<Self, regex::Error> {
        Ok(match pattern {
            Pattern::Exact(value) => Test::Exact(value.clone()),
            Pattern::OneOf(values) => Test::OneOf(values.clone()),
            Pattern::Prefix(prefix) => Test::Prefix(prefix.clone()),
            Pattern::Regex(regex) => Test::Regex(Regex::new(regex)?),
        })
    }

    fn holds(&self, value: &str) -> bool {
        match self {
            Test::Exact(wanted) => value == wanted,
            Test::OneOf(wanted) => wanted.contains(value),
            Test::Prefix(prefix) => value.starts_with(prefix),
            Test::Regex(regex) => regex.is_match(value),
        }
    }
}

/// How many exact values, sets, prefixes (and how long they are) and regular expressions have to hold: one exact value is more
/// specific than any number of sets, and so on.
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

/// The values of several labels as one key: different values make different keys.
pub(crate) fn joined(several: &[String], labels: &Labels<'_>) -> Arc<str> {
    let mut key = String::new();
    for (number, label) in several.iter().enumerate() {
        if number > 0 {
            key.push(SEPARATOR);
        }
        for character in labels.get(label).unwrap_or_default().chars() {
            if matches!(character, SEPARATOR | ESCAPE) {
                key.push(ESCAPE);
            }
            key.push(character);
        }
    }
    key.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::time::Span;

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    fn limit(applies: Applies) -> LimitSpec {
        LimitSpec { applies, ..LimitSpec::new(name("limit"), name("requests"), Amount::ONE, Span::from_secs(1)) }
    }

    fn matching(label: &str, pattern: Pattern) -> Applies {
        Applies { matching: [(label.to_owned(), pattern)].into(), ..Applies::default() }
    }

    fn labels(pairs: &[(&'static str, &'static str)]) -> Labels<'static> {
        let mut labels = Labels::new();
        pairs.iter().for_each(|(label, value)| labels.set(*label, *value).unwrap());
        labels
    }

    #[test]
    fn patterns() {
        let set = Pattern::OneOf(["PUT", "PATCH"].map(str::to_owned).into());
        let table = [
            (Pattern::Exact("PUT".to_owned()), "PUT", true),
            (Pattern::Exact("PUT".to_owned()), "PUTS", false),
            (set.clone(), "PATCH", true),
            (set, "GET", false),
            (Pattern::Prefix("/guilds/".to_owned()), "/guilds/7", true),
            (Pattern::Prefix("/guilds/".to_owned()), "/x/guilds/", false),
            (Pattern::Regex("^/guilds/\\d+$".to_owned()), "/guilds/77", true),
            (Pattern::Regex("guild".to_owned()), "/x/guilds", true),
            (Pattern::Regex("^guild".to_owned()), "/x/guilds", false),
        ];
        for (pattern, value, holds) in table {
            let reach = Reach::new(&[limit(matching("what", pattern.clone()))]).unwrap();
            assert_eq!(reach.of(&labels(&[("what", value)])).count() == 1, holds, "{pattern:?} {value}");
            assert_eq!(reach.of(&labels(&[])).count(), 0, "{pattern:?} without the label");
        }
    }

    #[test]
    fn of_a_group_the_most_specific_applies_and_of_equals_the_first() {
        let grouped = |applies: Applies| limit(Applies { group: Some(name("rules")), ..applies });
        let two = Applies {
            matching: [("client", "vip"), ("method", "PUT")]
                .map(|(label, value)| (label.to_owned(), Pattern::Exact(value.to_owned())))
                .into(),
            ..Applies::default()
        };
        let limits = [
            grouped(Applies::default()),
            grouped(matching("route", Pattern::Regex("^/a".to_owned()))),
            grouped(matching("route", Pattern::Regex("^/a/b".to_owned()))),
            grouped(matching("client", Pattern::Exact("vip".to_owned()))),
            grouped(two),
            limit(Applies::default()),
        ];
        let reach = Reach::new(&limits).unwrap();
        for (given, chosen) in [
            (&[][..], 0),
            (&[("route", "/x")], 0),
            (&[("route", "/a/b/c")], 1),
            (&[("route", "/a"), ("client", "vip")], 3),
            (&[("method", "PUT"), ("client", "vip")], 4),
        ] {
            let found: Vec<Belongs> = reach.of(&labels(given)).collect();
            assert_eq!(found, [chosen, 5].map(|index| Belongs::Shared(LimitId(index))), "{given:?}");
        }
    }

    #[test]
    fn different_values_make_different_keys() {
        let keyed = |key: &[&str]| Applies { key: key.iter().map(ToString::to_string).collect(), ..Applies::default() };
        let reach = Reach::new(&[limit(keyed(&["a", "b"]))]).unwrap();
        let key = |a, b| match reach.of(&labels(&[("a", a), ("b", b)])).next() {
            Some(Belongs::Keyed(_, key)) => key.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!((key("x", "y"), key("x|y", ""), key("x", "|y")), ("x|y".into(), "x\\|y|".into(), "x|\\|y".into()));
        assert_eq!(reach.of(&labels(&[("a", "x")])).count(), 0, "without one of its labels");
    }

    #[test]
    fn what_is_no_regular_expression() {
        let limits = [limit(Applies::default()), limit(matching("route", Pattern::Regex("(".to_owned())))];
        let (index, reason) = Reach::new(&limits).unwrap_err();
        assert_eq!(index, 1);
        assert!(reason.starts_with("not a regular expression: regex parse error"), "{reason}");
    }
}
