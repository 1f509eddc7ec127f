//! The proxy sends a secret of its own to the upstream, and shows it nowhere else.

use crate::prelude::*;

const LIMITS: &str = "[http]\nlisten = \"\"\n[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\n\
    capacity = 100\nperiod = \"1s\"\n";
const CANARY: &str = "canary-7c1f";
const SERVED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const REFUSED: &[u8] = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno";

/// The configuration of a proxy in front of `upstream` with this credential.
fn proxy(upstream: &str, credential: &str) -> String {
    format!("[[proxy]]\nupstream = \"{upstream}\"\n[proxy.credential]\n{credential}\n")
}

/// The credential that the token endpoint of `portal` gives out.
fn oauth(portal: &Portal) -> String {
    let url = format!("{}/auth/realms/main/protocol/openid-connect/token", portal.url());
    format!(
        "oauth = {{ token_url = \"{url}\", client_id_env = \"HUB_CLIENT_ID\", \
         client_secret_env = \"HUB_CLIENT_SECRET\" }}"
    )
}

async fn get(proxy: &ProxyProcess) -> reqwest::Response {
    let request = http().get(format!("{}/a", proxy.url())).header("authorization", "Bearer of-the-client");
    within("an answer", request.send()).await.unwrap()
}

/// The lines of the last request that begin with `start`.
fn last(upstream: &RawUpstream, start: &str) -> Vec<String> {
    let request = upstream.requests().pop().unwrap();
    request.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_upstream_sees_the_secret_of_the_proxy_and_no_log_does() {
    let upstream = RawUpstream::start([]).await;
    let environment = [("RAMPMETER_LOG", "trace"), ("SECRET", CANARY)];
    let table = [
        ("secret_env = \"SECRET\"", "authorization: ", format!("authorization: Bearer {CANARY}")),
        ("secret_env = \"SECRET\"\nscheme = \"Bot\"", "authorization: ", format!("authorization: Bot {CANARY}")),
        ("secret_env = \"SECRET\"\nheader = \"x-api-key\"", "x-api-key: ", format!("x-api-key: {CANARY}")),
    ];
    for (credential, start, expected) in table {
        let text = proxy(&upstream.url(), credential) + LIMITS;
        let process = ProxyProcess::start(RAMPMETER, &text, &[], &environment).await;
        assert_eq!(get(&process).await.status(), 200);
        assert_eq!(last(&upstream, start), [expected]);
        until("the request is told", async || process.log().contains("\"forwarded\"").then_some(())).await;
        assert!(!process.log().contains(CANARY), "{}", process.log());
    }
}

#[tokio::test]
async fn a_secret_in_a_file_may_be_replaced() {
    let upstream = RawUpstream::start([]).await;
    let file = file_with("first\n");
    let text = proxy(&upstream.url(), &format!("secret_file = {:?}", file.path())) + LIMITS;
    let process = ProxyProcess::start(RAMPMETER, &text, &[], &[]).await;
    get(&process).await;
    assert_eq!(last(&upstream, "authorization: "), ["authorization: Bearer first"]);
    std::fs::write(file.path(), "second\n").unwrap();
    until("the second one counts", async || {
        get(&process).await;
        (last(&upstream, "authorization: ") == ["authorization: Bearer second"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_token_is_fetched_once_for_all_and_renewed_before_its_end() {
    let upstream = RawUpstream::start([]).await;
    let portal = portal::with_token_life(Duration::from_secs(5)).await;
    let text = proxy(&upstream.url(), &oauth(&portal)) + LIMITS;
    let verbose = [portal::ENVIRONMENT[0], portal::ENVIRONMENT[1], ("RAMPMETER_LOG", "trace")];
    let process = ProxyProcess::start(RAMPMETER, &text, &[], &verbose).await;
    let answers = join_all((0..20).map(|_| get(&process))).await;
    assert!(answers.iter().all(|answer| answer.status() == 200));
    let tokens = portal.tokens();
    assert_eq!(tokens.len(), 1);
    assert_eq!(last(&upstream, "authorization: "), [format!("authorization: Bearer {}", tokens[0])]);
    until("it is renewed", async || {
        assert_eq!(get(&process).await.status(), 200);
        let shown = last(&upstream, "authorization: ");
        portal.tokens().get(1).filter(|token| shown == [format!("authorization: Bearer {token}")]).map(drop)
    })
    .await;
    for token in portal.tokens() {
        assert!(!process.log().contains(token.rsplit('.').next().unwrap()), "{}", process.log());
    }
    assert!(!process.log().contains("canary"), "{}", process.log());
}

#[tokio::test]
async fn without_a_token_nothing_is_sent_and_the_endpoint_is_not_flooded() {
    let upstream = RawUpstream::start([]).await;
    let portal = portal::upstream(&["requests=1000/PT1M"]).await;
    portal.set_fault(Endpoint::Token, Some(Fault::Status(500)));
    let text = proxy(&upstream.url(), &oauth(&portal)) + LIMITS;
    let process = ProxyProcess::start(RAMPMETER, &text, &[], &portal::ENVIRONMENT).await;
    for answer in join_all((0..20).map(|_| get(&process))).await {
        let received = Response::read(answer).await;
        assert_eq!(
            (received.status, &received.body["code"], received.header("retry-after")),
            (503, &"no_credential".into(), Some("1"))
        );
    }
    assert!(upstream.requests().is_empty());
    assert!(process.log().matches("a proxy has no credential").count() < 10, "{}", process.log());
    portal.set_fault(Endpoint::Token, None);
    until("it goes on", async || (get(&process).await.status() == 200).then_some(())).await;
}

/// The scheduler has the client's secret; the proxies have none.
#[tokio::test]
async fn proxies_share_the_token_of_the_scheduler() {
    let (nats, upstream) = (nats::start().await, RawUpstream::start([Act::Say(REFUSED.to_vec())]).await);
    let portal = portal::upstream(&["requests=1000/PT1M"]).await;
    let hub = portal::resource("hub", 1000, &portal, "share_token = true");
    let scheduler = portal::start(RAMPMETER, &nats, &hub).await;
    let text = proxy(&upstream.url(), "shared_token = true");
    let arguments = ["--nats", nats.url(), "--resource", "hub"];
    for status in [401, 200] {
        let process = ProxyProcess::start(RAMPMETER, &text, &arguments, &[]).await;
        assert_eq!(get(&process).await.status(), status, "what the upstream says passes");
        assert_eq!(last(&upstream, "authorization: "), [format!("authorization: Bearer {}", portal.tokens()[0])]);
    }
    assert_eq!(portal.tokens().len(), 1);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_secret_that_is_missing_or_would_be_seen_keeps_a_proxy_from_starting() {
    #[rustfmt::skip]
    let table = [
        ("https://a.example",   "secret_env = \"RAMPMETER_NEVER_SET\"",       "`RAMPMETER_NEVER_SET` is not set"),
        ("http://a.example",    "secret_env = \"PATH\"",                      "would go over the network for all to read"),
        ("https://a.example",   "secret_env = \"PATH\"\nsecret_file = \"a\"", "give one of"),
        ("https://a.example",   "secret_env = \"canary-secret\"",             "the name of an environment variable"),
    ];
    for (upstream, credential, expected) in table {
        let file = file_with(proxy(upstream, credential) + LIMITS);
        let folder = tempfile::tempdir().unwrap();
        let (path, data) = (file.path().to_str().unwrap(), folder.path().to_str().unwrap());
        let started = process::printed(RAMPMETER, &["proxy", path, "--listen", "127.0.0.1:0", "--data", data]).await;
        let said = started.unwrap_err();
        assert!(said.contains(expected), "{credential}: {said}");
    }
}

/// Each call has the credential of the account that makes it. An account whose credential the
/// upstream refuses is left out, and its call made by another.
#[tokio::test]
async fn each_call_has_the_credential_of_its_account() {
    let served = (0..4).map(|_| Act::Say(SERVED.to_vec()));
    let upstream = RawUpstream::start(served.chain([Act::Say(REFUSED.to_vec())])).await;
    let limits =
        LIMITS.replace("name = \"api\"\n", "name = \"api\"\naccounts = [\"one\", \"two\"]\n") + "per = \"account\"\n";
    let of_accounts = "[proxy.credential.one]\nsecret_env = \"ONE\"\n[proxy.credential.two]\nsecret_env = \"TWO\"\n";
    let text = format!("[[proxy]]\nupstream = \"{}\"\n{of_accounts}{limits}", upstream.url());
    let environment = [("RAMPMETER_LOG", "trace"), ("ONE", CANARY), ("TWO", "canary-2b7d")];
    let process = ProxyProcess::start(RAMPMETER, &text, &[], &environment).await;
    let of = |secret: &str| format!("authorization: Bearer {secret}");
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        assert_eq!(get(&process).await.status(), 200);
        seen.extend(last(&upstream, "authorization: "));
    }
    assert_eq!(seen, BTreeSet::from([of(CANARY), of("canary-2b7d")]));

    let before = upstream.requests().len();
    assert_eq!(get(&process).await.status(), 200);
    assert_eq!(upstream.requests().len(), before + 2, "the other account has made the call");
    let other = last(&upstream, "authorization: ");
    for _ in 0..3 {
        assert_eq!(get(&process).await.status(), 200);
        assert_eq!(last(&upstream, "authorization: "), other);
    }
    assert!(!process.log().contains("canary-"), "{}", process.log());
}
