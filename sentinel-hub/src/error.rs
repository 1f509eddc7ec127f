//! Errors of estimates.

use std::fmt;

/// Why there is no estimate: the place in the body, the problem, and the remedy.
///
/// ```
/// use rampmeter_sentinel_hub::{Api, ErrorKind, Estimate, Given};
/// let error = Estimate::of_body(Api::Process, r#"{"input": {"data": [{}]}}"#, &Given::default()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Malformed);
/// assert_eq!(error.path(), Some("input.data[0]"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    path: Option<String>,
    problem: String,
    remedy: String,
    gaps: Vec<Gap>,
}

/// A fact that neither the body nor the caller provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    what: &'static str,
    /// What to pass. The command line calls it `--option`.
    options: &'static [&'static str],
    instead: &'static str,
}

impl Gap {
    pub(crate) const BANDS: Gap = Gap::new("the number of input bands", &["bands"]);
    pub(crate) const SAMPLES: Gap = Gap::new("the samples per pixel", &["samples"]);
    pub(crate) const FORMAT: Gap = Gap::new("the format", &["format"]);
    pub(crate) const PIXELS: Gap = Gap::new("pixels", &["width", "height"]);
    pub(crate) const INTERVALS: Gap = Gap::new("the number of intervals", &["intervals"]);
    pub(crate) const TILES: Gap = Gap::new("the tiles and the pixels of one", &["tiles", "width", "height"]);

    const fn new(what: &'static str, options: &'static [&'static str]) -> Self {
        Gap { what, options, instead: "" }
    }

    /// Sets another remedy: the caller does `instead`.
    pub(crate) const fn or(self, instead: &'static str) -> Self {
        Gap { instead, ..self }
    }
}

/// The kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The body is not JSON, is too long, or has a wrong relevant value. Correct the body.
    Malformed,
    /// The body lacks something that the service needs too. Add it.
    Missing,
    /// A number is too small, too large, or not whole.
    OutOfBounds,
    /// A correct body may leave the needed value out. Pass it in [`Given`](crate::Given).
    Unknowable,
    /// The evalscript cannot be read. Correct it, or pass what it says in [`Given`](crate::Given).
    Script,
    /// No API, version of the rules or deployment has this name.
    NotKnown,
    /// The request costs more than an amount can hold.
    TooMuch,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Error { kind, path: None, problem: problem.into(), remedy: remedy.into(), gaps: Vec::new() }
    }

    /// Creates an error that the caller solves by passing what closes `gap`.
    pub(crate) fn gap(kind: ErrorKind, problem: impl Into<String>, gap: Gap) -> Self {
        Error { gaps: vec![gap], ..Error::new(kind, problem, remedy(&[gap])) }
    }

    pub(crate) fn unknowable(problem: impl Into<String>, gap: Gap) -> Self {
        Error::gap(ErrorKind::Unknowable, problem, gap)
    }

    /// Returns whether passing options solves the problem.
    pub(crate) fn is_gap(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Joins two errors. The remedy of the result closes the gaps of both.
    pub(crate) fn and(mut self, other: Error) -> Self {
        if !self.problem.contains(&other.problem) {
            let path = other.path.filter(|path| self.path.as_ref() != Some(path));
            let path = path.map_or(String::new(), |path| format!("{path}: "));
            self.problem = format!("{}; {path}{}", self.problem, other.problem);
        }
        self.gaps.extend(other.gaps);
        self.remedy = remedy(&self.gaps);
        self
    }

    pub(crate) fn too_much() -> Self {
        Error::new(ErrorKind::TooMuch, "the request costs more than 1e9 processing units", "split it")
    }

    pub(crate) fn at(self, path: impl Into<String>) -> Self {
        Error { path: Some(path.into()), ..self }
    }

    /// Returns the kind of problem.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the place in the body, such as `input.data[1].type`.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Returns what to do.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

fn remedy(gaps: &[Gap]) -> String {
    let (mut facts, mut options) = (Vec::new(), Vec::new());
    for gap in gaps {
        if !facts.contains(&gap.what) {
            facts.push(gap.what);
        }
        options.extend(gap.options.iter().map(|option| format!("`--{option}`")));
    }
    let mut seen = std::collections::BTreeSet::new();
    options.retain(|option| seen.insert(option.clone()));
    let instead = gaps.first().map_or("", |gap| gap.instead);
    let instead = if instead.is_empty() || gaps.iter().any(|gap| gap.instead != instead) {
        String::new()
    } else {
        format!("{instead}, or ")
    };
    let like = if facts.len() == 1 { "its like" } else { "their likes" };
    format!("{instead}pass {} ({}, or {like} in `given`)", listed(&facts), options.join(", "))
}

/// Joins facts as `a`, `a and b`, or `a, b and c`.
fn listed(facts: &[&str]) -> String {
    match facts {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        _ => facts.join(""),
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{path}: ")?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}
