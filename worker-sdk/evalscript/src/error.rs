//! Why a script has no result.

use crate::bounds::{MAX_BYTES, MAX_DEPTH, MAX_SOURCE, MAX_STEPS};

/// Why a script has no result, and in which line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ScriptError {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong in that line.
    pub problem: Problem,
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The script is longer than [`MAX_SOURCE`].
    #[error("a script has at most {MAX_SOURCE} bytes")]
    TooLong,
    /// The script is not JavaScript.
    #[error("{0}")]
    Syntax(String),
    /// JavaScript that this engine does not understand.
    #[error("{0} is not understood here")]
    Unsupported(String),
    /// The script threw this error, or JavaScript did.
    #[error("{0}")]
    Thrown(String),
    /// `setup()` needs a value that a statement before it may have changed, which this engine does
    /// not understand.
    #[error("{0}")]
    Unknown(String),
    /// There is no function `setup`.
    #[error("there is no function `setup`")]
    NoSetup,
    /// The script takes more than [`MAX_STEPS`].
    #[error("the script does not end within {MAX_STEPS} steps")]
    TooManySteps,
    /// The script takes more than [`MAX_BYTES`].
    #[error("the script takes more than {MAX_BYTES} bytes")]
    TooMuchMemory,
    /// The script is nested more than [`MAX_DEPTH`] deep.
    #[error("calls or expressions are nested more than {MAX_DEPTH} deep")]
    TooDeep,
}

impl Problem {
    /// Whether the script must end with this problem.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Problem::TooLong | Problem::NoSetup | Problem::TooManySteps | Problem::TooMuchMemory => true,
            Problem::Syntax(_)
            | Problem::Unsupported(_)
            | Problem::Thrown(_)
            | Problem::Unknown(_)
            | Problem::TooDeep => false,
        }
    }

    pub(crate) fn unsupported(what: &str) -> Self {
        Problem::Unsupported(what.to_owned())
    }

    pub(crate) fn thrown(what: impl Into<String>) -> Self {
        Problem::Thrown(what.into())
    }
}
