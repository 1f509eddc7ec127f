//! The reader of an upstream's responses.

use crate::config::limits::table::ResourceTable;
use crate::config::reading::source::{ConfigError, Source};
use crate::config::reading::value::parsed;
use rampmeter_dialects::{Dialect, Reader, RetryAfterUnit};

/// The reader that `dialect` and `retry_after_unit` ask for. Without `dialect` it is `usual`.
pub(in crate::config) fn reader(source: &Source, table: &ResourceTable, usual: Reader) -> Result<Reader, ConfigError> {
    let dialect: Option<Dialect> = parsed(source, table.dialect.as_ref())?;
    let unit: Option<RetryAfterUnit> = parsed(source, table.retry_after_unit.as_ref())?;
    Ok(dialect.map_or(usual, Reader::of).counting_in(unit))
}
