//! The picture of a resource for browsers. Lists become objects by name, so that patches can be small.

use rampmeter_protocol::shares::Shares;
use rampmeter_protocol::status::Status;
use rampmeter_serve::health::ServingState;
use rampmeter_serve::permits::answers::tally::Tally;
use serde_json::{Map, Value, json};

/// Bound on the kinds of calls whose learned costs are shown. A resource may have a thousand.
const SHOWN_KINDS: usize = 20;
/// Significant digits of a number with decimals. More would change every second without being useful.
const DIGITS: i32 = 5;
/// Decimals of a number. More would show what a slow limit refills in a second.
const DECIMALS: i32 = 3;

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) status: Status,
    /// The leader's counts, if this process leads.
    pub(super) tally: Option<Tally>,
}

/// Returns the whole picture of a resource, with its shares if known.
pub(super) fn whole(reading: &Result<Reading, String>, shares: Option<&Shares>, duty: &ServingState) -> Value {
    let reading = match reading {
        Ok(reading) => reading,
        Err(trouble) => return json!({"duty": duty.to_string(), "trouble": trouble}),
    };
    let mut status = reading.status.clone();
    status.corrections.sort_by_key(|correction| std::cmp::Reverse(correction.calls));
    status.corrections.truncate(SHOWN_KINDS);
    let Value::Object(mut picture) = plain(serde_json::to_value(&status).expect("a status is plain data")) else {
        return Value::Null;
    };
    by_name(&mut picture, "limits");
    by_name(&mut picture, "classes");
    picture.insert("duty".to_owned(), json!(duty.to_string()));
    if let Some(shares) = shares {
        picture.insert("shares".to_owned(), shares_json(shares));
    }
    if let Some(tally) = &reading.tally {
        add_tally(&mut picture, tally);
    }
    Value::Object(picture)
}

/// Returns the row of a resource in the overview.
pub(super) fn line(reading: &Result<Reading, String>, duty: &ServingState) -> Value {
    let status = match reading {
        Ok(reading) => &reading.status,
        Err(trouble) => return json!({"duty": duty.to_string(), "trouble": trouble}),
    };
    let waiting: u64 = status.classes.iter().map(|class| class.queued).sum();
    let oldest_ms = status.classes.iter().map(|class| class.oldest_ms).fold(0.0, f64::max);
    let frozen = status.limits.iter().filter(|limit| limit.frozen_ms > 0.0).count();
    plain(json!({
        "duty": duty.to_string(),
        "leader": status.leader,
        "epoch": status.epoch,
        "since": status.since,
        "waiting": waiting,
        "oldest_ms": oldest_ms,
        "granted": status.counters.granted,
        "refused": status.counters.refused,
        "upstream_429": status.counters.upstream_429,
        "limits": status.limits.len(),
        "frozen": frozen,
        "limited_by": status.limited_by,
        "reason": status.reason,
    }))
}

/// Returns the shares by name. The period that they cover changes only once a minute.
fn shares_json(shares: &Shares) -> Value {
    let Value::Object(mut json) = plain(serde_json::to_value(shares).expect("shares are plain data")) else {
        return Value::Null;
    };
    json.remove("over_ms");
    json.insert("over_min".to_owned(), json!((shares.over_ms / 60e3).ceil()));
    by_name(&mut json, "classes");
    by_name(&mut json, "clients");
    Value::Object(json)
}

fn add_tally(picture: &mut Map<String, Value>, tally: &Tally) {
    let answers: Map<String, Value> = tally
        .answers
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(class, count)| (class.to_owned(), json!(count)))
        .collect();
    let refusals = tally.refusals.iter().filter(|(_, count)| *count > 0);
    let refusals: Map<String, Value> = refusals.map(|(code, count)| (code.as_str().to_owned(), json!(count))).collect();
    picture.insert("answers".to_owned(), Value::Object(answers));
    picture.insert("refusals".to_owned(), Value::Object(refusals));
}

/// Turns the list `key` into an object by `name`, and adds the names in their order.
fn by_name(picture: &mut Map<String, Value>, key: &str) {
    let Some(Value::Array(list)) = picture.remove(key) else { return };
    let name = |thing: &Value| thing["name"].as_str().unwrap_or_default().to_owned();
    let order: Vec<Value> = list.iter().map(|thing| Value::String(name(thing))).collect();
    let things: Map<String, Value> = list.into_iter().map(|thing| (name(&thing), thing)).collect();
    picture.insert(format!("{key}_order"), Value::Array(order));
    picture.insert(key.to_owned(), Value::Object(things));
}

/// Removes nulls, and rounds numbers.
fn plain(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, plain(value))).collect())
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(plain).collect()),
        Value::Number(number) if number.is_f64() => rounded(number.as_f64().unwrap_or_default()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn rounded(number: f64) -> Value {
    if number == 0.0 || !number.is_finite() {
        return json!(0);
    }
    let decimals = DIGITS - 1 - number.abs().log10().floor() as i32;
    let scale = 10_f64.powi(decimals.clamp(0, DECIMALS));
    let rounded = (number * scale).round() / scale;
    match rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        true => json!(rounded as i64),
        false => json!(rounded),
    }
}
