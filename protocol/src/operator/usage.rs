//! The use of a resource by its clients on one day.

use crate::name::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of days for which use is kept.
pub const KEPT_DAYS: u16 = 90;

/// A query on `rampmeter.usage.<resource>`.
///
/// ```
/// use rampmeter_protocol::usage::UsageQuery;
/// assert_eq!(UsageQuery::parse(br#"{"days_ago": 1}"#).days_ago, 1);
/// assert_eq!(UsageQuery::parse(b"").days_ago, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageQuery {
    /// The day in UTC: 0 is today, 1 is yesterday.
    pub days_ago: u16,
}

impl UsageQuery {
    /// Parses a payload. An invalid one asks for today.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Self {
        serde_json::from_slice(payload).unwrap_or_default()
    }
}

/// The answer to a [`UsageQuery`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DayUsage {
    /// The resource whose use is reported.
    pub resource: Name,
    /// The day in UTC, such as `2026-11-24`.
    pub day: String,
    /// Entries by client and class, in the order of clients; empty if nothing was used.
    pub clients: Vec<ClientUsage>,
}

/// What one client used in one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientUsage {
    /// The client, by the label that the resource shares by; empty without that label, `(others)` beyond the bound.
    pub client: String,
    /// The class.
    pub class: Name,
    /// Number of calls granted and not given back.
    pub calls: i64,
    /// The cost of these calls by unit: as settled, or as estimated for calls without a settle.
    pub units: BTreeMap<Name, f64>,
}
