//! One limit, as it is described.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// A limit. The two forms of documents spell some properties differently.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Entry {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) method: Option<String>,
    /// The ceiling, if it is a number: a text such as `"1,000"` or `unlimited` is none.
    #[serde(default, deserialize_with = "number")]
    limit: Option<f64>,
    metric: Option<String>,
    #[serde(alias = "timeFrame", alias = "window")]
    timeframe: Option<String>,
    tier: Option<String>,
    #[serde(alias = "type")]
    scope: Option<String>,
    #[serde(default, rename = "userMultiplied")]
    user_multiplied: bool,
}

/// A limit that was not taken over.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{name}`: {reason}")]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// Why it was not taken over.
    pub reason: Reason,
}

/// Why a limit was not taken over.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The limit was neither harvested nor probed.
    #[error("its method is `{0}`")]
    Method(String),
    /// The document does not say how it was found.
    #[error("it has no method, so that it may be a guess")]
    NoMethod,
    /// Another plan has it.
    #[error("it is of the tier `{0}`")]
    Tier(String),
    /// The limit has no ceiling above 0.
    #[error("its limit is no number above 0")]
    NoNumber,
    /// Its ceiling grows with the users of an application.
    #[error("its limit grows with the number of users")]
    UserMultiplied,
    /// What it counts is not known.
    #[error("its metric `{0}` is not known")]
    Metric(String),
    /// Its window is not known.
    #[error("its time frame `{0}` is not known")]
    Timeframe(String),
}

/// What a limit counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Counts {
    /// Calls in flight.
    InFlight,
    /// Amounts of a unit in any stretch of `period`.
    Rate { unit: &'static str, period: &'static str },
}

/// Which calls a limit holds, and whose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scope {
    /// All calls of the account.
    Account,
    /// The calls of each user or address.
    Each(&'static str),
    /// The calls of one part of the API.
    Part,
}

impl Entry {
    /// The same limit. If it names no method, that of its document counts.
    pub(crate) fn found_by(self, method: Option<&str>) -> Self {
        let method = self.method.or(method.map(str::to_owned));
        Entry { method, ..self }
    }

    /// Why the method by which it was found does not count; nothing if it does.
    pub(crate) fn method_fault(&self) -> Option<Reason> {
        match self.method.as_deref() {
            Some("harvested" | "probed") => None,
            Some(other) => Some(Reason::Method(other.to_owned())),
            None => Some(Reason::NoMethod),
        }
    }

    /// The plan that it belongs to; nothing if it belongs to all plans.
    pub(crate) fn own_tier(&self) -> Option<&str> {
        self.tier.as_deref().filter(|tier| !tier.eq_ignore_ascii_case("all"))
    }

    /// The ceiling.
    pub(crate) fn ceiling(&self) -> Result<f64, Reason> {
        match self.limit {
            _ if self.user_multiplied => Err(Reason::UserMultiplied),
            Some(limit) if limit > 0.0 && limit.is_finite() => Ok(limit),
            Some(_) | None => Err(Reason::NoNumber),
        }
    }

    /// What it counts. A metric such as `requests_per_minute` names the window, too.
    pub(crate) fn counts(&self) -> Result<Counts, Reason> {
        let metric = self.metric.as_deref().unwrap_or("").to_ascii_lowercase().replace(['_', ' '], "-");
        let (counted, per) = metric.split_once("-per-").unwrap_or((&metric, ""));
        if matches!(
            counted,
            "concurrent-request" | "concurrent-requests" | "connection" | "connections" | "concurrency"
        ) {
            return Ok(Counts::InFlight);
        }
        let unit = unit(counted).ok_or_else(|| Reason::Metric(metric.clone()))?;
        let timeframe = self.timeframe.as_deref().unwrap_or(per).to_ascii_lowercase();
        let period = period(&timeframe).ok_or(Reason::Timeframe(timeframe))?;
        Ok(Counts::Rate { unit, period })
    }

    pub(crate) fn scope(&self) -> Scope {
        match self.scope.as_deref().unwrap_or("").to_ascii_lowercase().as_str() {
            "user" => Scope::Each("user"),
            "ip" | "ip-address" => Scope::Each("address"),
            "endpoint" | "model" | "resource" => Scope::Part,
            _ => Scope::Account,
        }
    }
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Ceiling {
        Number(f64),
        Other(IgnoredAny),
    }
    Ok(match Ceiling::deserialize(deserializer)? {
        Ceiling::Number(number) => Some(number),
        Ceiling::Other(IgnoredAny) => None,
    })
}

fn unit(counted: &str) -> Option<&'static str> {
    let all = [
        ("request", "requests"),
        ("call", "requests"),
        ("token", "tokens"),
        ("input-token", "input-tokens"),
        ("output-token", "output-tokens"),
        ("byte", "bytes"),
        ("operation", "operations"),
        ("job", "jobs"),
        ("event", "events"),
    ];
    all.into_iter().find(|(one, _)| counted.strip_suffix('s').unwrap_or(counted) == *one).map(|(_, unit)| unit)
}

/// The longest window of that name, so that no window of a calendar holds more.
fn period(timeframe: &str) -> Option<&'static str> {
    let all = [
        ("second", "1s"),
        ("minute", "1m"),
        ("hour", "1h"),
        ("day", "24h"),
        ("week", "168h"),
        ("month", "744h"),
        ("year", "8784h"),
    ];
    all.into_iter().find(|(name, _)| *name == timeframe).map(|(_, period)| period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(metric: &str, timeframe: Option<&str>) -> Entry {
        Entry { metric: Some(metric.to_owned()), timeframe: timeframe.map(str::to_owned), ..Entry::default() }
    }

    #[test]
    fn metrics_are_read_in_both_spellings() {
        let rate = |unit, period| Ok(Counts::Rate { unit, period });
        let table = [
            (entry("request", Some("minute")), rate("requests", "1m")),
            (entry("requests_per_minute", None), rate("requests", "1m")),
            (entry("requests_per_month", Some("month")), rate("requests", "744h")),
            (entry("input-token", Some("day")), rate("input-tokens", "24h")),
            (entry("concurrent-request", Some("second")), Ok(Counts::InFlight)),
            (entry("concurrent_requests", None), Ok(Counts::InFlight)),
            (entry("credits_per_day", None), Err(Reason::Metric("credits-per-day".to_owned()))),
            (entry("request", Some("decade")), Err(Reason::Timeframe("decade".to_owned()))),
            (entry("request", None), Err(Reason::Timeframe(String::new()))),
        ];
        for (entry, expected) in table {
            assert_eq!(entry.counts(), expected, "{entry:?}");
        }
    }

    #[test]
    fn a_ceiling_is_a_number_above_zero() {
        let with = |limit| Entry { limit, ..Entry::default() }.ceiling();
        assert_eq!(with(Some(2.5)), Ok(2.5));
        assert_eq!(with(Some(0.0)), Err(Reason::NoNumber));
        assert_eq!(with(None), Err(Reason::NoNumber));
        let grows = Entry { limit: Some(1.0), user_multiplied: true, ..Entry::default() };
        assert_eq!(grows.ceiling(), Err(Reason::UserMultiplied));
    }
}
