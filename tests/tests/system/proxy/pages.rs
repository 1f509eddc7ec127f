//! Requests that a web page of strangers has a browser send through a proxy.

use crate::prelude::*;
use rampmeter_proxy::Settings;
use rampmeter_proxy::route::{PathTemplate, Route, Routes};
use rampmeter_proxy::settings::{Asking, Pages};
use rampmeter_tests::http_proxy::{raw, settings};

const PAGE: &str = "origin: https://evil.example\r\nsec-fetch-site: cross-site";

/// A proxy that knows a host, the host of a route, and an origin.
async fn start(upstream: &RawUpstream) -> HttpProxy {
    let route = Route {
        methods: Vec::new(),
        host: Some("api.example".to_owned()),
        path: PathTemplate::any(),
        class: None,
        labels: Vec::new(),
        cost: Vec::new(),
    };
    let asking = Asking { routes: Routes::new(vec![route]), ..Asking::default() };
    let pages = Pages { hosts: vec!["proxy.internal".to_owned()], origins: vec!["https://app.example".to_owned()] };
    HttpProxy::start_with(AMPLE, Settings { asking, pages, ..settings(&upstream.url()) }).await
}

#[tokio::test]
async fn a_page_of_strangers_reaches_no_upstream() {
    let upstream = RawUpstream::start([]).await;
    let proxy = start(&upstream).await;
    let own = proxy.address();
    #[rustfmt::skip]
    let table = [
        // the request, its headers, the status
        ("GET /a",      format!("host: {own}"),                                                             200),
        ("GET /a",      format!("host: localhost:{}", own.port()),                                          200),
        ("GET /a",      "host: proxy.internal".to_owned(),                                                  200),
        ("GET /a",      "host: api.example:9470".to_owned(),                                                200),
        ("GET /a",      format!("host: {own}\r\norigin: http://{own}\r\nsec-fetch-site: same-origin"),  200),
        ("GET /a",      format!("host: {own}\r\norigin: https://app.example\r\nsec-fetch-site: cross-site"), 200),
        ("GET http://any.example/a", "host: any.example".to_owned(),                                        200),
        ("POST /a",     format!("host: {own}\r\ncontent-type: text/plain\r\n{PAGE}"),                   403),
        ("OPTIONS /a",  format!("host: {own}\r\naccess-control-request-method: DELETE\r\n{PAGE}"),      403),
        ("GET /a",      format!("host: {own}\r\nsec-fetch-site: cross-site"),                             403),
        ("GET /a",      format!("host: {own}\r\norigin: null"),                                           403),
        ("GET http://any.example/a", format!("host: any.example\r\n{PAGE}"),                              403),
        ("GET /a",      "host: evil.example:9470\r\norigin: http://evil.example:9470".to_owned(),         421),
        ("GET /a",      "host: evil.example".to_owned(),                                                    421),
    ];
    for (begin, headers, status) in &table {
        let request = format!("{begin} HTTP/1.1\r\n{headers}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let answer = within("an answer", raw(own, request.as_bytes(), |_| false)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{begin} {headers}: {answer}");
    }
    let passed = table.iter().filter(|(.., status)| *status == 200).count();
    assert_eq!(upstream.requests().len(), passed, "a refused request reaches the upstream");
    let counted = Worker::connect(&proxy.nats, "api").await.status().await.counters.granted;
    assert_eq!(usize::try_from(counted).unwrap(), passed, "a refused request has a permit");
}
