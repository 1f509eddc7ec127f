//! Durations within a range.

use super::source::{ConfigError, Source};
use super::value::optional_span;
use rampmeter_protocol::time::Span;
use std::ops::RangeInclusive;
use toml::Spanned;

/// The duration in `text`, which has to be within `range`.
pub(in crate::config) fn within(
    source: &Source,
    text: Option<&Spanned<String>>,
    range: &RangeInclusive<Span>,
) -> Result<Option<Span>, ConfigError> {
    let (Some(text), Some(span)) = (text, optional_span(source, text)?) else { return Ok(None) };
    if range.contains(&span) {
        return Ok(Some(span));
    }
    Err(source.fault(&text.span(), format!("this is from {} to {}, not {span}", range.start(), range.end())))
}
