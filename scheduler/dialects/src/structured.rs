//! The IETF's structured fields (RFC 9651): `RateLimit` and `RateLimit-Policy`.

use crate::value;
use rampmeter_policy::observation::{Described, Reading, Scope};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parameters, Parser};

/// One policy: `"burst";q=100;w=60;qu="tokens"`.
#[derive(Debug)]
pub(crate) struct Policy {
    name: Option<String>,
    /// A policy may have another capacity for each partition, such as a user or a tenant.
    partition: Option<Vec<u8>>,
    capacity: Option<Amount>,
    unit: Option<String>,
    period: Option<Span>,
}

/// Parses the policies of `RateLimit-Policy`; `None` if it is not a structured field.
pub(crate) fn policies(text: &str) -> Option<Vec<Policy>> {
    let policy = |item: &Item| Policy {
        name: text_of(&item.bare_item),
        partition: partition(&item.params),
        capacity: item.params.get("q").and_then(amount),
        unit: item.params.get("qu").and_then(text_of),
        period: item.params.get("w").and_then(number_of).and_then(|seconds| value::span(seconds * 1000.0)),
    };
    Some(items(text)?.iter().map(policy).collect())
}

/// Parses `RateLimit`, as `"burst";r=50;t=30` or, in an earlier draft, `limit=100, remaining=50, reset=30`.
pub(crate) fn readings(text: &str, policies: &[Policy]) -> Option<Vec<Reading>> {
    match items(text) {
        Some(items) => Some(items.iter().filter_map(|item| reading(item, policies)).collect()),
        None => earlier(text).map(|reading| vec![reading]),
    }
}

/// The bucket of one item; `None` without the parameter `r`.
fn reading(item: &Item, policies: &[Policy]) -> Option<Reading> {
    let name = text_of(&item.bare_item);
    let partition = partition(&item.params);
    let mut named = policies.iter().filter(|policy| policy.name == name);
    let policy = named.clone().find(|policy| policy.partition == partition).or_else(|| named.next());
    let reset = reset(&item.params);
    let scope = scope(name.clone(), policy.and_then(|policy| policy.unit.clone()));
    Some(Reading {
        capacity: policy.and_then(|policy| policy.capacity),
        reset,
        reset_grain: Reading::grain_of(reset),
        described: Described {
            name,
            period: policy.and_then(|policy| policy.period),
            is_keyed: Some(partition.is_some()),
            ..Described::default()
        },
        ..Reading::new(scope, amount(item.params.get("r")?)?)
    })
}

/// The policy's unit if stated, since tokens left say nothing about requests; else the name.
fn scope(name: Option<String>, unit: Option<String>) -> Scope {
    let valid = |name: String| Name::new(&name).is_ok().then_some(name);
    let named = name.and_then(valid).map_or(Scope::Unnamed, Scope::Policy);
    unit.and_then(valid).map_or(named, Scope::Unit)
}

fn partition(params: &Parameters) -> Option<Vec<u8>> {
    Some(params.get("pk")?.as_byte_sequence()?.to_vec())
}

fn reset(params: &Parameters) -> Option<Span> {
    params.get("t").and_then(number_of).and_then(|seconds| value::span(seconds * 1000.0))
}

fn earlier(text: &str) -> Option<Reading> {
    let fields: Dictionary = Parser::new(text).parse().ok()?;
    let field = |name| match fields.get(name) {
        Some(ListEntry::Item(item)) => number_of(&item.bare_item),
        Some(ListEntry::InnerList(_)) | None => None,
    };
    let reset = field("reset").and_then(|seconds| value::span(seconds * 1000.0));
    Some(Reading {
        capacity: field("limit").and_then(value::left),
        reset,
        reset_grain: Reading::grain_of(reset),
        ..Reading::new(Scope::Unnamed, value::left(field("remaining")?)?)
    })
}

fn items(text: &str) -> Option<Vec<Item>> {
    let list: List = Parser::new(text).parse().ok()?;
    let item = |entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    };
    Some(list.into_iter().filter_map(item).collect())
}

fn text_of(value: &BareItem) -> Option<String> {
    let string = value.as_string().map(|text| text.as_str().to_owned());
    string.or_else(|| value.as_token().map(|token| token.as_str().to_owned()))
}

fn amount(value: &BareItem) -> Option<Amount> {
    value::left(number_of(value)?)
}

/// A number that is not negative: header values never are.
fn number_of(value: &BareItem) -> Option<f64> {
    let whole = value.as_integer().map(|number| i64::from(number) as f64);
    let number = whole.or_else(|| Some(i64::from(value.as_decimal()?.as_integer_scaled_1000()) as f64 / 1000.0));
    number.filter(|number| *number >= 0.0)
}
