//! Which requests a limit applies to.

use rampmeter_protocol::name::Name;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of labels in a bucket's key.
pub const MAX_KEY_LABELS: usize = 4;

/// Selects the requests that a limit applies to, and the labels that key its buckets.
///
/// By default a limit applies to every request and has one bucket.
///
/// ```
/// use rampmeter_scheduler_core::policy::applies::{Applies, Pattern};
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
    /// Patterns by label. All of them must match; a request without such a label does not match.
    pub matching: BTreeMap<String, Pattern>,
    /// Labels whose values together name a bucket. The limit skips a request without one of them.
    pub key: Vec<String>,
    /// Of a group's matching limits, only the most specific one applies. Of equally specific ones,
    /// the first applies.
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
    /// Whether the limit has one bucket for each key.
    #[must_use]
    pub fn is_keyed(&self) -> bool {
        !self.key.is_empty()
    }

    /// Whether the limit applies by all labels of `other`, and by more.
    pub(crate) fn is_narrower_than(&self, other: &Applies) -> bool {
        let (own, others): (BTreeSet<_>, BTreeSet<_>) = (self.labels().collect(), other.labels().collect());
        own.len() > others.len() && own.is_superset(&others)
    }

    fn labels(&self) -> impl Iterator<Item = &String> {
        self.matching.keys().chain(&self.key)
    }

    /// Whether the limit applies to every request and has one bucket.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.matching.is_empty() && self.key.is_empty() && self.group.is_none()
    }
}

impl Pattern {
    /// Whether this pattern certainly matches every value that `other` matches.
    pub(crate) fn covers(&self, other: &Pattern) -> bool {
        match (self, other) {
            (Pattern::OneOf(own), Pattern::OneOf(others)) => own.is_superset(others),
            (Pattern::OneOf(own), Pattern::Exact(value)) => own.contains(value),
            (Pattern::Exact(_) | Pattern::OneOf(_) | Pattern::Prefix(_) | Pattern::Regex(_), _) => self == other,
        }
    }

    pub(crate) fn expression(&self) -> Option<Result<Regex, regex::Error>> {
        if let Pattern::Regex(regex) = self { Some(Regex::new(regex)) } else { None }
    }
}
