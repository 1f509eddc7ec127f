//! The requests that a limit applies to.

use crate::config::limits::table::{LimitTable, PatternTable};
use crate::config::reading::source::{ConfigError, Source};
use rampmeter_protocol::bounds::MAX_LABEL_KEY;
use rampmeter_protocol::name::Name;
use rampmeter_scheduler_core::policy::spec::{Applies, Pattern};
use toml::Spanned;

/// The first character of a regular expression.
const REGEX: char = '^';
/// The last character of a prefix.
const ANYTHING: char = '*';

/// `match`, `key` and `group` of a limit.
pub(in crate::config) fn applies(source: &Source, table: &LimitTable) -> Result<Applies, ConfigError> {
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

pub(in crate::config) fn label_name(source: &Source, label: &Spanned<String>) -> Result<String, ConfigError> {
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
