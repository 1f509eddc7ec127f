//! `/check` behind real gateways, with the shipped configurations.

use crate::prelude::*;
use axum::Router;
use rampmeter_tests::front::check;
use rampmeter_tests::gateway::{self, Behind, Kind};
use rampmeter_tests::http_proxy::raw;
use rampmeter_tests::listening::Listening;
use std::net::IpAddr;

/// The backend's answer.
const PASSED: &str = "passed";

/// A gateway in front of a server with one answer for all requests, which asks the front at `rampmeter`.
async fn before(kind: Kind, rampmeter: SocketAddr) -> Listening {
    let backend = serve(Router::new().fallback(async || PASSED)).await;
    let backend = backend.trim_start_matches("http://").parse().unwrap();
    gateway::start(kind, env!("CARGO_TARGET_TMPDIR"), Behind { rampmeter, backend }).await
}

/// Posts with headers that no client may set, among others.
async fn post(gateway: &Listening, path: &str) -> Response {
    let url = format!("http://{}{path}", gateway.address(0));
    // Traefik listens before it has its routes.
    until("the gateway knows where to", async || {
        let request = http().post(&url).header("x-api-key", "team-a").header("x-original-uri", "/free");
        let response = Response::read(request.body("content").send().await.unwrap()).await;
        (response.status != 404).then_some(response)
    })
    .await
}

#[tokio::test]
async fn a_client_learns_what_is_left_and_when_to_return() {
    for kind in Kind::ALL {
        let (_nats, front) = Front::alone(&check("api"), &few(2, "400h")).await;
        let gateway = before(kind, front.address()).await;
        for left in ["\"few\";r=1;t=720000", "\"few\";r=0;t=1440000"] {
            let passed = post(&gateway, "/tiles").await;
            assert_eq!((passed.status, &passed.body), (200, &json!(PASSED)), "{kind:?}: {passed:?}");
            let expected = kind.shows_limits_to_passing_clients().then_some(left);
            assert_eq!(passed.header("ratelimit"), expected, "{kind:?}: {passed:?}");
        }
        let refused = post(&gateway, "/tiles").await;
        let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!(refused.status == 429 && (1..=720_000).contains(&seconds), "{kind:?}: {refused:?}");
        assert_eq!(refused.header("ratelimit"), Some(format!("\"few\";r=0;t={seconds}").as_str()), "{kind:?}");
        assert_eq!(refused.header("ratelimit-policy"), Some("\"few\";q=2;w=1440000"), "{kind:?}");
    }
}

#[tokio::test]
async fn an_unknown_client_is_refused_by_its_labels() {
    for kind in Kind::ALL {
        let nats = nats::start().await;
        let client = nats::connect(&nats).await;
        // The test leads this resource, and has no limit for the client.
        let mut asked = client.subscribe("rampmeter.permit.other").await.unwrap();
        client.flush().await.unwrap();
        let front = Front::start(&nats, &check("other"), &few(2, "400h")).await;
        let gateway = before(kind, front.address()).await;
        let answering = async {
            let message = asked.next().await.unwrap();
            let request: Value = serde_json::from_slice(&message.payload).unwrap();
            let refused =
                json!({"status": "refused", "id": request["id"], "code": "no_limit", "message": "", "epoch": 1});
            client.publish(message.reply.unwrap(), refused.to_string().into()).await.unwrap();
            request
        };
        let (refused, request) = tokio::join!(post(&gateway, "/tiles/1?secret=2"), within("it asks", answering));
        assert_eq!((refused.status, refused.header("retry-after")), (503, None), "{kind:?}: {refused:?}");
        let address: IpAddr = request["labels"]["address"].as_str().unwrap().parse().unwrap();
        assert_eq!(address.is_loopback(), kind.knows_loopback(), "{kind:?}: {address}");
        let labels = json!({"client": "team-a", "route": "/tiles/1", "method": "POST", "address": address});
        assert_eq!(request["labels"], labels, "{kind:?}");
    }
}

#[tokio::test]
async fn a_client_learns_that_no_scheduler_answers() {
    for kind in Kind::ALL {
        let (mut nats, front) = Front::alone(&check("api"), &few(2, "400h")).await;
        let gateway = before(kind, front.address()).await;
        nats.kill().await.unwrap();
        let refused = post(&gateway, "/tiles").await;
        let retry_after = kind.tells_of_errors().then_some("1");
        assert_eq!((refused.status, refused.header("retry-after")), (503, retry_after), "{kind:?}: {refused:?}");
    }
}

#[tokio::test]
async fn no_request_passes_without_a_listener() {
    for kind in Kind::ALL {
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let gateway = before(kind, nobody).await;
        let refused = post(&gateway, "/tiles").await;
        assert!(refused.status >= 500, "{kind:?}: {refused:?}");
    }
}

/// The status that a client gets which sends these bytes as its target.
async fn status_of(gateway: &Listening, target: &[u8]) -> String {
    let headers = b" HTTP/1.1\r\nhost: localhost\r\nx-api-key: team-a\r\nconnection: close\r\n\r\n";
    let answer = raw(gateway.address(0), &[b"GET ", target, headers].concat(), |_| false).await;
    answer.split_whitespace().nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_around_its_limit() {
    let shipped = repository::file("deploy/reverse-proxy.toml").unwrap().text;
    let shipped = shipped.replace("capacity = 100\nperiod = \"1s\"", "capacity = 3\nperiod = \"400h\"\nmargin = 0");
    for kind in Kind::ALL {
        let (_nats, front) = Front::alone("", &shipped.replace("my-api", "api")).await;
        let gateway = before(kind, front.address()).await;
        assert_eq!(post(&gateway, "/elsewhere").await.status, 503, "{kind:?}: no limit matches it");
        for spelling in [&b"/tiles"[..], b"/%74iles", b"/free/../%74%69les/1"] {
            assert_eq!(status_of(&gateway, spelling).await, "200", "{kind:?}: {spelling:?}");
        }
        for spelling in [&b"/tiles"[..], b"/%74iles", b"/./tiles", b"/free/%2e%2e/tiles"] {
            assert_eq!(status_of(&gateway, spelling).await, "429", "{kind:?}: {spelling:?}");
        }
        // Some gateways refuse a byte that is no UTF-8, and some write it as `%FF` and ask.
        for unreadable in [&b"/tiles?\xff"[..], b"/tiles\xff"] {
            assert_ne!(status_of(&gateway, unreadable).await, "200", "{kind:?}: {unreadable:?}");
        }
    }
}
