//! Parsing of values that are written as text.

use serde::{Deserialize, Deserializer, de::Error};
use std::{fmt::Display, str::FromStr};

pub(crate) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

pub(crate) fn some_parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    parsed(deserializer).map(Some)
}
