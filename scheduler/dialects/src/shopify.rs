//! Headers with all figures of a bucket: those of Shopify and Salesforce.

use crate::value;
use rampmeter_policy::observation::{Described, Reading, Scope};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Span;
use serde::Deserialize;

type Read = fn(&str) -> Option<Reading>;

pub(crate) const FIGURES: [(&str, Read); 3] = [
    ("throttle-status", throttle_status),
    ("x-shopify-shop-api-call-limit", |text| call_limit(text, true)),
    ("sforce-limit-info", |text| call_limit(text.strip_prefix("api-usage=")?.split(';').next()?, false)),
];

/// The object `throttleStatus` in the body of a response. It may have other members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ThrottleStatus {
    maximum_available: f64,
    currently_available: f64,
    restore_rate: f64,
}

/// Reads `{"maximumAvailable":1000,"currentlyAvailable":954,"restoreRate":50}`, in points and points per second.
fn throttle_status(text: &str) -> Option<Reading> {
    let status: ThrottleStatus = serde_json::from_str(text).ok()?;
    let (most, left, rate) = (status.maximum_available, status.currently_available, status.restore_rate);
    if [most, left, rate].iter().any(|figure| *figure < 0.0) {
        return None;
    }
    let takes = |points: f64| if rate > 0.0 { value::span(points / rate * 1000.0) } else { None };
    reading("points", left, most, takes(most - left), takes(most), true)
}

/// Reads `32/40`: 32 of 40 requests are used.
fn call_limit(text: &str, is_gradual: bool) -> Option<Reading> {
    let (used, most) = text.split_once('/')?;
    let (used, most) = (value::number(used)?, value::number(most)?);
    reading("requests", most - used, most, None, None, is_gradual)
}

fn reading(
    unit: &str,
    left: f64,
    most: f64,
    reset: Option<Span>,
    period: Option<Span>,
    is_gradual: bool,
) -> Option<Reading> {
    let remaining: Amount = value::left(left)?;
    Some(Reading {
        capacity: value::left(most),
        reset,
        reset_grain: Reading::grain_of(reset),
        described: Described { is_gradual, period, ..Described::default() },
        ..Reading::new(Scope::Unit(unit.to_owned()), remaining)
    })
}
