//! Unwritten limits, found over HTTP with the real binary.

use crate::prelude::*;
use rampmeter_protocol::status::DiscoveredStatus;
use rampmeter_upstream::Preset;

const DISCORD: &str = r#"
[[resource]]
name = "hub"
dialect = "discord"
discover = true
discover_route = "route"
discover_key = ["guild", "channel"]
"#;

const GITHUB: &str = r#"
[[resource]]
name = "hub"
dialect = "github"
discover = true
"#;

async fn preset(name: &str) -> Upstream {
    Upstream::start(Config::of(Preset::named(name).unwrap())).await.unwrap()
}

/// Makes a call with a permit. Returns whether the upstream has served it.
async fn call(worker: &Worker, upstream: &Upstream, labels: &[(&str, &str)]) -> bool {
    let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
    let permit = worker.ask(json!({"labels": labels, "mode": "wait"})).await;
    assert_eq!(permit["status"], "granted", "{permit}");
    let query: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
    let url = format!("{}/process?{}", upstream.url(), query.join("&"));
    let answer = http().get(url).send().await.unwrap();
    let status = answer.status().as_u16();
    let shown = answer.headers().iter().filter(|(name, _)| speaks_of_limits(name.as_str()));
    let headers: BTreeMap<String, String> =
        shown.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    worker.settle(json!({"id": permit["id"], "response": {"status": status, "headers": headers}})).await;
    status == 200
}

async fn limit(worker: &Worker, name: &str) -> LimitStatus {
    let named = async || worker.status_of_leader().await.limits.into_iter().find(|limit| &*limit.name == name);
    until("the limit is known", named).await
}

fn found(limit: &LimitStatus) -> &DiscoveredStatus {
    limit.found.as_ref().unwrap()
}

#[tokio::test]
async fn routes_of_discord_share_the_bucket_that_answers_name_over_a_kill_and_a_stop() {
    let (nats, upstream) = (nats::start().await, preset("discord").await);
    let mut process = Process::start(RAMPMETER, &nats, DISCORD).await;
    let worker = Worker::connect(&nats, "hub").await;
    for route in ["messages", "reactions"] {
        assert!(call(&worker, &upstream, &[("route", route), ("channel", "a")]).await);
    }
    assert!(call(&worker, &upstream, &[("route", "roles"), ("guild", "a")]).await);
    let check = async || {
        let shared = limit(&worker, "abcd1234").await;
        assert_eq!((shared.capacity, shared.period_ms), (5.0, 5000.0), "{shared:?}");
        let DiscoveredStatus { by, routes, key, .. } = found(&shared);
        assert_eq!(
            (&**by, &routes[..], &key[..]),
            ("headers", &["messages", "reactions"].map(str::to_owned)[..], &["channel".to_owned()][..])
        );
        assert_eq!(found(&limit(&worker, "bcde2345").await).key, ["guild"]);
    };
    check().await;
    until("the log says so", async || {
        process.log().contains("found the limit `bcde2345`: 10 requests in 10s").then_some(())
    })
    .await;

    // From now on each checkpoint has what is known, except one that may be under way.
    let written = nats::writes(&nats).await;
    until("a checkpoint", async || (nats::writes(&nats).await > written + 1).then_some(())).await;
    process.kill().await;
    let successor = Process::start(RAMPMETER, &nats, DISCORD).await;
    check().await;
    successor.stop().await;
    let _last = Process::start(RAMPMETER, &nats, DISCORD).await;
    check().await;
    // A sixth call in five seconds waits, and is served.
    let calls = (0..6).map(|_| call(&worker, &upstream, &[("route", "messages"), ("channel", "b")]));
    assert!(within("six calls", join_all(calls)).await.into_iter().all(|served| served));
}

#[tokio::test]
async fn what_was_found_of_github_is_written_as_a_configuration() {
    let (nats, upstream) = (nats::start().await, preset("github").await);
    let _process = Process::start(RAMPMETER, &nats, GITHUB).await;
    let worker = Worker::connect(&nats, "hub").await;
    assert!(call(&worker, &upstream, &[("method", "GET")]).await);
    let core = limit(&worker, "core").await;
    assert_eq!((core.capacity, core.period_ms, &*core.algorithm), (5000.0, 3_600_000.0, "fixed-window"));
    assert!((4990.0..5000.0).contains(&core.level), "{core:?}");
    let rate = limit(&worker, "learned-rate").await;
    assert!(rate.capacity / rate.period_ms <= 0.01, "it begins low: {rate:?}");
    let status = printed_at(&nats, &["status"]).await.unwrap();
    let words = status.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("the upstream's headers tell of it"), "{words}");
    let text = printed_at(&nats, &["limits", "get", "--learned"]).await.unwrap();
    assert!(text.contains("# Found by headers"), "{text}");
    let file = file_with(&text);
    process::printed(RAMPMETER, &["check", "--config", file.path().to_str().unwrap()]).await.unwrap();
    let written: toml::Table = toml::from_str(&text).unwrap();
    let core = &written["resource"][0]["limit"]
        .as_array()
        .unwrap()
        .iter()
        .find(|limit| limit["name"].as_str() == Some("core"))
        .unwrap();
    assert_eq!((core["capacity"].as_integer(), core["aligned"].as_str()), (Some(5000), Some("first-use")));
}
