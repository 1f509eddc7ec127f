//! Single values of a configuration.

use super::duration;
use super::place::{ConfigError, Source};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use toml::Spanned;

pub(super) fn name(source: &Source, text: &Spanned<String>) -> Result<Name, ConfigError> {
    Name::new(text.get_ref()).map_err(|error| source.fault(&text.span(), error.to_string()))
}

pub(super) fn amount(source: &Source, units: &Spanned<f64>) -> Result<Amount, ConfigError> {
    Amount::new(*units.get_ref()).map_err(|error| source.fault(&units.span(), error.to_string()))
}

pub(super) fn span(source: &Source, text: &Spanned<String>) -> Result<Span, ConfigError> {
    duration::parse(text.get_ref()).map_err(|reason| source.fault(&text.span(), reason))
}

pub(super) fn optional_span(source: &Source, text: Option<&Spanned<String>>) -> Result<Option<Span>, ConfigError> {
    text.map(|text| span(source, text)).transpose()
}

/// A time of a scenario, from its beginning.
pub(super) fn time(source: &Source, text: Option<&Spanned<String>>, otherwise: Time) -> Result<Time, ConfigError> {
    text.map_or(Ok(otherwise), |text| Ok(Time::ORIGIN + span(source, text)?))
}
