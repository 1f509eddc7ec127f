//! To which requests a limit applies.

use rampmeter_protocol::name::Name;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// Most labels that buckets are keyed by.
pub const MAX_KEY_LABELS: usize = 4;

/// Which requests a limit is for, and whether each value of their labels has a bucket of its own.
///
/// By default a limit is for every request, and has one bucket.
///
/// ```
/// use rampmeter_scheduler_core::policy::applies::{Applies, Pattern};
///
/// // Each Discord server has a window of its own for what is done to it.
/// let per_server = Applies {
///     matching: [("route".to_owned(), Pattern::Prefix("/guilds/".to_owned()))].into(),
///     key: vec!["guild".to_owned()],
///     group: None,
/// };
/// assert!(per_server.is_keyed() && !Applies::default().is_keyed());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applies {
    /// What labels have to be; all of it has to hold. A request without such a label does not match.
    pub matching: BTreeMap<String, Pattern>,
    /// The labels whose values together name a bucket. A request without one of them is none of this limit's.
    pub key: Vec<String>,
    /// Of the limits of one group only the most specific one that is for a request applies to it; of equally specific ones, the
    /// first.
    pub group: Option<Name>,
}

/// What the value of a label has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This very value.
    Exact(String),
    /// One of these.
    OneOf(BTreeSet<String>),
    /// A value that begins so.
    Prefix(String),
    /// A value in which this regular expression is found. It takes time linear in the value's length, whatever it is.
    Regex(String),
}

impl Applies {
    /// Whether there are buckets by key.
    #[must_use]
    pub fn is_keyed(&self) -> bool {
        !self.key.is_empty()
    }

    /// Whether this is every request, with one bucket for all.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.matching.is_empty() && self.key.is_empty() && self.group.is_none()
    }
}

impl Pattern {
    /// The regular expression, where it is one.
    pub(crate) fn expression(&self) -> Option<Result<Regex, regex::Error>> {
        if let Pattern::Regex(regex) = self { Some(Regex::new(regex)) } else { None }
    }
}
