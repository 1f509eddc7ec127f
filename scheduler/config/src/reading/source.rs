//! The text of a configuration, and its faults by line and column.

use rampmeter_protocol::plain_types::in_plain_types;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A fault of the configuration: file, line, column and reason.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{}: can't be read; `rampmeter check --print-default` prints one to start from", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file has a fault.
    #[error("{}:{position}: {reason}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The position in the file.
        position: Position,
        /// What is wrong, or what is allowed.
        reason: String,
    },
    /// The file has several faults, in its order.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<ConfigError>),
}

impl ConfigError {
    /// The position of the first fault.
    pub(crate) fn position(&self) -> Option<Position> {
        match self {
            ConfigError::Unreadable { .. } => None,
            ConfigError::Wrong { position, .. } => Some(*position),
            ConfigError::Several(faults) => faults.first().and_then(ConfigError::position),
        }
    }
}

/// A line and a column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    line: usize,
    column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A file's text, which turns offsets into positions.
#[derive(Debug)]
pub struct Source<'a> {
    /// The file.
    pub path: &'a Path,
    pub(crate) text: &'a str,
    /// Whether the text is in the store, where older versions may have written it.
    pub(crate) is_stored: bool,
}

impl<'a> Source<'a> {
    /// The text of the file at `path`.
    #[must_use]
    pub fn new(path: &'a Path, text: &'a str) -> Self {
        Source { path, text, is_stored: false }
    }

    /// The fault of the file that begins where `span` does.
    #[must_use]
    pub fn fault(&self, span: &Range<usize>, reason: impl Into<String>) -> ConfigError {
        let reason = in_plain_types(&reason.into());
        ConfigError::Wrong { path: self.path.to_owned(), position: self.position(span.start), reason }
    }

    fn position(&self, offset: usize) -> Position {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        Position { line, column: before[line_start..].chars().count() + 1 }
    }
}
