//! The reader of an upstream's responses.

use crate::config::limits::table::ResourceTable;
use crate::config::reading::source::{ConfigError, Source};
use rampmeter_dialects::{Dialect, Reader, RetryAfterUnit};
use std::fmt::Display;
use std::str::FromStr;
use toml::Spanned;

/// The reader that `dialect` and `retry_after_unit` ask for. Without `dialect` it is `usual`.
pub(in crate::config) fn reader(source: &Source, table: &ResourceTable, usual: Reader) -> Result<Reader, ConfigError> {
    let dialect: Option<Dialect> = parsed(source, table.dialect.as_ref())?;
    let unit: Option<RetryAfterUnit> = parsed(source, table.retry_after_unit.as_ref())?;
    Ok(dialect.map_or(usual, Reader::of).counting_in(unit))
}

/// Parses a value that the file has as a string; `None` if the key is absent.
pub(in crate::config) fn parsed<T: FromStr<Err: Display>>(
    source: &Source,
    text: Option<&Spanned<String>>,
) -> Result<Option<T>, ConfigError> {
    let parse = |text: &Spanned<String>| {
        text.get_ref().parse().map_err(|error: T::Err| source.fault(&text.span(), error.to_string()))
    };
    text.map(parse).transpose()
}
