//! `rampmeter proxy` and `[[proxy]]` as people start them.

use crate::prelude::*;
use rampmeter_tests::process::run_in;

const LIMITS: &str = "[http]\nlisten = \"\"\n[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\n\
    capacity = 100\nperiod = \"1s\"\n";

#[tokio::test]
async fn without_a_server_of_any_kind_the_limits_of_a_file_count() {
    let upstream = RawUpstream::start([]).await;
    let mut proxy = ProxyProcess::start(RAMPMETER, LIMITS, &["--upstream", &upstream.url()], &[]).await;
    let answered = http().get(format!("{}/a", proxy.url())).send().await.unwrap();
    assert_eq!(answered.text().await.unwrap(), "ok");
    assert!(proxy.data().join("jetstream").is_dir() || proxy.data().read_dir().unwrap().next().is_some());
    proxy.terminate();
    let status = proxy.ended().await;
    assert!(status.success(), "{status}\n{}", proxy.log());
    assert!(proxy.log().contains("stopped"), "{}", proxy.log());
}

#[tokio::test]
async fn the_private_server_takes_the_owner_of_its_state_alone() {
    let upstream = RawUpstream::start([]).await;
    let proxy = ProxyProcess::start(RAMPMETER, LIMITS, &["--upstream", &upstream.url()], &[]).await;
    let file = proxy.data().join("nats-url");
    let url = std::fs::read_to_string(&file).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(&proxy.data())), (0o600, 0o700));
    let (_, address) = url.trim().rsplit_once('@').unwrap();
    let stranger = async_nats::connect(address).await.unwrap_err();
    assert_eq!(stranger.kind(), async_nats::ConnectErrorKind::AuthorizationViolation);
    let shown = run_in(RAMPMETER, &["status", "api"], &[("RAMPMETER_NATS", url.trim())]).await;
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let password = url.split([':', '@']).nth(2).unwrap();
    assert!(!proxy.log().contains(password), "{}", proxy.log());
}

#[tokio::test]
async fn a_scheduler_serves_the_proxies_of_its_file() {
    let (nats, upstream) = (nats::start().await, RawUpstream::start([]).await);
    let proxy = format!("[[proxy]]\nlisten = \"127.0.0.1:0\"\nupstream = \"{}\"\n", upstream.url());
    let mut process = Process::start(RAMPMETER, &nats, &(proxy + &LIMITS.replace("[http]\nlisten = \"\"\n", ""))).await;
    let url = process.until_it_holds().await;
    assert_eq!(http().get(&url).send().await.unwrap().status(), 200);
    process.stop().await;
}

/// A secret of a client is in no log, even at the level `trace`, wherever the client puts it.
#[tokio::test]
async fn secrets_of_clients_are_in_no_log() {
    const CANARY: &str = "canary-7c1f";
    let upstream = RawUpstream::start([]).await;
    let environment = [("RAMPMETER_LOG", "trace")];
    let proxy = ProxyProcess::start(RAMPMETER, LIMITS, &["--upstream", &upstream.url()], &environment).await;
    let http = http();
    let secret = async |url: String| {
        let request = http.post(url).header("authorization", CANARY).header("x-api-key", CANARY);
        request.header("cookie", CANARY).body(CANARY).send().await.unwrap().status().as_u16()
    };
    assert_eq!(secret(format!("{}/hooks/{CANARY}?key={CANARY}", proxy.url())).await, 200);
    until("the request is told", async || proxy.log().contains("\"forwarded\"").then_some(())).await;
    assert!(upstream.requests()[0].matches(CANARY).count() == 6, "{:?}", upstream.requests());
    assert!(!proxy.log().contains(CANARY), "{}", proxy.log());
}

#[tokio::test]
async fn a_missing_argument_is_told_in_one_line() {
    for (upstream, expected) in
        [("http://127.0.0.1:1", "there are no limits"), ("ftp://127.0.0.1", "an upstream is written like")]
    {
        let said = process::printed(RAMPMETER, &["proxy", "--upstream", upstream]).await.unwrap_err();
        assert!(said.contains(expected), "{said}");
    }
}
