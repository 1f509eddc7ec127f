//! Reads the tables of a file in spite of faults, so that all of them are reported at once.

use super::source::{ConfigError, Source};
use rampmeter_protocol::suggestion::closest;
use serde::de::{DeserializeOwned, IntoDeserializer};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

const MANY: usize = 20;

/// The faults found in a file so far.
#[derive(Debug, Default)]
pub struct Faults {
    found: Vec<ConfigError>,
    /// Tables that lost a wrong key. Their other keys may be inconsistent without it.
    spoiled: Vec<Range<usize>>,
    file: Range<usize>,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: ConfigError) {
        match fault {
            ConfigError::Several(faults) => self.found.extend(faults),
            ConfigError::Unreadable { .. } | ConfigError::Wrong { .. } => self.found.push(fault),
        }
    }

    /// Returns the value that was read, or notes the fault.
    pub(crate) fn take<T>(&mut self, read: Result<T, ConfigError>) -> Option<T> {
        read.map_err(|fault| self.add(fault)).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether `table` lost a wrong key.
    pub(crate) fn spoiled<T>(&self, table: &Spanned<T>) -> bool {
        self.spoiled.contains(&table.span())
    }

    /// Whether the file lost a table that may have been meant to be part of another.
    pub(crate) fn lost_table(&self) -> bool {
        self.spoiled.contains(&self.file)
    }

    /// Returns `read` if there was no fault.
    ///
    /// # Errors
    /// All faults, in the order of the file.
    pub fn or<T>(mut self, read: Option<T>) -> Result<T, ConfigError> {
        match read {
            Some(read) if self.found.is_empty() => Ok(read),
            Some(_) | None if self.found.len() == 1 => Err(self.found.remove(0)),
            Some(_) | None => {
                self.found.sort_by_key(ConfigError::position);
                self.found.truncate(MANY);
                Err(ConfigError::Several(self.found))
            }
        }
    }
}

/// Reads the tables of the file, without what is wrong in them, and the faults; fails if nothing is
/// left. `addition` appends advice to a message of the parser.
pub(crate) fn read<T: DeserializeOwned>(
    source: &Source,
    addition: impl Fn(&str) -> &'static str,
) -> Result<(T, Faults), ConfigError> {
    read_prepared(source, addition, |_, _| Ok(()))
}

/// Reads the tables of the file like `read`, after `prepare` has changed them.
///
/// # Errors
/// The faults, if nothing is left to go on with.
pub fn read_prepared<T: DeserializeOwned>(
    source: &Source,
    addition: impl Fn(&str) -> &'static str,
    prepare: impl Fn(&Source, &mut DeTable<'_>) -> Result<(), ConfigError>,
) -> Result<(T, Faults), ConfigError> {
    let fault = |error: &toml::de::Error| {
        let (at, message) = (error.span().unwrap_or(0..0), error.message());
        source.fault(&at, with_suggestion(message).unwrap_or_else(|| message.to_owned() + addition(message)))
    };
    let root = DeTable::parse(source.text).map_err(|error| fault(&error))?;
    let span = root.span();
    let mut faults = Faults { file: span.clone(), ..Faults::default() };
    let mut root = root.into_inner();
    prepare(source, &mut root)?;
    let mut root = Spanned::new(span, DeValue::Table(root));
    // Each fault takes another pass over all tables.
    for _ in 0..MANY {
        let error = match T::deserialize(root.clone().into_deserializer()) {
            Ok(tables) => return Ok((tables, faults)),
            Err(error) => error,
        };
        let at = error.span().unwrap_or(0..0);
        // A key that is missing because it was wrong is no further fault.
        if !faults.spoiled.contains(&at) {
            faults.add(fault(&error));
        }
        if remove(&mut root, &at, &mut faults.spoiled).is_none() {
            break;
        }
    }
    faults.or(None)
}

/// Suggests the key or value closest to a mistyped one, in place of a list of all, if one is close.
fn with_suggestion(message: &str) -> Option<String> {
    let mut words = message.split('`').skip(1).step_by(2);
    let meant = words.next().and_then(|unknown| closest(unknown, words))?;
    let (unknown, _) = message.split_once(", expected ")?;
    unknown.starts_with("unknown ").then(|| format!("{unknown}; did you mean `{meant}`?"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Loser {
    Table,
    List,
}

/// Removes the key, value or table at `span`, if any, and notes the table that it was in.
fn remove(from: &mut Spanned<DeValue<'_>>, span: &Range<usize>, spoiled: &mut Vec<Range<usize>>) -> Option<Loser> {
    let own = from.span();
    match from.get_mut() {
        DeValue::Table(table) => {
            if let Some(loser) = table.iter_mut().find_map(|(_, value)| remove(value, span, spoiled)) {
                spoiled.extend((loser == Loser::List).then_some(own));
                return Some(Loser::Table);
            }
            let is_it =
                |(key, value): &(&Spanned<DeString>, &Spanned<DeValue>)| key.span() == *span || value.span() == *span;
            let key = table.iter().find(is_it)?.0.clone();
            table.remove(&key);
            spoiled.push(own);
            Some(Loser::Table)
        }
        DeValue::Array(elements) => {
            if let Some(loser) = elements.iter_mut().find_map(|element| remove(element, span, spoiled)) {
                return Some(loser);
            }
            let others = elements.iter().filter(|element| element.span() != *span).cloned();
            let others: DeArray = others.collect();
            let found = others.len() < elements.len();
            *elements = others;
            found.then_some(Loser::List)
        }
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            None
        }
    }
}
