//! The text of a configuration, and its faults by line and column.

use rampmeter_protocol::plain_types::in_plain_types;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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
    /// Returns each fault by itself.
    #[must_use]
    pub fn each(&self) -> &[ConfigError] {
        if let ConfigError::Several(faults) = self { faults } else { std::slice::from_ref(self) }
    }

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
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A file's text, which converts offsets to positions.
#[derive(Debug)]
pub struct Source<'a> {
    /// The file.
    pub path: &'a Path,
    pub(crate) text: &'a str,
    /// Whether the text is in the store, where older versions may have written it.
    pub(crate) is_stored: bool,
}

impl<'a> Source<'a> {
    /// Creates the text of the file at `path`.
    #[must_use]
    pub fn new(path: &'a Path, text: &'a str) -> Self {
        Source { path, text, is_stored: false }
    }

    /// Creates a fault of the file that begins where `span` does.
    #[must_use]
    pub fn fault(&self, span: &Range<usize>, reason: impl Into<String>) -> ConfigError {
        let reason = in_plain_types(&reason.into());
        ConfigError::Wrong { path: self.path.to_owned(), position: self.position(span.start), reason }
    }

    /// Returns where `table` gives the value of `field`, or else its name.
    pub(crate) fn value_in<T>(&self, table: &Spanned<T>, field: &str) -> Range<usize> {
        let keys = match field {
            "period" => &["period", "refill_interval", "time_to_live", "drain_velocity", "name"][..],
            field => &[field, "name"],
        };
        let root = DeTable::parse(self.text).map(|root| Spanned::new(root.span(), DeValue::Table(root.into_inner())));
        root.ok().and_then(|root| value_in(&root, &table.span(), keys)).unwrap_or(table.span())
    }

    fn position(&self, offset: usize) -> Position {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        Position { line, column: before[line_start..].chars().count() + 1 }
    }
}

/// Returns where the table at `span` gives the value of the first of these keys that it has.
fn value_in(within: &Spanned<DeValue<'_>>, span: &Range<usize>, keys: &[&str]) -> Option<Range<usize>> {
    match within.get_ref() {
        DeValue::Table(table) if within.span() == *span => {
            keys.iter().find_map(|key| table.get(*key)).map(Spanned::span)
        }
        DeValue::Table(table) => table.values().find_map(|value| value_in(value, span, keys)),
        DeValue::Array(elements) => elements.iter().find_map(|element| value_in(element, span, keys)),
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            None
        }
    }
}
