//! The reading of any answer is within bounds, and workers send every header that is read.

mod common;

use common::NOW;
use proptest::prelude::*;
use rampmeter_dialects::{Dialect, MAX_PAUSE, MAX_RESET, Reader, RetryAfterUnit};
use rampmeter_protocol::headers::OF_LIMITS;
use rampmeter_protocol::settle::{Headers, Response};
use rampmeter_protocol::text::Text;
use rampmeter_scheduler_core::adaptation::observation::Verdict;
use std::collections::BTreeSet;

#[test]
fn workers_send_what_some_dialect_reads_and_nothing_else() {
    let read: BTreeSet<_> = Dialect::ALL.into_iter().flat_map(Dialect::headers).collect();
    assert_eq!(read.into_iter().collect::<Vec<_>>(), OF_LIMITS);
}

#[test]
fn names_are_read_as_they_are_written() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.to_string().parse(), Ok(dialect));
    }
    for unit in [RetryAfterUnit::Seconds, RetryAfterUnit::Milliseconds] {
        assert_eq!(unit.to_string().parse(), Ok(unit));
    }
    let error = "klingon".parse::<Dialect>().map_err(|error| error.to_string());
    let there_are = "`sentinel-hub`, `ietf`, `discord`, `openai`, `anthropic`, `github`, `shopify`, `plain`";
    assert_eq!(error, Err(format!("there is no dialect `klingon`; there are {there_are}")));
    let error = "fortnights".parse::<RetryAfterUnit>().map_err(|error| error.to_string());
    assert_eq!(error, Err("`Retry-After` is not in `fortnights`, but in `seconds`, `milliseconds`".to_owned()));
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
        "[0-9]{0,12}/[0-9]{0,12}",
        "(limit|remaining|reset)=[0-9]{0,16}, (limit|remaining|reset)=[0-9]{0,16}",
        prop::sample::select(vec!["true", "shared", "global", "core", "inf", "NaN", "1e309", "0"])
            .prop_map(str::to_owned),
    ]
}

fn answer() -> impl Strategy<Value = Response<'static>> {
    let header = (prop::sample::select(OF_LIMITS.to_vec()), value());
    let headers = prop::collection::vec(header, 0..12);
    let status = prop_oneof![Just(200), Just(403), Just(429), Just(503), any::<u16>()];
    (status, headers, any::<bool>()).prop_map(|(status, headers, quota_spent)| {
        let headers = headers.into_iter().map(|(name, value)| (Text::from(name), Text::from(value)));
        Response { status, headers: Headers::first_of(headers), quota_spent, code: None }
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
            Verdict::Passed => prop_assert!(answer.status != 429 && !answer.quota_spent),
            Verdict::Busy => prop_assert!(answer.status == 503),
            Verdict::Crowded => prop_assert!(false, "no header tells of calls in flight"),
            Verdict::Limited { retry_after, .. } => prop_assert!(retry_after.is_none_or(|pause| pause <= MAX_PAUSE)),
            Verdict::Exhausted { reset, .. } => prop_assert!(reset.is_none_or(|reset| reset <= MAX_RESET)),
        }
        for reading in reading.observation.readings {
            prop_assert!(reading.reset.is_none_or(|reset| reset <= MAX_RESET));
        }
        for header in reading.unreadable {
            prop_assert!(dialect.headers().contains(&header) && answer.headers.get(header).is_some());
        }
    }
}
