//! The reading of any answer is within bounds.

mod common;

use common::NOW;
use proptest::prelude::*;
use rampmeter_dialects::{Dialect, MAX_PAUSE, MAX_RESET, Reader, RetryAfterUnit};
use rampmeter_policy::observation::Verdict;
use rampmeter_protocol::settle::{Headers, Response};
use rampmeter_protocol::text::Text;

#[test]
fn names_are_read_as_they_are_written() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.to_string().parse(), Ok(dialect));
    }
    for unit in [RetryAfterUnit::Seconds, RetryAfterUnit::Milliseconds] {
        assert_eq!(unit.to_string().parse(), Ok(unit));
    }
    let error = "klingon".parse::<Dialect>().map_err(|error| error.to_string());
    let there_are = "`sentinel-hub`, `ietf`, `discord`, `openai`, `anthropic`, `github`, `shopify`, `generic`, `plain`";
    assert_eq!(error, Err(format!("there is no dialect `klingon`; there are {there_are}")));
    let error = "fortnights".parse::<RetryAfterUnit>().map_err(|error| error.to_string());
    assert_eq!(error, Err("`Retry-After` is not in `fortnights`, but in `seconds`, `milliseconds`".to_owned()));
}

/// Names of headers, and texts that look like names.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "(x-|anthropic-)?(ratelimit|rate-limit)(-(limit|remaining|used|reset|reset-after|utilization|bucket|tokens|day|ms)){0,3}",
        "(x-)?retry-after(-(ms|seconds|years))?",
        prop::sample::select(vec![
            "date",
            "RateLimit",
            "ratelimit-policy",
            "throttle-status",
            "x-shopify-shop-api-call-limit",
            "sforce-limit-info",
            "x-processingunits-spent",
            "x-amzn-errortype",
            "x-ratelimit-scope",
            "x-ratelimit-global",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ]
}

/// Header values, and texts that look like values.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9]{0,30}(\\.[0-9]{0,30})?",
        "([0-9]{1,25}(\\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h|d|y)?){0,5}",
        "[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{1,5} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
        "-?[0-9]{1,6}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z",
        "\"?[a-z ]{0,70}\"?(;(r|t|q|w|qu|pk)=-?[0-9]{0,16}(\\.[0-9]{0,4})?){0,4}",
        "\\{\"maximumAvailable\":-?[0-9]{1,30}(e[0-9]{1,3})?,\"currentlyAvailable\":[0-9]{1,9},\"restoreRate\":[0-9]{1,9}\\}",
        "(api-usage=)?[0-9]{0,12}/[0-9]{0,12}",
        "(-?[0-9]{1,12}(;w=[0-9]{1,12})?,? ?){0,4}",
        "P[0-9]{0,12}D?T[0-9]{1,12}[HMS]",
        "[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT[+-][0-9]{4} \\(CET\\)",
        "(limit|remaining|reset)=[0-9]{0,16}, (limit|remaining|reset)=[0-9]{0,16}",
        prop::sample::select(vec!["true", "shared", "global", "core", "inf", "NaN", "1e309", "0"])
            .prop_map(str::to_owned),
    ]
}

fn answer() -> impl Strategy<Value = Response<'static>> {
    let header = (name(), value());
    let headers = prop::collection::vec(header, 0..12);
    let status = prop_oneof![Just(200), Just(403), Just(429), Just(503), any::<u16>()];
    let code =
        prop::option::of(prop_oneof![any::<String>(), Just("throttled".to_owned()), Just("lock_timeout".to_owned())]);
    (status, headers, any::<bool>(), code).prop_map(|(status, headers, quota_spent, code)| {
        let headers = headers.into_iter().map(|(name, value)| (Text::from(name), Text::from(value)));
        Response { status, headers: Headers::first_of(headers), quota_spent, code: code.map(Text::from) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_an_answer_says(
        answer in answer(),
        dialect in prop::sample::select(Dialect::ALL.to_vec()),
        unix_ms in prop_oneof![Just(NOW), Just(0), any::<u64>()],
    ) {
        let reading = Reader::of(dialect).read(&answer, unix_ms);
        match reading.observation.verdict {
            Verdict::Passed => prop_assert!((answer.status != 429 || answer.code.is_some()) && !answer.quota_spent),
            Verdict::Busy => prop_assert!(answer.status == 503),
            Verdict::Crowded => prop_assert!(false, "no header tells of calls in flight"),
            Verdict::Limited { retry_after, .. } => prop_assert!(retry_after.is_none_or(|pause| pause <= MAX_PAUSE)),
            Verdict::Exhausted { reset, .. } => prop_assert!(reset.is_none_or(|reset| reset <= MAX_RESET)),
        }
        for reading in reading.observation.readings {
            prop_assert!(reading.reset.is_none_or(|reset| reset <= MAX_RESET));
        }
        for header in reading.unreadable {
            prop_assert!(answer.headers.get(&header).is_some());
        }
    }
}
