//! Access to the HTTP front: tokens, and bounds on everything that a client sends.

use crate::prelude::*;
use rampmeter_tests::http_proxy::raw;

const API: &str = "[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 4\nperiod = \"1s\"\n";
const CHECK: &str = "[http.check]\nresource = \"api\"";
const TOKEN: &str = "canary-token-of-the-front";

#[tokio::test]
async fn a_token_is_asked_for_where_permits_are_given() {
    let nats = nats::start().await;
    let file = file_with(format!("{TOKEN}\n"));
    let front = Front::start(&nats, &format!("token_file = {:?}\n{CHECK}", file.path()), API).await;
    let right = format!("Bearer {TOKEN}");
    #[rustfmt::skip]
    let table = [
        // path             authorization                               status
        ("/check",          Some(right.as_str()),                       200),
        ("/check/path",     Some("bearer canary-token-of-the-front"),   200),
        ("/check",          None,                                       401),
        ("/check/path",     None,                                       401),
        ("/check",          Some("Bearer "),                            401),
        ("/check",          Some("Bearer"),                             401),
        ("/check",          Some(TOKEN),                                401),
        ("/check",          Some("Basic canary-token-of-the-front"),    401),
        ("/check",          Some("Bearer canary-token-of-the-fronT"),   401),
        ("/check",          Some("Bearer canary-token-of-the-fron"),    401),
        ("/v1/permit/api",  None,                                       401),
        ("/v1/settle/api",  None,                                       401),
        ("/v1/permit/api",  Some(right.as_str()),                       405),
        ("/healthz",        None,                                       200),
        ("/readyz",         None,                                       200),
        ("/metrics",        None,                                       200),
        ("/elsewhere",      None,                                       404),
    ];
    for (path, authorization, status) in table {
        let headers = authorization.map(|authorization| ("authorization", authorization));
        let response = front.get(path, headers.as_slice()).await;
        assert_eq!(response.status, status, "{path} {authorization:?}");
        let challenge = (status == 401).then_some("Bearer");
        assert_eq!(response.header("www-authenticate"), challenge, "{path} {authorization:?}");
    }
}

/// The output of `rampmeter serve` and `rampmeter check` on a configuration with this `[http]`.
async fn complaints(nats_url: &str, http: &str, command: &str) -> (bool, String) {
    let file = file_with(format!("[nats]\nurl = \"{nats_url}\"\n[http]\n{http}\n{API}"));
    let arguments = [command, "--config", file.path().to_str().unwrap()];
    let (code, text) = process::told(RAMPMETER, &arguments, &[("FRONT_TOKEN", TOKEN), ("SHORT_TOKEN", "canary")]).await;
    (code == Some(0), text)
}

#[tokio::test]
async fn a_reachable_front_without_a_token_does_not_start() {
    let nats = nats::start().await;
    let remedy = "no token is asked for; set `http.token_env`, `http.token_file` or `http.tokens_file`, listen at 127.0.0.1, or leave \
                  health and metrics alone with `front = false`";
    for (listen, shown) in [("0.0.0.0", "0.0.0.0"), ("[::]", "::")] {
        let reason = format!("`http.listen`: at {shown} others than this host reach /v1 and /check, and");
        for command in ["serve", "check"] {
            let (good, said) = complaints(nats.url(), &format!("listen = \"{listen}:0\""), command).await;
            assert!(!good && said.contains(&reason) && said.contains(remedy), "{command} {listen}: {said}");
        }
    }
    for http in ["listen = \"0.0.0.0:0\"\nfront = false", "listen = \"0.0.0.0:0\"\ntoken_env = \"FRONT_TOKEN\""] {
        let (good, said) = complaints(nats.url(), http, "check").await;
        assert!(good, "{http}: {said}");
    }
}

/// `check` finds what `serve` would end with.
#[tokio::test]
async fn check_finds_wrong_addresses_and_files_of_tokens() {
    let nats = nats::start().await;
    let file = NamedTempFile::new().unwrap();
    let wrong = format!("tokens_file = {:?}", file.path());
    let form = "`http.tokens_file`: ";
    #[rustfmt::skip]
    let table = [
        ("listen = \"9480\"",                 "`http.listen`: \"9480\" is no address with a port, like \"127.0.0.1:"),
        ("listen = \"127.0.0.1:70000\"",      "`http.listen`: \"127.0.0.1:70000\" is no address with a port"),
        ("tokens_file = \"/nowhere.toml\"",   "`http.tokens_file`: the file /nowhere.toml can't be read"),
        ("token_file = \"/nowhere\"",         "`http.token_file`: the file /nowhere can't be read"),
        (wrong.as_str(),                      form),
    ];
    for (http, reason) in table {
        for command in ["serve", "check"] {
            let (good, said) = complaints(nats.url(), http, command).await;
            assert!(!good && said.contains(reason), "{command} {http}: {said}");
        }
    }
    for command in ["serve", "check"] {
        let (good, said) = complaints("nats://a b", "listen = \"\"", command).await;
        assert!(!good && said.contains("`nats.url`: the URL of the NATS server is not like"), "{command}: {said}");
    }
    // `check` may run where the variables of the service are not set.
    for (variable, reason) in [
        ("SHORT_TOKEN", "the token has 6 bytes; one that nobody guesses has 16 or more"),
        ("UNSET_TOKEN", "the environment variable `UNSET_TOKEN` is not set"),
    ] {
        let http = format!("listen = \"127.0.0.1:0\"\ntoken_env = \"{variable}\"");
        let (good, said) = complaints(nats.url(), &http, "serve").await;
        let reason = format!("`http.token_env`: {reason}");
        assert!(!good && said.contains(&reason) && !said.contains("canary"), "{variable}: {said}");
    }
    for listen in ["listen = \"localhost:9480\"", "listen = \"\"", "token_env = \"UNSET_TOKEN\""] {
        let (good, said) = complaints(nats.url(), listen, "check").await;
        assert!(good, "{listen}: {said}");
    }
}

#[tokio::test]
async fn without_the_front_there_is_health_alone() {
    let (_nats, front) = Front::alone("front = false", API).await;
    assert_eq!(front.get("/healthz", &[]).await.status, 200);
    assert_eq!(front.post("/v1/permit/api", "").await.status, 404);
    assert_eq!(front.get("/check", &[]).await.status, 404);
}

#[tokio::test]
async fn the_token_is_seen_nowhere() {
    let nats = nats::start().await;
    let config = scheduler::configuration(nats.url(), &format!("token_env = \"FRONT_TOKEN\"\n{CHECK}\n{API}"));
    let verbose = [("FRONT_TOKEN", TOKEN), ("RAMPMETER_LOG", "trace")];
    let mut process = Process::begin_in(RAMPMETER, &config, &[], &verbose);
    process.until_ready().await;
    let url = process.http().unwrap();
    for (token, status) in [(TOKEN, 200), ("canary-of-somebody-else", 401)] {
        let answer = http().get(format!("{url}/check")).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status);
        assert!(!answer.text().await.unwrap().contains("canary"));
    }
    for page in ["/metrics", "/readyz"] {
        assert!(!scheduler::get(&format!("{url}{page}")).await.1.contains("canary"), "{page}");
    }
    let command_line = std::fs::read(format!("/proc/{}/cmdline", process.id())).unwrap();
    assert!(!String::from_utf8_lossy(&command_line).contains("canary"));
    let log = process.log();
    let shown = log.lines().find(|line| line.contains("canary"));
    assert_eq!(shown, None, "the log shows it");
    process.stop().await;
}

/// The answer to `sent`, until the other end closes.
async fn answered(address: SocketAddr, sent: &[u8]) -> String {
    within("the connection is closed", raw(address, sent, |_| false)).await
}

/// Reaches `reading::MAX_BODY` and `connection_limiter::MAX_HEAD`.
#[tokio::test]
async fn requests_that_are_too_large_are_refused() {
    let (_nats, front) = Front::alone("", API).await;
    let fits = format!("{{}}{}", " ".repeat(64 * 1024 - 2));
    assert_eq!(front.post("/v1/permit/api", fits.clone()).await.status, 200);
    assert_eq!(front.post("/v1/permit/api", fits + " ").await.status, 413);
    let long_header = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(20 * 1024));
    let many_headers = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(200));
    let long_path = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(20 * 1024));
    for (what, sent) in [("long header", long_header), ("many headers", many_headers), ("long path", long_path)] {
        let answer = answered(front.address(), sent.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{what}: {answer}");
    }
    let with_body = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    assert!(answered(front.address(), with_body).await.starts_with("HTTP/1.1 413 "));
    assert!(answered(front.address(), b"nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    assert_eq!(front.get("/healthz", &[]).await.status, 200, "other requests are served");
}

#[tokio::test]
async fn slow_clients_are_cut_off() {
    let (_nats, front) = Front::alone("", API).await;
    let address = front.address();
    let head = tokio::spawn(async move { answered(address, b"GET /healthz HTTP/1.1\r\nhost:").await });
    let body = tokio::spawn(async move {
        answered(address, b"POST /v1/permit/api HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{").await
    });
    let answer = body.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(head.await.unwrap(), "", "a request without an end has no answer");
}

/// Clients that never finish their headers, or their bodies, or never begin.
async fn slow_clients(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let says: [&[u8]; 3] = [
        b"",
        b"GET /healthz HTTP/1.1\r\nx-slow: ",
        b"POST /v1/permit/api HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{",
    ];
    let mut slow = Vec::new();
    for (_, say) in (0..count).zip(says.iter().cycle()) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(say).await.unwrap();
        slow.push(stream);
    }
    slow
}

#[tokio::test]
async fn slow_clients_in_every_place_keep_no_client_out() {
    let (_nats, front) = Front::alone("max_connections = 500", API).await;
    let _slow = slow_clients(front.address(), 600).await;
    let asking = async {
        for _ in 0..20 {
            let answer = http().get(format!("http://{}/healthz", front.address())).send().await;
            assert_eq!(answer.unwrap().status().as_u16(), 200);
        }
    };
    let at_once = tokio::time::timeout(Duration::from_secs(4), asking).await;
    at_once.expect("no request waits until the slow clients are cut off");
}

#[tokio::test]
async fn requests_that_wait_keep_their_places_and_leave_health_its_own() {
    let nats = nats::start().await;
    let client = nats::connect(&nats).await;
    // The test leads this resource, and lets every request wait.
    let mut asked = client.subscribe("rampmeter.permit.other").await.unwrap();
    client.flush().await.unwrap();
    let front = Front::start(&nats, "max_connections = 4", API).await;
    let mut polls = Vec::new();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let sending =
            http().post(format!("http://{}/v1/permit/other", front.address())).json(&json!({"mode": "wait"})).send();
        polls.push(tokio::spawn(async move { sending.await.unwrap().status().as_u16() }));
        let message = within("it asks", asked.next()).await.unwrap();
        let id = serde_json::from_slice::<Value>(&message.payload).unwrap()["id"].clone();
        let queued = json!({"status": "queued", "id": id, "position": 0, "eta_ms": 9000, "epoch": 1});
        let reply = message.reply.unwrap();
        client.publish(reply.clone(), queued.to_string().into()).await.unwrap();
        waiting.push((reply, json!({"status": "granted", "id": id, "delay_ms": 0, "epoch": 1})));
    }
    let mut early = TcpStream::connect(front.address()).await.unwrap();
    let _slow = slow_clients(front.address(), 60).await;
    for _ in 0..60 {
        let full = front.post("/v1/permit/other", r#"{"mode": "wait"}"#).await;
        assert_eq!((full.status, full.header("retry-after")), (503, Some("1")));
    }
    for page in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(front.get(page, &[]).await.status, 200, "{page}");
    }
    // A burst of connections ends none that has just begun.
    early.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut received = String::new();
    within("it is answered", early.read_to_string(&mut received)).await.unwrap();
    assert!(received.starts_with("HTTP/1.1 200 "), "{received}");
    for (reply, granted) in waiting {
        client.publish(reply, granted.to_string().into()).await.unwrap();
    }
    for poll in polls {
        assert_eq!(poll.await.unwrap(), 200);
    }
    assert_ne!(front.post("/v1/permit/api", "").await.status, 503, "the places are free again");
}

#[tokio::test]
async fn a_token_that_polls_leaves_places_to_others_and_to_the_site() {
    let nats = nats::start().await;
    let file = NamedTempFile::new().unwrap();
    let token = |name: &str| format!("[[token]]\nname = \"{name}\"\nsecret = \"canary-of-token-{name}\"\n");
    std::fs::write(file.path(), token("a") + &token("b")).unwrap();
    let http_settings = format!("max_connections = 9\ntokens_file = {:?}\n{CHECK}", file.path());
    let busy = API.replace("\"api\"", "\"busy\"").replace("capacity = 4", "capacity = 1").replace("1s", "400h");
    let front = Front::start(&nats, &http_settings, &format!("{API}{busy}")).await;
    let ask = |token: &str, path: &str, body: Value| {
        let request = http().post(format!("http://{}{path}", front.address())).json(&body);
        let request = request.bearer_auth(format!("canary-of-token-{token}"));
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(ask("b", "/v1/permit/busy", json!({})).await, 200, "nothing is left of the limit");
    let mut polls: JoinSet<u16> = (0..9).map(|_| ask("a", "/v1/permit/busy", json!({"mode": "wait"}))).collect();
    for _ in 0..3 {
        let beyond = within("it is sent away", polls.join_next()).await;
        assert_eq!(beyond.unwrap().unwrap(), 503, "six wait, twice as many as places are free");
    }
    #[rustfmt::skip]
    let table = [
        ("a", "/check",         json!({}),              200),
        ("a", "/v1/settle/api", json!({"id": "none"}),  404),
        ("b", "/check",         json!({}),              200),
        ("b", "/v1/permit/api", json!({}),              200),
        ("a", "/v1/permit/api", json!({}),              503),
    ];
    for (token, path, body, status) in table {
        assert_eq!(ask(token, path, body).await, status, "{token} {path}");
    }
    assert_eq!(polls.len(), 6, "they still wait");
}
