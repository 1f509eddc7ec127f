//! What the tests of the core share: short forms of requests, scripts, and a naive judge.

#![allow(dead_code, reason = "every test uses a part")]

mod judge;
mod script;
mod world;

#[allow(unused_imports, reason = "every test uses a part")]
pub(crate) use {
    judge::{Counter, Held, Judge},
    script::{play, play_in, play_on, play_under},
    world::{NOBODY, SentAnswer, Wish, World, wish},
};

use rampmeter_policy::observation::{Observation, Scope, Verdict};
use rampmeter_policy::spec::{
    Algorithm, Applies, ClassSpec, FairShare, LimitSpec, MAX_PERIOD, Margin, ResourceSpec, Weight,
};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

pub(crate) fn amount(units: f64) -> Amount {
    Amount::new(units).unwrap()
}

pub(crate) fn ms(millis: u64) -> Time {
    Time::ORIGIN + Span::from_millis(millis)
}

pub(crate) fn span(millis: u64) -> Span {
    Span::from_millis(millis)
}

/// An answer with this verdict, which tells nothing of what is left.
pub(crate) fn said(verdict: Verdict) -> Observation {
    Observation { verdict, readings: Vec::new(), spent: Vec::new() }
}

/// A refusal that may ask for a pause of this many milliseconds.
pub(crate) fn limited(retry_after: Option<u64>) -> Verdict {
    Verdict::Limited { scope: Scope::Unnamed, retry_after: retry_after.map(span), by_other_accounts: false }
}

/// A limit without margin, with the name of its unit.
pub(crate) fn limit(unit: &str, capacity: f64, period: Span) -> LimitSpec {
    let margin = Margin::Fixed(Amount::ZERO);
    LimitSpec { margin, ..LimitSpec::new(name(unit), name(unit), amount(capacity), period) }
}

/// `limit` with a bucket for each value of this label.
pub(crate) fn by(label: &str, limit: LimitSpec) -> LimitSpec {
    LimitSpec { applies: Applies { key: vec![label.to_owned()], ..Applies::default() }, ..limit }
}

/// A limit of requests of this name, with a bucket for each combination of these labels' values.
pub(crate) fn keyed(called: &str, capacity: f64, period: u64, key: &[&str]) -> LimitSpec {
    let applies = Applies { key: key.iter().map(ToString::to_string).collect(), ..Applies::default() };
    LimitSpec { name: name(called), applies, ..limit("requests", capacity, span(period)) }
}

/// `limit` with another algorithm.
pub(crate) fn counted(algorithm: Algorithm, limit: LimitSpec) -> LimitSpec {
    LimitSpec { algorithm, ..limit }
}

pub(crate) fn class(called: &str, headroom: f64) -> ClassSpec {
    ClassSpec { headroom, ..ClassSpec::new(name(called)) }
}

pub(crate) fn resource(limits: Vec<LimitSpec>) -> ResourceSpec {
    ResourceSpec { max_ahead: Some(MAX_PERIOD), ..ResourceSpec::new(name("api"), limits) }
}

/// One limit, 10 requests in a second: a token every 100 ms.
pub(crate) fn ten_per_second() -> ResourceSpec {
    resource(vec![limit("requests", 10.0, span(1000))])
}

/// Ten requests in a second, as this algorithm counts them.
pub(crate) fn ten(algorithm: Algorithm) -> ResourceSpec {
    resource(vec![counted(algorithm, limit("requests", 10.0, span(1000)))])
}

/// `spec` with each class shared between clients that have these weights.
pub(crate) fn shared(spec: ResourceSpec, weights: &[(&str, f64)]) -> ResourceSpec {
    let weights = weights.iter().map(|(client, times)| ((*client).to_owned(), Weight::new(*times).unwrap())).collect();
    ResourceSpec { fair_share: Some(FairShare { label: "client".to_owned(), weights }), ..spec }
}

/// `spec` with a class `urgent`, which is the default, above a class `bulk` with this headroom.
pub(crate) fn with_bulk(mut spec: ResourceSpec, headroom: f64) -> ResourceSpec {
    spec.classes = vec![class("urgent", 0.0), class("bulk", headroom)];
    spec
}

/// Ten requests in a second, and a hundred units in ten.
pub(crate) fn two_limits() -> ResourceSpec {
    resource(vec![limit("requests", 10.0, span(1000)), limit("units", 100.0, span(10_000))])
}

/// Requests by the second, and units that are never given back.
pub(crate) fn with_quota() -> ResourceSpec {
    let quota = counted(Algorithm::Quota(None), limit("units", 100.0, span(10_000)));
    resource(vec![limit("requests", 10.0, span(1000)), quota])
}
