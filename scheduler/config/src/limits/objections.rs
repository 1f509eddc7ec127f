//! `[[resource.objection]]` and `[resource.headers]`.

use crate::keys::{keys, value};
use crate::reading::source::{ConfigError, Source};
use crate::reading::value::{Duration, name, parsed};
use rampmeter_dialects::{Means, Objection, OddHeaders, RetryAfterUnit, Statuses};
use rampmeter_protocol::headers::speaks_of_limits;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::suggestion::quoted;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

/// The most characters in the text of a body, which proxies search each error for.
const MAX_BODY_TEXT: usize = 256;

keys! {
    /// `[[resource.objection]]`
    ///
    /// A response that objects to a call, or that does not although it looks so. The first that fits decides.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an objection")]
    pub(crate) struct ObjectionTable {
        /// The status, or all that begin with a digit: "5xx". Without this: any.
        pub status: Option<Spanned<StatusTable>> = Given("403"),
        /// A header with its value, which may end with `*`, or its name alone.
        pub header: Option<Spanned<String>> = Example(r#""x-throttled-by: account*""#),
        /// The code of the error in the body. Only its letters and digits count.
        pub code: Option<Spanned<String>> = Example(r#""RATE_LIMITED""#),
        /// A text in the body, in any case. The proxy looks for it. Other workers pass it on as the
        /// `code` of their settle, or the `code` above if there is one.
        pub body: Option<Spanned<String>> = Example(r#""too many requests""#),
        /// What that means: "limit", a call came too early; "pause", the upstream is overloaded, which
        /// tells nothing of limits; "quota", it is spent; "ignore", it is not about limits.
        pub means: Spanned<Means> = Given(r#""limit""#),
        /// How long calls pause if the response does not say.
        pub pause: Option<Spanned<Duration>> = Example(r#""30s""#),
        /// The limit that is meant. Without this: the one that the response names, if it does.
        pub limit: Option<Spanned<String>> = Example(r#""requests-per-minute""#),
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a status is a number from 100 to 999, or one such as \"5xx\"")]
pub(crate) enum StatusTable {
    One(u16),
    Class(String),
}

keys! {
    /// `[resource.headers]`
    ///
    /// Names of headers that no dialect knows. Clients send a header if its name has `ratelimit`, `rate-limit`,
    /// `retry-after`, `quota` or `throttl` in it.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "names of headers")]
    pub(crate) struct HeadersTable {
        /// The header with the amount in a full bucket or window.
        pub limit: Option<Spanned<String>> = Example(r#""x-quota""#),
        /// The header with what is left.
        pub remaining: Option<Spanned<String>> = Example(r#""x-quota-left""#),
        /// The header with what is used.
        pub used: Option<Spanned<String>> = Example(r#""x-quota-spent""#),
        /// The header with the time, from now or since 1970, at which the window ends.
        pub reset: Option<Spanned<String>> = Example(r#""x-quota-again""#),
        /// What a number in that counts, if it is a time from now: "seconds" or "milliseconds".
        pub reset_unit: Option<Spanned<String>> = Default(r#""seconds""#),
        /// The header with the pause after a rejection. `retry_after_unit` is for this one, too.
        pub retry_after: Option<Spanned<String>> = Example(r#""x-quota-wait""#),
    }
}

pub(crate) fn odd_headers(source: &Source, table: Option<&Spanned<HeadersTable>>) -> Result<OddHeaders, ConfigError> {
    let Some(table) = table.map(Spanned::get_ref) else { return Ok(OddHeaders::default()) };
    let named =
        |header: &Option<Spanned<String>>| header.as_ref().map(|name| header_name(source, name, name.get_ref()));
    let reset_unit: Option<RetryAfterUnit> = parsed(source, table.reset_unit.as_ref())?;
    Ok(OddHeaders {
        limit: named(&table.limit).transpose()?,
        remaining: named(&table.remaining).transpose()?,
        used: named(&table.used).transpose()?,
        reset: named(&table.reset).transpose()?,
        reset_unit: reset_unit.filter(|unit| *unit != RetryAfterUnit::Seconds),
        retry_after: named(&table.retry_after).transpose()?,
    })
}

/// Checks a header's name and returns it in lower case.
fn header_name(source: &Source, written: &Spanned<String>, name: &str) -> Result<String, ConfigError> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match !name.is_empty() && name.bytes().all(is_valid) {
        true => Ok(name.to_ascii_lowercase()),
        false => Err(source.fault(&written.span(), "a header's name has letters, digits, `-` and `_`")),
    }
}

/// Reads the objections of a resource, in order. If limits are `known`, they may name no others.
pub(crate) fn objections(
    source: &Source,
    tables: &[Spanned<ObjectionTable>],
    known: Option<&[&str]>,
) -> Result<Vec<Objection>, ConfigError> {
    tables.iter().map(|written| objection(source, written, known)).collect()
}

fn objection(
    source: &Source,
    written: &Spanned<ObjectionTable>,
    known: Option<&[&str]>,
) -> Result<Objection, ConfigError> {
    let table = written.get_ref();
    let fault = |span: Range<usize>, reason: &str| Err(source.fault(&span, reason.to_owned()));
    if table.status.is_none() && table.header.is_none() && table.code.is_none() && table.body.is_none() {
        return fault(written.span(), "an objection needs `status`, `header`, `code` or `body`");
    }
    let means = *table.means.get_ref();
    if let Some(span) = table.pause.as_ref().map(Spanned::span).or(table.limit.as_ref().map(Spanned::span))
        && means == Means::Ignore
    {
        return fault(span, "`pause` and `limit` have no meaning beside `means = \"ignore\"`; leave them out");
    }
    if let Some(body) = table.body.as_ref().filter(|body| !(1..=MAX_BODY_TEXT).contains(&body.get_ref().len())) {
        return fault(body.span(), "a text in a body has 1 to 256 bytes");
    }
    let text = |written: &Option<Spanned<String>>| written.as_ref().map(|text| text.get_ref().clone().into());
    Ok(Objection {
        statuses: table.status.as_ref().map_or(Ok(Statuses::Any), |status| statuses(source, status))?,
        header: table.header.as_ref().map(|header| header_and_value(source, header)).transpose()?,
        code: text(&table.code),
        body: text(&table.body),
        pause: table.pause.as_ref().map(value),
        limit: table.limit.as_ref().map(|limit| known_limit(source, limit, known)).transpose()?,
        ..Objection::new(means)
    })
}

fn statuses(source: &Source, written: &Spanned<StatusTable>) -> Result<Statuses, ConfigError> {
    let class = |text: &str| text.strip_suffix("xx").and_then(|digit| digit.parse().ok()).filter(|digit| *digit < 10);
    match written.get_ref() {
        StatusTable::One(status @ 100..=999) => Ok(Statuses::One(*status)),
        StatusTable::Class(text) if class(text).is_some_and(|digit| digit > 0) => {
            Ok(Statuses::Class(class(text).unwrap_or_default()))
        }
        StatusTable::One(_) | StatusTable::Class(_) => {
            Err(source.fault(&written.span(), "a status is a number from 100 to 999, or one such as \"5xx\""))
        }
    }
}

type HeaderPattern = (std::borrow::Cow<'static, str>, Option<std::borrow::Cow<'static, str>>);

/// Parses `name: value` or `name`.
fn header_and_value(source: &Source, written: &Spanned<String>) -> Result<HeaderPattern, ConfigError> {
    let (name, value) = match written.get_ref().split_once(':') {
        Some((name, value)) => (name, Some(value.trim().to_owned().into())),
        None => (&**written.get_ref(), None),
    };
    Ok((header_name(source, written, name.trim())?.into(), value))
}

fn known_limit(source: &Source, written: &Spanned<String>, known: Option<&[&str]>) -> Result<Name, ConfigError> {
    let name = name(source, written)?;
    match known.filter(|known| !known.contains(&&*name)) {
        None => Ok(name),
        Some(known) => {
            let known = quoted(known.iter().copied());
            Err(source.fault(&written.span(), format!("there is no limit `{name}`; there are {known}")))
        }
    }
}

/// Returns the headers that workers do not pass on, because their names do not speak of limits.
pub(crate) fn unsent_headers<'a>(
    headers: Option<&'a Spanned<HeadersTable>>,
    objections: &'a [Spanned<ObjectionTable>],
) -> Vec<&'a str> {
    let named = headers.into_iter().flat_map(|headers| {
        let HeadersTable { limit, remaining, used, reset, reset_unit: _, retry_after } = headers.get_ref();
        [limit, remaining, used, reset, retry_after].into_iter().flatten()
    });
    let of_objections = objections.iter().filter_map(|objection| objection.get_ref().header.as_ref());
    let names = named.chain(of_objections).map(|header| header.get_ref().split(':').next().unwrap_or_default().trim());
    names.filter(|name| !speaks_of_limits(name)).collect()
}
