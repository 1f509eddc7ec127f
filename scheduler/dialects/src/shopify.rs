//! What Shopify reports about its limits.

use crate::number;
use crate::table::Stock;
use serde::Deserialize;

/// The object `throttleStatus` in the body of a response. It may have other members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ThrottleStatus {
    maximum_available: f64,
    currently_available: f64,
    restore_rate: f64,
}

/// `{"maximumAvailable":1000,"currentlyAvailable":954,"restoreRate":50}`, in points and points a
/// second.
pub(crate) fn throttle_status(text: &str) -> Option<Stock> {
    let status: ThrottleStatus = serde_json::from_str(text).ok()?;
    let (most, left, rate) = (status.maximum_available, status.currently_available, status.restore_rate);
    if [most, left, rate].iter().any(|figure| *figure < 0.0) {
        return None;
    }
    let reset = if rate > 0.0 { number::span((most - left).max(0.0) / rate * 1000.0) } else { None };
    let period = if rate > 0.0 { number::span(most / rate * 1000.0) } else { None };
    Some(Stock { remaining: number::left(left)?, capacity: number::left(most)?, reset, period })
}

/// `32/40`: 32 of 40 requests are in the bucket.
pub(crate) fn call_limit(text: &str) -> Option<Stock> {
    let (used, most) = text.split_once('/')?;
    let (used, most) = (number::number(used)?, number::number(most)?);
    let remaining = number::left((most - used).max(0.0))?;
    Some(Stock { remaining, capacity: number::left(most)?, reset: None, period: None })
}
