//! Reads Sentinel Hub's token counts: the present levels of an account's buckets.

use super::ProvidedLevel;
use super::contract::{refill, round_down, unit_of};
use super::duration;
use super::error::{FailureKind, ProviderError, Question};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Levels by type and sampling period.
#[derive(Deserialize)]
struct Body {
    data: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Reads token counts of the documented form, if plausible. Unknown types are skipped.
pub(super) fn read(body: &[u8]) -> Result<Vec<ProvidedLevel>, ProviderError> {
    let body: Body = serde_json::from_slice(body)
        .map_err(|_| ProviderError::new(Question::Levels, FailureKind::Malformed, "not of the documented form"))?;
    let mut levels = Vec::new();
    for (type_name, counts) in &body.data {
        let Some(unit) = unit_of(type_name) else { continue };
        for (period, count) in counts {
            let period = duration::parse(period).map_err(|_| implausible("a sampling period is no duration".into()))?;
            let remaining = round_down(*count).map_err(|error| implausible(format!("`{unit}`: {error}")))?;
            levels.push(ProvidedLevel { unit: unit.clone(), period: refill(period), remaining });
        }
    }
    Ok(levels)
}

fn implausible(reason: String) -> ProviderError {
    ProviderError::new(Question::Levels, FailureKind::Implausible, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::time::Span;

    #[test]
    fn token_counts_are_read_and_rounded_down() {
        let body = br#"{"data": {"REQUESTS": {"PT1M": 298.7654329}, "PROCESSING_UNITS": {"PT0S": 7, "PT1M": 0, "PT744H": 39999.5},
            "DOWNLOADS": {"PT1S": -1}}}"#;
        let levels = read(body).unwrap();
        let found: Vec<(&str, Option<Span>, u64)> =
            levels.iter().map(|level| (&*level.unit, level.period, level.remaining.micros())).collect();
        let secs = |secs| Some(Span::from_secs(secs));
        let expected = [
            ("processing-units", None, 7_000_000),
            ("processing-units", secs(60), 0),
            ("processing-units", secs(2_678_400), 39_999_500_000),
            ("requests", secs(60), 298_765_432),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn faulty_token_counts_are_malformed_or_implausible() {
        use FailureKind::{Implausible, Malformed};
        #[rustfmt::skip]
        let table = [
            ("canary",                                          Malformed,   "not of the documented form"),
            (r#"{"data": {"REQUESTS": {"PT1M": "canary"}}}"#,   Malformed,   "not of the documented form"),
            (r#"{"data": {"REQUESTS": {"canary": 1}}}"#,        Implausible, "a sampling period is no duration"),
            (r#"{"data": {"REQUESTS": {"PT1M": -1}}}"#,         Implausible, "`requests`: an amount is a number from 0 to 1e9, not -1e0"),
            (r#"{"data": {"REQUESTS": {"PT1M": 1e10}}}"#,       Implausible, "`requests`: an amount is a number from 0 to 1e9, not 1e10"),
        ];
        for (body, kind, reason) in table {
            let error = read(body.as_bytes()).expect_err(body);
            assert_eq!((error.kind, error.reason.as_str()), (kind, reason), "{body}");
        }
    }
}
