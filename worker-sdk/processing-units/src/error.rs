//! Why there is no estimate.

use std::fmt;

/// Why there is no estimate: the place in the body, the problem, and what to do.
///
/// ```
/// use rampmeter_processing_units::{Api, ErrorKind, Estimate, Given};
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
}

/// The kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The body is not JSON, is too long, or has a wrong value in a relevant place: correct the
    /// body.
    Malformed,
    /// The body lacks something that the service needs too: add it.
    Missing,
    /// A number is too small, too large, or not whole.
    OutOfBounds,
    /// The body is correct but does not say it: pass it in [`Given`](crate::Given).
    Unknowable,
    /// The evalscript cannot be read: correct it, or pass what it says in [`Given`](crate::Given).
    Script,
    /// No API, version of the rules or deployment has this name.
    NotKnown,
    /// The request costs more than an amount can hold.
    TooMuch,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Error { kind, path: None, problem: problem.into(), remedy: remedy.into() }
    }

    /// A problem that passing one of `options` solves. The command line calls it `--option`.
    pub(crate) fn unknowable(problem: impl Into<String>, what: &str, options: &[&str]) -> Self {
        Error::new(ErrorKind::Unknowable, problem, pass(what, options))
    }

    pub(crate) fn too_much() -> Self {
        Error::new(ErrorKind::TooMuch, "the request costs more than 1e9 processing units", "split it")
    }

    pub(crate) fn at(self, path: impl Into<String>) -> Self {
        Error { path: Some(path.into()), ..self }
    }

    /// The kind of problem.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The place in the body, such as `input.data[1].type`.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

/// The remedy of passing `what`.
pub(crate) fn pass(what: &str, options: &[&str]) -> String {
    let options: Vec<_> = options.iter().map(|option| format!("`--{option}`")).collect();
    format!("pass {what} ({}, or its like in `Given`)", options.join(", "))
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
