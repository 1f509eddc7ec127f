//! Errors in the bodies of answers, which the proxy reads for the scheduler.

use crate::prelude::*;
use rampmeter_tests::raw_upstream::with_status;

const QUOTA: &str = "[http]\nlisten = \"\"\n[[proxy]]\nupstream = \"http://a\"\nmax_wait = \"200ms\"\n\
    [[resource]]\nname = \"api\"\ndialect = \"sentinel-hub\"\nstart = \"full\"\n\
    [[resource.limit]]\nname = \"month\"\nalgorithm = \"quota\"\nresets = \"month\"\ncapacity = 1000\n";
const RATE: &str = "[http]\nlisten = \"\"\n[[proxy]]\nupstream = \"http://a\"\nmax_wait = \"20s\"\n\
    [[resource]]\nname = \"api\"\nstart = \"full\"\n\
    [[resource.limit]]\nname = \"few\"\ncapacity = 1000\nperiod = \"1s\"\n";

fn says(status: &str, head: &str, body: &str) -> Act {
    Act::Say(with_status(status, &format!("content-type: application/json\r\n{head}"), body))
}

async fn get(proxy: &ProxyProcess) -> (u16, String) {
    let answered = http().get(proxy.url()).send().await.unwrap();
    (answered.status().as_u16(), answered.text().await.unwrap())
}

/// A code beyond the first 16 KiB (`objection::MAX_READ`) is not looked for.
#[tokio::test]
async fn the_code_of_an_error_reaches_the_scheduler() {
    let spent = r#"{"error":{"status":403,"reason":"Forbidden","code":"ACCESS_INSUFFICIENT_PROCESSING_UNITS"}}"#;
    let late = format!("{{\"details\":[\"{}\"],{}", "a".repeat(20_000), &spent[1..]);
    for (body, head, then) in [
        (spent, "", 429),
        (&spent.replace("INSUFFICIENT", "OTHER"), "", 200),
        (&late, "", 200),
        (spent, "content-encoding: br\r\n", 200),
    ] {
        let upstream = RawUpstream::start([says("403 Forbidden", head, body)]).await;
        let proxy = ProxyProcess::start(RAMPMETER, QUOTA, &["--upstream", &upstream.url()], &[]).await;
        let (status, passed) = get(&proxy).await;
        assert!(status == 403 && (passed == *body || !head.is_empty()), "the answer passes as it is");
        // The settle and the next request of one client stay in order.
        assert_eq!(get(&proxy).await.0, then, "{body:.100}");
    }
}

#[tokio::test]
async fn a_429_that_no_wait_mends_is_not_repeated() {
    let spent = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let limited = r#"{"error":{"code":"rate_limit_exceeded"}}"#;
    let upstream =
        RawUpstream::start([says("429 Many", "", limited), says("429 Many", "", spent), says("200 OK", "", "{}")])
            .await;
    let proxy = ProxyProcess::start(RAMPMETER, RATE, &["--upstream", &upstream.url()], &[]).await;
    assert_eq!(get(&proxy).await, (429, spent.to_owned()));
    assert_eq!(upstream.requests().len(), 2, "the first was repeated, the second was not");
}

#[tokio::test]
async fn a_body_may_say_when_to_come_back() {
    let later = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"3s"}]}}"#;
    for (head, shortest, longest) in [("", 2500, 20_000), ("retry-after: 1\r\n", 0, 2400)] {
        let upstream = RawUpstream::start([says("429 Many", head, later)]).await;
        let proxy = ProxyProcess::start(RAMPMETER, RATE, &["--upstream", &upstream.url()], &[]).await;
        let (clock, begun) = (Clock::start(), Clock::start().now());
        assert_eq!(get(&proxy).await.0, 200);
        let took = clock.now().since(begun);
        assert!((Span::from_millis(shortest)..Span::from_millis(longest)).contains(&took), "{head:?}: {took}");
    }
}

/// The text of an objection in the file is found in any plain body, in its first 16 KiB, and in the last event
/// of a stream.
#[tokio::test]
async fn a_text_that_the_file_names_is_an_objection() {
    let objection =
        "[[resource.objection]]\nstatus = 200\nbody = \"come back later\"\nmeans = \"pause\"\npause = \"3s\"\n";
    let file = RATE.replace("[[resource.limit]]", &format!("{objection}[[resource.limit]]"));
    let event = |text: &str| format!("data: {{\"text\":\"{text}\"}}\n\n");
    let stream = "content-type: text/event-stream\r\n";
    let tale = event("he said: come back later");
    #[rustfmt::skip]
    let table = [
        ("200 OK",      "content-type: text/plain\r\n", "Please COME back later.".to_owned(),               true),
        ("200 OK",      "content-type: text/plain\r\n", "a".repeat(17_000) + "come back later",             false),
        ("404 Nothing", "content-type: text/plain\r\n", "come back later".to_owned(),                       false),
        ("200 OK",      stream,                         event("hello") + "event: error\n" + &tale,          true),
        ("200 OK",      stream,                         tale.clone() + &event("and so she did"),            false),
    ];
    for (status, kind, body, pauses) in table {
        let upstream = RawUpstream::start([Act::Say(with_status(status, kind, &body))]).await;
        let proxy = ProxyProcess::start(RAMPMETER, &file, &["--upstream", &upstream.url()], &[]).await;
        let passed = get(&proxy).await.1;
        assert_eq!(passed, body);
        let (clock, begun) = (Clock::start(), Clock::start().now());
        get(&proxy).await;
        let took = clock.now().since(begun);
        assert_eq!(took >= Span::from_millis(2500), pauses, "{status} {body:.60}: {took}");
    }
}
