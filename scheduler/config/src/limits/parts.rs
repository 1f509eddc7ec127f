//! Parts of a resource or of a limit that several keys describe together.

use crate::limits::objections::{objections, odd_headers};
use crate::limits::table::{AccountTable, DiscoverTable, FullAccountTable, LimitTable, PatternTable, ResourceTable};
use crate::reading::source::{ConfigError, Source};
use crate::reading::value::{label_key, parsed};
use rampmeter_dialects::{Dialect, Reader, RetryAfterUnit};
use rampmeter_policy::spec::{AccountSpec, Applies, FairShare, MAX_USAGE_LABELS, Pattern, Weight};
use rampmeter_protocol::name::Name;
use toml::Spanned;

const REGEX: char = '^';
const ANYTHING: char = '*';

/// Returns the reader of the upstream's responses, which is `usual` without `dialect`.
pub(crate) fn reader(source: &Source, table: &ResourceTable, usual: Reader) -> Result<Reader, ConfigError> {
    let dialect: Option<Dialect> = parsed(source, table.dialect.as_ref())?;
    let unit: Option<RetryAfterUnit> = parsed(source, table.retry_after_unit.as_ref())?;
    let reader = dialect.map_or(usual, Reader::of).counting_in(unit);
    // Limits that are discovered, or that a provider states, have any name.
    let finds = |written: &Spanned<DiscoverTable>| !matches!(written.get_ref(), DiscoverTable::All(false));
    let is_open = table.limit.is_empty() || table.discover.as_ref().is_some_and(finds);
    let known: Vec<&str> = table.limit.iter().map(|limit| limit.get_ref().name.get_ref().as_str()).collect();
    let objections = objections(source, &table.objection, Some(&*known).filter(|_| !is_open))?;
    Ok(reader.with_headers(odd_headers(source, table.headers.as_ref())?).with_objections(objections))
}

pub(crate) fn fair_share(source: &Source, table: &ResourceTable) -> Result<Option<FairShare>, ConfigError> {
    let Some(label) = &table.fair_share else {
        return match table.weights.values().next() {
            Some(weight) => {
                Err(source.fault(&weight.span(), "weights need `fair_share`, the label that names clients"))
            }
            None => Ok(None),
        };
    };
    let label = label_key(source, label)?;
    let weights = table.weights.iter().map(|(client, times)| Ok((client.clone(), weight(source, times)?)));
    Ok(Some(FairShare { label, weights: weights.collect::<Result<_, _>>()? }))
}

pub(crate) fn usage_by(source: &Source, table: &ResourceTable) -> Result<Vec<String>, ConfigError> {
    if let Some(beyond) = table.usage_by.get(MAX_USAGE_LABELS) {
        return Err(source.fault(&beyond.span(), format!("use is counted by at most {MAX_USAGE_LABELS} labels")));
    }
    table.usage_by.iter().map(|label| label_key(source, label)).collect()
}

fn weight(source: &Source, times: &Spanned<f64>) -> Result<Weight, ConfigError> {
    let weight = Weight::new(*times.get_ref());
    weight.ok_or_else(|| source.fault(&times.span(), format!("a weight is from 0.001 to 1e6, not {}", times.get_ref())))
}

/// Reads the accounts of a resource.
pub(crate) fn accounts(source: &Source, table: &ResourceTable) -> Result<Vec<AccountSpec>, ConfigError> {
    let account = |written: &Spanned<AccountTable>| {
        let fault = |reason: String| source.fault(&written.span(), reason);
        let named = |name: &str| Name::new(name).map_err(|error| fault(error.to_string()));
        match written.get_ref() {
            AccountTable::Name(name) => Ok(AccountSpec::new(named(name)?)),
            AccountTable::Full(FullAccountTable { name, weight, classes }) => {
                let (times, classes) = (weight.unwrap_or(1.0), classes.iter().map(|class| named(class)));
                let weight = Weight::new(times);
                let weight = weight.ok_or_else(|| fault(format!("a weight is from 0.001 to 1e6, not {times}")))?;
                Ok(AccountSpec { name: named(name)?, weight, classes: classes.collect::<Result<_, _>>()? })
            }
        }
    };
    table.accounts.iter().map(account).collect()
}

/// Reads whether each account has a limit for itself.
pub(crate) fn per_account(source: &Source, table: &LimitTable) -> Result<bool, ConfigError> {
    match &table.per {
        None => Ok(false),
        Some(per) if per.get_ref() == "account" => Ok(true),
        Some(per) => {
            let reason =
                format!("a limit can be per \"account\", not per \"{}\"; for a label, say `key`", per.get_ref());
            Err(source.fault(&per.span(), reason))
        }
    }
}

/// Reads `match`, `key` and `group` of a limit.
pub(crate) fn applies(source: &Source, table: &LimitTable) -> Result<Applies, ConfigError> {
    let pattern = |(label, written): (&Spanned<String>, &Spanned<PatternTable>)| {
        Ok((label_key(source, label)?, pattern(source, written)?))
    };
    Ok(Applies {
        matching: table.r#match.iter().map(pattern).collect::<Result<_, _>>()?,
        key: table.key.iter().map(|label| label_key(source, label)).collect::<Result<_, _>>()?,
        group: parsed(source, table.group.as_ref())?,
    })
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
