//! The headers of an answer.

use crate::{Amount, Cost, PolicyStats, RetryAfter, Unit};
use std::{collections::BTreeMap, time::Duration};

/// The headers that tell what a call took and what is left.
///
/// ```
/// use rampmeter_upstream::{Account, Cost, Dialect};
/// use std::time::Duration;
///
/// let mut account = Account::new(vec!["requests=50/10s".parse()?]);
/// assert_eq!(account.admit(Duration::ZERO, &Cost::new()), Ok(()));
/// let headers = Dialect::Openai.headers(None, &account.policies(Duration::ZERO));
/// let remaining = ("x-ratelimit-remaining-requests".to_owned(), "49".to_owned());
/// assert!(headers.contains(&remaining), "{headers:?}");
/// # Ok::<(), rampmeter_upstream::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// As Sentinel Hub does: what an admitted call took, and not what is left.
    #[default]
    SentinelHub,
    /// As the IETF draft says: `RateLimit-Policy` and `RateLimit`, with every policy.
    Ietf,
    /// As OpenAI does: `x-ratelimit-{limit,remaining,reset}-<unit>`. Of each unit they tell the
    /// policy with the least left.
    Openai,
}

impl Dialect {
    /// The headers of an answer, beside `Retry-After`. `took` is the cost of an admitted call. The
    /// rest is rounded down to whole units, and the time until it is full is rounded up.
    #[must_use]
    pub fn headers(self, took: Option<&Cost>, policies: &[PolicyStats]) -> Vec<(String, String)> {
        match self {
            Self::SentinelHub => took.map(spent).into_iter().collect(),
            Self::Ietf => fields(policies),
            Self::Openai => scarcest(policies).into_iter().flat_map(figures).collect(),
        }
    }

    /// How the dialect's `Retry-After` states a wait.
    #[must_use]
    pub fn retry_after(self) -> RetryAfter {
        match self {
            Self::SentinelHub => RetryAfter::Milliseconds,
            Self::Ietf | Self::Openai => RetryAfter::Seconds,
        }
    }

    /// Whether an answer tells what is left, so that [`Self::headers`] needs the policies.
    #[must_use]
    pub fn tells_levels(self) -> bool {
        match self {
            Self::SentinelHub => false,
            Self::Ietf | Self::Openai => true,
        }
    }
}

fn spent(took: &Cost) -> (String, String) {
    ("x-processingunits-spent".to_owned(), took.of(&Unit::PROCESSING_UNITS).to_string())
}

fn fields(policies: &[PolicyStats]) -> Vec<(String, String)> {
    if policies.is_empty() {
        return Vec::new();
    }
    let list = |item: fn(&PolicyStats) -> String| policies.iter().map(item).collect::<Vec<_>>().join(", ");
    vec![("ratelimit-policy".to_owned(), list(policy)), ("ratelimit".to_owned(), list(state))]
}

/// A policy that never refills has no window.
fn policy(stats: &PolicyStats) -> String {
    let (policy, window) = (&stats.policy, seconds(stats.policy.period()));
    let window = if window > 0 { format!(";w={window}") } else { String::new() };
    format!("\"{policy}\";q={}{window};qu=\"{}\"", whole(policy.capacity()), policy.unit())
}

fn state(stats: &PolicyStats) -> String {
    let reset = stats.full_in().map(|reset| format!(";t={}", seconds(reset)));
    format!("\"{}\";r={}{}", stats.policy, whole(stats.level), reset.unwrap_or_default())
}

fn scarcest(policies: &[PolicyStats]) -> Vec<&PolicyStats> {
    let mut by_unit: BTreeMap<&Unit, &PolicyStats> = BTreeMap::new();
    for stats in policies {
        let scarcest = by_unit.entry(stats.policy.unit()).or_insert(stats);
        if stats.level < scarcest.level {
            *scarcest = stats;
        }
    }
    by_unit.into_values().collect()
}

fn figures(stats: &PolicyStats) -> Vec<(String, String)> {
    let header = |figure, value| (format!("x-ratelimit-{figure}-{}", stats.policy.unit()), value);
    let reset = stats.full_in().map(|reset| header("reset", clock_time(reset)));
    let limit = header("limit", whole(stats.policy.capacity()).to_string());
    [limit, header("remaining", whole(stats.level).to_string())].into_iter().chain(reset).collect()
}

/// `120ms`, `2s`, `6m0s`
fn clock_time(span: Duration) -> String {
    match (span.as_nanos().div_ceil(1_000_000), seconds(span)) {
        (millis @ 0..1000, _) => format!("{millis}ms"),
        (_, seconds @ 0..60) => format!("{seconds}s"),
        (_, seconds) => format!("{}m{}s", seconds / 60, seconds % 60),
    }
}

/// Rounded up.
fn seconds(span: Duration) -> u128 {
    span.as_nanos().div_ceil(1_000_000_000)
}

/// Rounded down.
fn whole(amount: Amount) -> u64 {
    amount.micros() / Amount::ONE.micros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Amount;

    fn policies() -> Vec<PolicyStats> {
        let of = |text: &str, level| PolicyStats {
            policy: text.parse().unwrap(),
            spent: Amount::ZERO,
            level: Amount::from_micros(level),
        };
        vec![of("requests=50/10s", 49_500_000), of("requests=100/PT1H", 0), of("processing-units=9.5/PT0S", 3_999_999)]
    }

    fn check(dialect: Dialect, took: Option<&Cost>, headers: &[(&str, &str)]) {
        let found = dialect.headers(took, &policies());
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, headers);
    }

    #[test]
    fn each_dialect_tells_what_it_tells() {
        let took = Cost::new().with(Unit::PROCESSING_UNITS, Amount::from_micros(2_500_000));
        check(Dialect::SentinelHub, Some(&took), &[("x-processingunits-spent", "2.5")]);
        check(Dialect::SentinelHub, None, &[]);
        check(
            Dialect::Ietf,
            Some(&took),
            &[
                (
                    "ratelimit-policy",
                    "\"requests=50/PT10S\";q=50;w=10;qu=\"requests\", \"requests=100/PT1H\";q=100;w=3600;qu=\"requests\", \
                     \"processing-units=9.5/PT0S\";q=9;qu=\"processing-units\"",
                ),
                (
                    "ratelimit",
                    "\"requests=50/PT10S\";r=49;t=1, \"requests=100/PT1H\";r=0;t=3600, \"processing-units=9.5/PT0S\";r=3",
                ),
            ],
        );
        check(
            Dialect::Openai,
            None,
            &[
                ("x-ratelimit-limit-processing-units", "9"),
                ("x-ratelimit-remaining-processing-units", "3"),
                ("x-ratelimit-limit-requests", "100"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "60m0s"),
            ],
        );
        assert!(Dialect::Ietf.headers(None, &[]).is_empty());
    }

    #[test]
    fn times_are_rounded_up() {
        for (micros, text) in [(0, "0ms"), (1, "1ms"), (119_001, "120ms"), (1_000_001, "2s"), (359_000_001, "6m0s")] {
            assert_eq!(clock_time(Duration::from_micros(micros)), text, "{micros} µs");
        }
    }
}
