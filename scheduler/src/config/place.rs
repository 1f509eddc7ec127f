//! The place of a fault in a file.

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
    #[error("{}:{place}: {reason}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The place in the file.
        place: Place,
        /// What is wrong, or what is allowed.
        reason: String,
    },
    /// The file has several faults, in its order.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<ConfigError>),
}

impl ConfigError {
    /// The place of the first fault.
    pub(super) fn place(&self) -> Option<Place> {
        match self {
            ConfigError::Unreadable { .. } => None,
            ConfigError::Wrong { place, .. } => Some(*place),
            ConfigError::Several(faults) => faults.first().and_then(ConfigError::place),
        }
    }
}

/// A line and a column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    line: usize,
    column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A file's text, which turns offsets into places.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
    /// Whether the text is in the store, where older versions may have written it.
    pub(super) is_stored: bool,
}

impl Source<'_> {
    pub(super) fn fault(&self, span: &Range<usize>, reason: impl Into<String>) -> ConfigError {
        let reason = in_plain_types(&reason.into());
        ConfigError::Wrong { path: self.path.to_owned(), place: self.place(span.start), reason }
    }

    fn place(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        Place { line, column: before[line_start..].chars().count() + 1 }
    }
}
