//! The limits that schedulers make from a provider's answers.

use crate::prelude::*;
use rampmeter_protocol::resources::Resources;

/// A resource that has only its provider's limits.
fn without_limits(upstream: &Portal) -> String {
    let provider = portal::provider(upstream, "client_secret_env = \"HUB_CLIENT_SECRET\"");
    format!("[[resource]]\nname = \"hub\"\nprovider = {provider}\n")
}

#[tokio::test]
async fn limits_may_come_from_the_provider_alone() {
    let nats = nats::start().await;
    let upstream =
        portal::upstream(&["requests=600/PT1M", "processing-units=1000/PT1M", "processing-units=9/PT0S"]).await;
    upstream.set_fault(Endpoint::Contract, Some(Fault::Status(500)));
    let mut process = portal::begin(RAMPMETER, &nats, &without_limits(&upstream));
    let (status, body) = until("it says why it does not lead", async || {
        process.readiness().await.filter(|(_, body)| body["resources"]["hub"]["state"] == "troubled")
    })
    .await;
    let reason = "it has no limits but its provider's, and that fails: contract: answered 500, no success";
    assert_eq!((status, body["resources"]["hub"]["reason"].as_str()), (503, Some(reason)));
    let worker = Worker::connect(&nats, "hub").await;
    assert_eq!(worker.request("permit", "{}").await.status, Some(StatusCode::NO_RESPONDERS), "never unlimited");

    upstream.set_fault(Endpoint::Contract, None);
    process.until_ready().await;

    let status = worker.status_of_leader().await;
    let limits: Vec<(&str, f64)> = status.limits.iter().map(|limit| (&*limit.name, limit.capacity)).collect();
    let expected =
        [("processing-units-per-minute", 1000.0), ("processing-units-in-all", 9.0), ("requests-per-minute", 600.0)];
    assert_eq!(limits, expected);
    let two = json!({"cost": {"processing-units": 2}});
    for _ in 0..4 {
        assert_eq!(worker.ask(two.clone()).await["status"], "granted");
    }
    let spent = worker.ask(two).await;
    assert_eq!((&spent["code"], &spent["limited_by"]), (&json!("quota_spent"), &json!("processing-units-in-all")));
    let found = async || {
        let answer = worker.client().request("rampmeter.resources", "".into()).await.ok()?;
        serde_json::from_slice::<Resources>(&answer.payload).unwrap().resources.pop()
    };
    assert_eq!(until("it is announced", found).await.limits.len(), 3);
    process.stop().await;
}

#[tokio::test]
async fn a_scheduler_that_waits_for_its_first_limits_can_be_stopped() {
    let nats = nats::start().await;
    let upstream = portal::upstream(&["requests=600/PT1M"]).await;
    upstream.set_fault(Endpoint::Token, Some(Fault::Hang));
    let process = portal::begin(RAMPMETER, &nats, &without_limits(&upstream));
    until("it asks", async || (upstream.asked(Endpoint::Token) > 0).then_some(())).await;
    process.stop().await;
}

#[tokio::test]
async fn a_contract_that_differs_counts_at_once() {
    let nats = nats::start().await;
    let upstream = portal::upstream(&["requests=500/PT1M", "requests=50/PT1S"]).await;
    let process = portal::start(RAMPMETER, &nats, &portal::resource("hub", 1000, &upstream, "")).await;
    let worker = Worker::connect(&nats, "hub").await;
    let provider = until("the contract is compared", async || {
        worker.status().await.provider.filter(|provider| !provider.notes.is_empty())
    })
    .await;
    let expected = vec!["no limit is configured for 50 requests in 1s".to_owned()];
    assert_eq!((provider.state, provider.notes), (ProviderState::Ok, expected));
    let limit = worker.limit("per-minute").await;
    assert!(limit.capacity == 500.0 && limit.level <= 500.0, "{limit:?}");
    assert_eq!(worker.ask(json!({"cost": {"requests": 501}})).await["code"], "never_fits");
    assert_eq!(worker.ask(json!({"cost": {"requests": 400}})).await["delay_ms"], 0.0);
    process.stop().await;
}

#[tokio::test]
async fn only_the_leader_asks_and_its_successor_goes_on() {
    let nats = nats::start().await;
    let upstream = portal::upstream(&["requests=1000/PT1M"]).await;
    let hub = portal::resource("hub", 1000, &upstream, "");
    let leader = portal::start(RAMPMETER, &nats, &hub).await;
    let standby = portal::start(RAMPMETER, &nats, &hub).await;
    let before = upstream.asked(Endpoint::Contract);
    let asked = async || (upstream.asked(Endpoint::Contract) >= before + 2).then_some(());
    until("the leader goes on asking", asked).await;
    assert_eq!(upstream.tokens().len(), 1, "each process takes a token of its own");
    leader.stop().await;
    until("the successor asks", async || (upstream.tokens().len() == 2).then_some(())).await;
    let worker = Worker::connect(&nats, "hub").await;
    let well = async || worker.status_of_leader().await.provider.filter(|known| known.state == ProviderState::Ok);
    assert!(until("it was answered", well).await.contract_age_ms.unwrap() < 30_000.0);
    standby.stop().await;
}

#[tokio::test]
async fn levels_are_asked_for_where_there_are_some() {
    let nats = nats::start().await;
    let upstream = portal::upstream(&["requests=1000/PT1M"]).await;
    let hub = portal::resource("hub", 1000, &upstream, "levels_every = \"1s\"");
    let process = portal::start(RAMPMETER, &nats, &hub).await;
    let asked = async |times| {
        let asked = async || (upstream.asked(Endpoint::TokenCounts) >= times).then_some(());
        until("levels are asked for", asked).await;
    };
    asked(2).await;
    upstream.set_fault(Endpoint::TokenCounts, Some(Fault::Status(404)));
    let before = upstream.asked(Endpoint::TokenCounts);
    asked(before + 2).await;
    let worker = Worker::connect(&nats, "hub").await;
    assert_eq!(
        worker.status().await.provider.unwrap().state,
        ProviderState::Ok,
        "where there are none, none are missed"
    );
    process.stop().await;
}

/// The exit code and the output of `rampmeter check --ask-provider`.
async fn check(resources: &str, environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let file = file_with(scheduler::configuration("nats://127.0.0.1:1", resources));
    let arguments = ["check", "--ask-provider", "--config", file.path().to_str().unwrap()];
    process::told(RAMPMETER, &arguments, environment).await
}

#[tokio::test]
async fn check_asks_the_provider_for_real() {
    let upstream = portal::upstream(&["requests=500/PT1M", "requests=50/PT1S", "requests=9/PT0S"]).await;
    let hub = portal::resource("hub", 1000, &upstream, "");
    let (code, text) = check(&hub, &portal::ENVIRONMENT).await;
    assert_eq!(code, Some(0), "{text}");
    #[rustfmt::skip]
    let lines = [
        "resource `hub`: 1 limit, 1 class, provider sentinel-hub",
        "  `hub` may use 500 requests in 60s",
        "  `hub` may use 50 requests in 1s",
        "  the contract says that `per-minute` is 500 in 60s, not 1000",
        "  `hub` may use 9 requests once and for all",
        "  no limit is configured for 50 requests in 1s",
        "  no limit is configured for 9 requests once and for all",
    ];
    for line in lines {
        assert!(text.lines().any(|found| found == line), "no line {line:?} in\n{text}");
    }
    let (code, text) = check(&without_limits(&upstream), &portal::ENVIRONMENT).await;
    assert!(code == Some(0) && text.contains("resource `hub`: no limits but its provider's, 1 class"), "{text}");
    let (code, text) = check(&hub.replace("http://", "https://"), &portal::ENVIRONMENT).await;
    assert!(code == Some(1) && text.contains("no connection: "), "no server there speaks TLS:\n{text}");
    let wrong = [portal::ENVIRONMENT[0], ("HUB_CLIENT_SECRET", "another")];
    let refused = "rampmeter: the provider of resource `hub`: access token: answered 401, client id, secret or token are not accepted";
    let missing = "rampmeter: the provider of resource `hub`: the environment variable `HUB_CLIENT_SECRET` is not set";
    for (environment, expected) in [(&wrong[..], refused), (&wrong[..1], missing)] {
        let (code, text) = check(&hub, environment).await;
        assert!(code == Some(1) && text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn status_shows_the_provider() {
    let nats = nats::start().await;
    let upstream = portal::upstream(&["requests=500/PT1M"]).await;
    let process = portal::start(RAMPMETER, &nats, &portal::resource("hub", 1000, &upstream, "")).await;
    let shown = async |words: &[&str]| {
        until("status shows the provider", async || {
            let text = printed_at(&nats, &["status"]).await.unwrap();
            words.iter().all(|words| text.contains(words)).then_some(())
        })
        .await;
    };
    shown(&["provider sentinel-hub: ok; limits received ", " 500 "]).await;
    upstream.set_fault(Endpoint::Contract, Some(Fault::Status(500)));
    shown(&["provider sentinel-hub: failing, so that the known limits count: contract: answered 500, no success; limits received "]).await;
    process.stop().await;
}
