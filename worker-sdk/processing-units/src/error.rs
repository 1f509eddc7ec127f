//! Why there is no estimate.

use std::fmt;

/// Why there is no estimate: where in the body, what is wrong, and what to do.
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

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The body is no JSON, too long, or has something else where it matters: correct the body.
    Malformed,
    /// The body lacks what the service needs as well: add it.
    Missing,
    /// A number is too small, too large, or not whole.
    OutOfBounds,
    /// The body is fine, but does not tell: pass it in [`Given`](crate::Given).
    Unknowable,
    /// The evalscript can't be read: correct it, or pass in [`Given`](crate::Given) what it says.
    Script,
    /// An API, a version of the rules or a deployment of this name is not known.
    NotKnown,
    /// The request costs more than an amount can hold.
    TooMuch,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Error { kind, path: None, problem: problem.into(), remedy: remedy.into() }
    }

    /// What can be told by passing `option`, which the command line calls `--option`.
    pub(crate) fn unknowable(problem: impl Into<String>, what: &str, options: &[&str]) -> Self {
        Error::new(ErrorKind::Unknowable, problem, pass(what, options))
    }

    pub(crate) fn too_much() -> Self {
        Error::new(ErrorKind::TooMuch, "the request costs more than 1e9 processing units", "split it")
    }

    pub(crate) fn at(self, path: impl Into<String>) -> Self {
        Error { path: Some(path.into()), ..self }
    }

    /// What kind of thing is wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Where in the body, such as `input.data[1].type`.
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

/// The remedy that is to pass something.
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
