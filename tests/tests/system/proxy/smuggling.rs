//! Requests that two servers could read differently: the proxy refuses each, and the upstream sees
//! nothing of them.

use crate::prelude::*;
use rampmeter_tests::http_proxy::raw;

/// A request inside another one. The upstream must never see it as a request of its own.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";

/// The answer to a POST with these headers and this body, on a connection of its own.
async fn answered(proxy: &HttpProxy, line: &str, rest: &str) -> String {
    let request = format!("{line}\r\nhost: a\r\n{rest}");
    within("the end of the connection", raw(proxy.address(), request.as_bytes(), |_| false)).await
}

#[tokio::test]
async fn requests_that_can_be_read_in_two_ways_are_refused() {
    let upstream = RawUpstream::start([]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let chunk = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    let post = "POST / HTTP/1.1";
    #[rustfmt::skip]
    let table = [
        ("CL.TE",               post, format!("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}")),
        ("TE.CL",               post, format!("transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n{chunk}")),
        ("TE.TE, second other", post, format!("transfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n{chunk}")),
        ("TE.TE, first other",  post, format!("transfer-encoding: x\r\ntransfer-encoding: chunked\r\n\r\n{chunk}")),
        ("TE in quotes",        post, format!("transfer-encoding: \"chunked\"\r\n\r\n{chunk}")),
        ("TE with a tab",       post, format!("transfer-encoding:\tx\tchunked\r\n\r\n{chunk}")),
        ("TE in a list",        post, format!("transfer-encoding: identity, chunked\r\n\r\n{chunk}")),
        ("TE in HTTP/1.0",      "POST / HTTP/1.0", format!("transfer-encoding: chunked\r\n\r\n{chunk}")),
        ("space before colon",  post, format!("transfer-encoding : chunked\r\n\r\n{chunk}")),
        ("CL.CL",               post, format!("content-length: 0\r\ncontent-length: 44\r\n\r\n{SMUGGLED}")),
        ("CL in a list",        post, format!("content-length: 0, 44\r\n\r\n{SMUGGLED}")),
        ("CL with a sign",      post, format!("content-length: +0\r\n\r\n{SMUGGLED}")),
        ("obs-fold",            post, format!("a: b\r\n content-length: 44\r\n\r\n{SMUGGLED}")),
        ("folded TE",           post, format!("transfer-encoding:\r\n chunked\r\n\r\n{chunk}")),
        ("bare LF",             post, format!("a: b\ntransfer-encoding: chunked\r\n\r\n{chunk}")),
        ("bare LF at the end",  post, format!("a: b\n\n{SMUGGLED}")),
        ("bare CR",             post, format!("a: b\rtransfer-encoding: chunked\r\n\r\n{chunk}")),
        ("NUL in a value",      post, format!("a: b\0c\r\n\r\n{SMUGGLED}")),
        ("line without colon",  post, format!("transfer-encoding\r\n\r\n{SMUGGLED}")),
    ];
    for (name, line, rest) in table {
        let answered = answered(&proxy, line, &rest).await;
        let statuses = answered.matches("HTTP/1.1 ").count() + answered.matches("HTTP/1.0 ").count();
        assert!(answered.contains(" 400 ") && statuses == 1, "{name}: {answered}");
    }
    assert_eq!(upstream.requests(), [""; 0]);
}

#[tokio::test]
async fn an_invalid_chunk_breaks_its_request_off() {
    let upstream = RawUpstream::start([]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    for body in
        ["x\r\n", "-1\r\n", "1\r\nab\r\n0\r\n\r\n", "ffffffffffffffffff\r\n", "1;\n\r\na\r\n0\r\n\r\n", "1\na\n0\n\n"]
    {
        let rest = format!("transfer-encoding: chunked\r\n\r\n{body}{SMUGGLED}");
        let answered = answered(&proxy, "POST / HTTP/1.1", &rest).await;
        assert!(!answered.contains(" 200 "), "{body:?}: {answered}");
    }
    assert!(upstream.requests().iter().all(|request| !request.contains("smuggled")));
}

/// The bytes behind a body in chunks belong to no request: its connection closes.
#[tokio::test]
async fn a_connection_ends_behind_a_body_in_chunks() {
    let upstream = RawUpstream::start([]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let rest = format!("transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n{SMUGGLED}");
    let answered = answered(&proxy, "POST / HTTP/1.1", &rest).await;
    assert!(answered.contains(" 200 ") && answered.contains("connection: close"), "{answered}");
    assert_eq!(upstream.requests().len(), 1);
}
