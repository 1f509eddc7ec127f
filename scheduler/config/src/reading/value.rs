//! Single values of a configuration.

use super::source::{ConfigError, Source};
use rampmeter_account::duration;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::bounds::MAX_LABEL_KEY;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;
use toml::Spanned;

/// A duration in the file, within these bounds in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Duration<const FROM: u64 = 0, const TO: u64 = { u64::MAX }>(Span);

impl<'de, const FROM: u64, const TO: u64> Deserialize<'de> for Duration<FROM, TO> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let span = deserializer.deserialize_str(DurationVisitor)?;
        within(span, Span::from_millis(FROM)..=Span::from_millis(TO)).map(Duration)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"60s\" or \"PT1M\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        duration::parse(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Span, E> {
        Err(E::custom(format!("a duration has a unit, such as \"{number}s\" or \"{number}ms\"; {number} has none")))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Span, E> {
        Err(E::custom(format!("a duration has a unit, such as \"{number}s\" or \"{number}ms\"; {number} has none")))
    }
}

impl<const FROM: u64, const TO: u64> From<Duration<FROM, TO>> for Span {
    fn from(duration: Duration<FROM, TO>) -> Self {
        duration.0
    }
}

impl<const FROM: u64, const TO: u64> From<Duration<FROM, TO>> for Option<Span> {
    fn from(duration: Duration<FROM, TO>) -> Self {
        Some(duration.0)
    }
}

/// A number in the file, within these bounds.
#[derive(Clone, Copy, Debug)]
pub struct Number<const FROM: usize, const TO: usize>(usize);

impl<'de, const FROM: usize, const TO: usize> Deserialize<'de> for Number<FROM, TO> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        within(usize::deserialize(deserializer)?, FROM..=TO).map(Number)
    }
}

impl<const FROM: usize, const TO: usize> From<Number<FROM, TO>> for usize {
    fn from(number: Number<FROM, TO>) -> Self {
        number.0
    }
}

fn within<T: PartialOrd + Display, E: de::Error>(value: T, range: RangeInclusive<T>) -> Result<T, E> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(E::custom(format!("this is from {} to {}, not {value}", range.start(), range.end()))),
    }
}

/// A value of another type that is a string in the file.
#[derive(Clone, Debug)]
pub(crate) struct Parsed<T>(pub(crate) T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Parsed).map_err(de::Error::custom)
    }
}

impl<T> From<Parsed<T>> for Option<T> {
    fn from(parsed: Parsed<T>) -> Self {
        Some(parsed.0)
    }
}

pub(crate) fn name(source: &Source, text: &Spanned<String>) -> Result<Name, ConfigError> {
    Name::new(text.get_ref()).map_err(|error| source.fault(&text.span(), error.to_string()))
}

pub(crate) fn label_key(source: &Source, key: &Spanned<String>) -> Result<String, ConfigError> {
    match (1..=MAX_LABEL_KEY).contains(&key.get_ref().chars().count()) {
        true => Ok(key.get_ref().clone()),
        false => Err(source.fault(&key.span(), format!("a label's key has 1 to {MAX_LABEL_KEY} characters"))),
    }
}

pub(crate) fn amount(source: &Source, units: &Spanned<f64>) -> Result<Amount, ConfigError> {
    Amount::new(*units.get_ref()).map_err(|error| source.fault(&units.span(), error.to_string()))
}

/// Parses a value that is a string in the file; `None` if the key is absent.
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
