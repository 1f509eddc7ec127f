//! Reads Sentinel Hub's contract: JSON to plausible limits.

use super::duration;
use super::error::{FailureKind, ProviderError, Question};
use super::{Contract, ProvidedLimit};
use rampmeter_policy::spec::{MAX_LIMITS, MAX_PERIOD};
use rampmeter_protocol::amount::{Amount, AmountError};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use serde::Deserialize;

/// The tolerance for the rounded `nanosBetweenRefills`: one part in this many.
const ROUNDING: u64 = 1000;

#[derive(Deserialize)]
struct Body {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    r#type: Type,
    policies: Vec<Policy>,
}

#[derive(Deserialize)]
struct Type {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Policy {
    capacity: f64,
    sampling_period: String,
    nanos_between_refills: Option<f64>,
}

/// Reads a contract. A fault in any part rejects it as a whole; what this version can't keep to becomes a note.
pub(super) fn read(body: &[u8]) -> Result<Contract, ProviderError> {
    let mut contract = Contract::default();
    for entry in parse(body)?.data {
        let Some(unit) = unit_of(&entry.r#type.name) else {
            contract.notes.push(unknown(&entry.r#type.name));
            continue;
        };
        for policy in &entry.policies {
            take(&mut contract, &unit, policy)?;
        }
    }
    match contract.limits.len() {
        0 => Err(implausible("it has no limit that can be kept to")),
        1..=MAX_LIMITS => Ok(contract),
        more => Err(implausible(format!("it has {more} limits; a resource has {MAX_LIMITS} at most"))),
    }
}

pub(super) fn unit_of(type_name: &str) -> Option<Name> {
    let unit = match type_name {
        "REQUESTS" => "requests",
        "PROCESSING_UNITS" => "processing-units",
        _ => return None,
    };
    Name::new(unit).ok()
}

fn parse(body: &[u8]) -> Result<Body, ProviderError> {
    let json = &mut serde_json::Deserializer::from_slice(body);
    // The message has only the path, which consists of known names, and not the received value.
    serde_path_to_error::deserialize(json).map_err(|error| {
        let reason = format!("not of the documented form at `{}`", error.path());
        ProviderError::new(Question::Contract, FailureKind::Malformed, reason)
    })
}

fn take(contract: &mut Contract, unit: &Name, policy: &Policy) -> Result<(), ProviderError> {
    let period = duration::parse(&policy.sampling_period)
        .map_err(|_| implausible(format!("a sampling period of `{unit}` is no duration")))?;
    let capacity = capacity(unit, policy.capacity)?;
    if period > MAX_PERIOD {
        return Err(implausible(format!("a sampling period of `{unit}` is longer than 366 days")));
    }
    let period = refill(period);
    if let Some(period) = period {
        check_interval(unit, capacity, period, policy.nanos_between_refills)?;
    }
    let limit = ProvidedLimit { unit: unit.clone(), capacity, period };
    if contract.limits.iter().any(|other| other.unit == limit.unit && other.period == period) {
        return Err(implausible(format!("there are two limits like {limit}")));
    }
    contract.limits.push(limit);
    Ok(())
}

/// Returns the time in which a bucket fills; `None` for zero (`PT0S`), which never refills.
pub(super) fn refill(sampling_period: Span) -> Option<Span> {
    (sampling_period != Span::ZERO).then_some(sampling_period)
}

fn capacity(unit: &Name, units: f64) -> Result<Amount, ProviderError> {
    match round_down(units) {
        Ok(Amount::ZERO) => Err(implausible(format!("a capacity of `{unit}` is 0"))),
        Ok(capacity) => Ok(capacity),
        Err(error) => Err(implausible(format!("a capacity of `{unit}`: {error}"))),
    }
}

/// Rounds down, so that the limit is never above the account's real one.
pub(super) fn round_down(units: f64) -> Result<Amount, AmountError> {
    let above = Amount::round_up(units)?;
    let below = Amount::from_micros(above.micros().saturating_sub(1))?;
    Ok(if above.units() > units { below } else { above })
}

/// Refuses a refill interval that contradicts capacity and period: either could be wrong.
fn check_interval(unit: &Name, capacity: Amount, period: Span, nanos: Option<f64>) -> Result<(), ProviderError> {
    let Some(nanos) = nanos else { return Ok(()) };
    let expected = period.nanos() as f64 / capacity.units();
    let tolerance = (expected / ROUNDING as f64).max(1.0);
    if (nanos - expected).abs() <= tolerance {
        return Ok(());
    }
    let reason = format!("`{unit}`: {capacity} in {period} and a refill every {nanos} ns contradict each other");
    Err(implausible(reason))
}

/// Notes a type that this version does not know. Received text is shown only if it is a valid name.
fn unknown(type_name: &str) -> String {
    match Name::new(type_name) {
        Ok(name) => format!("limits of the unknown type `{name}` are ignored"),
        Err(_) => "limits of an unknown type are ignored".to_owned(),
    }
}

fn implausible(reason: impl Into<String>) -> ProviderError {
    ProviderError::new(Question::Contract, FailureKind::Implausible, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contract with these policies of requests.
    fn requests(policies: &str) -> String {
        format!(r#"{{"data":[{{"type":{{"name":"REQUESTS"}},"policies":[{policies}]}}]}}"#)
    }

    fn limit(unit: &str, capacity: f64, secs: u64) -> ProvidedLimit {
        let (unit, capacity) = (Name::new(unit).unwrap(), Amount::new(capacity).unwrap());
        ProvidedLimit { unit, capacity, period: refill(Span::from_secs(secs)) }
    }

    #[test]
    fn a_contract_is_read() {
        let body = r#"{"data":[
            {"id": 7, "type": {"id": 1, "name": "PROCESSING_UNITS"}, "policies": [
                {"capacity": 1000, "samplingPeriod": "PT1M", "nanosBetweenRefills": 60000000},
                {"capacity": 400000, "samplingPeriod": "PT744H", "nanosBetweenRefills": 6696000000},
                {"capacity": 30000, "samplingPeriod": "PT0S", "nanosBetweenRefills": 0}]},
            {"type": {"name": "REQUESTS"}, "policies": [
                {"capacity": 300.00000049, "samplingPeriod": "PT7M", "nanosBetweenRefills": 1400000000}]},
            {"type": {"name": "DOWNLOADS"}, "policies": [{"capacity": 1, "samplingPeriod": "PT1S"}]},
            {"type": {"name": "a.b.c"}, "policies": []}],
            "links": {}}"#;
        let contract = read(body.as_bytes()).unwrap();
        let month = 744 * 3600;
        let limits = [
            limit("processing-units", 1000.0, 60),
            limit("processing-units", 400_000.0, month),
            limit("processing-units", 30_000.0, 0),
            limit("requests", 300.0, 420),
        ];
        assert_eq!(contract.limits, limits);
        let notes = ["limits of the unknown type `DOWNLOADS` are ignored", "limits of an unknown type are ignored"];
        assert_eq!(contract.notes, notes);
    }

    #[test]
    fn faulty_contracts_are_malformed_or_implausible() {
        use FailureKind::{Implausible, Malformed};
        let policy = |capacity: &str, period: &str| {
            requests(&format!(r#"{{"capacity":{capacity},"samplingPeriod":"{period}"}}"#))
        };
        let once = r#"{"capacity":5,"samplingPeriod":"PT0S"}"#;
        let minute = r#"{"capacity":1,"samplingPeriod":"PT1M"}"#;
        let many: Vec<String> =
            (1..=65).map(|secs| format!(r#"{{"capacity":1,"samplingPeriod":"PT{secs}S"}}"#)).collect();
        let interval = |nanos: &str| {
            requests(&format!(r#"{{"capacity":1000,"samplingPeriod":"PT1M","nanosBetweenRefills":{nanos}}}"#))
        };
        #[rustfmt::skip]
        let table = [
            (String::new(),                                     Malformed,   "not of the documented form at `.`"),
            ("canary".to_owned(),                               Malformed,   "not of the documented form at `.`"),
            (r#"{"data":"canary"}"#.to_owned(),                 Malformed,   "not of the documented form at `data`"),
            (r#"{"error":"canary"}"#.to_owned(),                Malformed,   "not of the documented form at `.`"),
            (policy("\"canary\"", "PT1M"),                      Malformed,   "not of the documented form at `data[0].policies[0].capacity`"),
            (policy("NaN", "PT1M"),                             Malformed,   "not of the documented form at `data[0].policies[0].capacity`"),
            (policy("1e999", "PT1M"),                           Malformed,   "not of the documented form at `data[0].policies[0].capacity`"),
            (policy("null", "PT1M"),                            Malformed,   "not of the documented form at `data[0].policies[0].capacity`"),
            (r#"{"data":[]}"#.to_owned(),                       Implausible, "it has no limit that can be kept to"),
            (requests(""),                                      Implausible, "it has no limit that can be kept to"),
            (requests(&many.join(",")),                         Implausible, "it has 65 limits; a resource has 64 at most"),
            (policy("0", "PT1M"),                               Implausible, "a capacity of `requests` is 0"),
            (policy("1e-7", "PT1M"),                            Implausible, "a capacity of `requests` is 0"),
            (policy("-1000", "PT1M"),                           Implausible, "a capacity of `requests`: an amount is a number from 0 to 1e9, not -1e3"),
            (policy("1e300", "PT1M"),                           Implausible, "a capacity of `requests`: an amount is a number from 0 to 1e9, not 1e300"),
            (policy("1", "canary"),                             Implausible, "a sampling period of `requests` is no duration"),
            (policy("1", "-PT1M"),                              Implausible, "a sampling period of `requests` is no duration"),
            (policy("1", "PT10000H"),                           Implausible, "a sampling period of `requests` is longer than 366 days"),
            (requests(&[once, once].join(",")),                 Implausible, "there are two limits like 5 requests once and for all"),
            (requests(&[minute, minute].join(",")),             Implausible, "there are two limits like 1 requests in 60s"),
            (interval("59000000"),                              Implausible, "`requests`: 1000 in 60s and a refill every 59000000 ns contradict each other"),
            (interval("0"),                                     Implausible, "`requests`: 1000 in 60s and a refill every 0 ns contradict each other"),
            (interval("-60000000"),                             Implausible, "`requests`: 1000 in 60s and a refill every -60000000 ns contradict each other"),
        ];
        for (body, kind, reason) in table {
            let error = read(body.as_bytes()).map(drop).expect_err(&body);
            assert_eq!((error.kind, error.reason.as_str()), (kind, reason), "{body}");
        }
    }

    #[test]
    fn amounts_are_never_rounded_up() {
        for (units, micros) in [(0.0, 0), (1.0, 1_000_000), (0.1, 100_000), (2.5, 2_500_000), (1.0 / 3.0, 333_333)] {
            assert_eq!(round_down(units).map(Amount::micros), Ok(micros), "{units}");
        }
    }
}
