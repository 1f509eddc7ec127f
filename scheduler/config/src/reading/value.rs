//! Single values of a configuration.

use super::source::{ConfigError, Source};
use rampmeter_account::duration;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;
use toml::Spanned;

/// A duration in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duration(Span);

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"60s\" or \"PT1M\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        duration::parse(text).map(Duration).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Duration, E> {
        Err(E::custom(format!("a duration has a unit, such as \"{number}s\" or \"{number}ms\"; {number} has none")))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Duration, E> {
        Err(E::custom(format!("a duration has a unit, such as \"{number}s\" or \"{number}ms\"; {number} has none")))
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        duration.0
    }
}

impl From<Duration> for Option<Span> {
    fn from(duration: Duration) -> Self {
        Some(duration.0)
    }
}

pub(crate) fn name(source: &Source, text: &Spanned<String>) -> Result<Name, ConfigError> {
    Name::new(text.get_ref()).map_err(|error| source.fault(&text.span(), error.to_string()))
}

pub(crate) fn amount(source: &Source, units: &Spanned<f64>) -> Result<Amount, ConfigError> {
    Amount::new(*units.get_ref()).map_err(|error| source.fault(&units.span(), error.to_string()))
}

/// Reads a duration.
///
/// # Errors
/// If the text is no duration.
pub fn span(source: &Source, text: &Spanned<String>) -> Result<Span, ConfigError> {
    duration::parse(text.get_ref()).map_err(|reason| source.fault(&text.span(), reason))
}

pub(crate) fn optional_span(source: &Source, text: Option<&Spanned<String>>) -> Result<Option<Span>, ConfigError> {
    text.map(|text| span(source, text)).transpose()
}

/// The duration in `text`, which has to be within `range`.
pub(crate) fn within(
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

/// Parses a value that the file has as a string; `None` if the key is absent.
///
/// # Errors
/// The error of the parser, with its place.
pub fn parsed<T: FromStr<Err: Display>>(
    source: &Source,
    text: Option<&Spanned<String>>,
) -> Result<Option<T>, ConfigError> {
    let parse = |text: &Spanned<String>| {
        text.get_ref().parse().map_err(|error: T::Err| source.fault(&text.span(), error.to_string()))
    };
    text.map(parse).transpose()
}
