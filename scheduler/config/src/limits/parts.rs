//! What several keys of a resource or of a limit say together.

use crate::keys::value;
use crate::limits::objections::{objections, odd_headers};
use crate::limits::table::{DiscoverTable, LimitTable, OnKvLoss, PatternTable, ResourceTable};
use crate::reading::source::{ConfigError, Source};
use crate::reading::value::parsed;
use rampmeter_dialects::{Dialect, Reader, RetryAfterUnit};
use rampmeter_protocol::bounds::MAX_LABEL_KEY;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::policy::spec::{Applies, FairShare, OnStoreLoss, Pattern, Weight};
use toml::Spanned;

/// The default of `ride_for`: longer than an election of the store's leader, and than a server's
/// restart.
const DEFAULT_RIDE: Span = Span::from_secs(30);
/// The first character of a regular expression.
const REGEX: char = '^';
/// The last character of a prefix.
const ANYTHING: char = '*';

/// `on_kv_loss` and `ride_for`.
pub(crate) fn on_store_loss(source: &Source, table: &ResourceTable) -> Result<OnStoreLoss, ConfigError> {
    match (table.on_kv_loss.unwrap_or(OnKvLoss::Hold), &table.ride_for) {
        (OnKvLoss::Ride, ride_for) => Ok(OnStoreLoss::Ride(ride_for.as_ref().map_or(DEFAULT_RIDE, value))),
        (OnKvLoss::Hold, None) => Ok(OnStoreLoss::Hold),
        (OnKvLoss::Hold, Some(ride_for)) => {
            Err(source.fault(&ride_for.span(), "`ride_for` is for `on_kv_loss = \"ride\"`"))
        }
    }
}

/// The reader of the upstream's responses. Without `dialect` it is `usual`.
pub(crate) fn reader(source: &Source, table: &ResourceTable, usual: Reader) -> Result<Reader, ConfigError> {
    let dialect: Option<Dialect> = parsed(source, table.dialect.as_ref())?;
    let unit: Option<RetryAfterUnit> = parsed(source, table.retry_after_unit.as_ref())?;
    let reader = dialect.map_or(usual, Reader::of).counting_in(unit);
    // Limits that are found, or that a provider tells, have any name.
    let finds = |written: &Spanned<DiscoverTable>| !matches!(written.get_ref(), DiscoverTable::All(false));
    let is_open = table.limit.is_empty() || table.discover.as_ref().is_some_and(finds);
    let known: Vec<&str> = table.limit.iter().map(|limit| limit.get_ref().name.get_ref().as_str()).collect();
    let objections = objections(source, &table.objection, Some(&*known).filter(|_| !is_open))?;
    Ok(reader.with_headers(odd_headers(source, table.headers.as_ref())?).with_objections(objections))
}

/// The fair share of `table`, if it has one.
pub(crate) fn fair_share(source: &Source, table: &ResourceTable) -> Result<Option<FairShare>, ConfigError> {
    let Some(label) = &table.fair_share else {
        return match table.weights.values().next() {
            Some(weight) => {
                Err(source.fault(&weight.span(), "weights need `fair_share`, the label that names clients"))
            }
            None => Ok(None),
        };
    };
    if !(1..=MAX_LABEL_KEY).contains(&label.get_ref().chars().count()) {
        return Err(source.fault(&label.span(), format!("a label's key has 1 to {MAX_LABEL_KEY} characters")));
    }
    let weights = table.weights.iter().map(|(client, times)| Ok((client.clone(), weight(source, times)?)));
    Ok(Some(FairShare { label: label.get_ref().clone(), weights: weights.collect::<Result<_, _>>()? }))
}

fn weight(source: &Source, times: &Spanned<f64>) -> Result<Weight, ConfigError> {
    let weight = Weight::new(*times.get_ref());
    weight.ok_or_else(|| source.fault(&times.span(), format!("a weight is from 0.001 to 1e6, not {}", times.get_ref())))
}

/// `match`, `key` and `group` of a limit.
pub(crate) fn applies(source: &Source, table: &LimitTable) -> Result<Applies, ConfigError> {
    let pattern = |(label, written): (&Spanned<String>, &Spanned<PatternTable>)| {
        Ok((label_name(source, label)?, pattern(source, written)?))
    };
    let group = table
        .group
        .as_ref()
        .map(|group| Name::new(group.get_ref()).map_err(|error| source.fault(&group.span(), error.to_string())));
    Ok(Applies {
        matching: table.r#match.iter().map(pattern).collect::<Result<_, _>>()?,
        key: table.key.iter().map(|label| label_name(source, label)).collect::<Result<_, _>>()?,
        group: group.transpose()?,
    })
}

pub(crate) fn label_name(source: &Source, label: &Spanned<String>) -> Result<String, ConfigError> {
    let length = label.get_ref().chars().count();
    if (1..=MAX_LABEL_KEY).contains(&length) {
        return Ok(label.get_ref().clone());
    }
    let reason = format!("a label's name has 1 to {MAX_LABEL_KEY} characters, not {length}");
    Err(source.fault(&label.span(), reason))
}

fn pattern(source: &Source, written: &Spanned<PatternTable>) -> Result<Pattern, ConfigError> {
    match written.get_ref() {
        PatternTable::OneOf(values) if values.is_empty() => {
            Err(source.fault(&written.span(), "an empty list matches nothing; name the values, or leave the label out"))
        }
        PatternTable::OneOf(values) => Ok(Pattern::OneOf(values.iter().cloned().collect())),
        PatternTable::Value(value) if value.starts_with(REGEX) => Ok(Pattern::Regex(value.clone())),
        PatternTable::Value(value) => Ok(match value.strip_suffix(ANYTHING) {
            Some(prefix) => Pattern::Prefix(prefix.to_owned()),
            None => Pattern::Exact(value.clone()),
        }),
    }
}
