//! What the upstream's headers tell of a window: its rest, its end and its capacity. Schedulers
//! that are stopped or killed pass its end on to their successors, which learn the rest again.

use crate::prelude::*;

/// A hundred a day, from midnight to midnight in UTC.
const HUB: &str = r#"
[[resource]]
name = "hub"
dialect = "ietf"
start = "full"
limit = [{ name = "per-day", algorithm = "fixed-window", capacity = 100, period = "24h" }]
"#;
/// The window ends in six hours, so it began eighteen hours ago.
const SIX_HOURS_MS: f64 = 21_600_000.0;

/// The settle of a call whose answer says that forty of eighty a day are left.
fn answered(id: &str) -> Value {
    let headers = json!({
        "ratelimit": r#""day";r=40;t=21600"#,
        "ratelimit-policy": r#""day";q=80;w=86400"#,
    });
    json!({ "id": id, "response": { "status": 200, "headers": headers } })
}

/// The limit once a leader has told of it.
async fn limit(worker: &Worker) -> LimitStatus {
    worker.status_of_leader().await.limits.remove(0)
}

fn check(limit: &LimitStatus, capacity: Option<f64>, level: RangeInclusive<f64>) {
    let reported = limit.reported.unwrap();
    assert_eq!(reported.capacity, capacity, "{limit:?}");
    assert!(level.contains(&limit.level), "{limit:?}");
    let ends = reported.window_ends_ms.unwrap();
    assert!((SIX_HOURS_MS - 60_000.0..=SIX_HOURS_MS + 2_000.0).contains(&ends), "{limit:?}");
}

#[tokio::test]
async fn what_headers_tell_of_a_window_counts_and_its_end_outlives_schedulers() {
    let (nats, mut process, worker) = Worker::beside_process(RAMPMETER, HUB).await;
    for id in ["a", "b"] {
        assert_eq!(worker.ask(json!({ "id": id })).await["status"], "granted");
    }
    worker.settle(answered("a")).await;
    let first = limit(&worker).await;
    check(&first, Some(80.0), 39.0..=40.0);
    assert!((38.0..=39.0).contains(&first.reported.unwrap().others), "{first:?}");
    until("the log says so", async || {
        process.log().contains("`per-day` has a capacity of 80 by the upstream's headers, not 100").then_some(())
    })
    .await;
    let explained = worker.explanation("{}").await;
    check(&explained.limits[0], Some(80.0), 39.0..=40.0);

    // From now on each checkpoint has what is known, except one that may be under way.
    let written = nats::writes(&nats).await;
    until("a checkpoint", async || (nats::writes(&nats).await > written + 1).then_some(())).await;
    process.kill().await;
    let successor = Process::start(RAMPMETER, &nats, HUB).await;
    // Its own calls count. A stated capacity and what others have used are learned again.
    check(&limit(&worker).await, None, 95.0..=98.0);
    successor.stop().await;
    let _last = Process::start(RAMPMETER, &nats, HUB).await;
    check(&limit(&worker).await, None, 95.0..=98.0);
    assert_eq!(worker.ask(json!({ "id": "c" })).await["status"], "granted");
    worker.settle(answered("c")).await;
    check(&limit(&worker).await, Some(80.0), 39.0..=40.0);
}

const SHOP: &str = r#"
[[resource]]
name = "shop"
dialect = "shopify"
start = "full"
limit = [{ name = "points", unit = "points", capacity = 5000, period = "20s" }]
"#;

/// Two answers say that the plan has a fifth of what the file says.
#[tokio::test]
async fn the_status_says_what_the_upstream_states_and_what_the_file_says() {
    let (nats, _running, worker) = Worker::beside_scheduler(SHOP).await;
    let throttle = json!({ "maximumAvailable": 1000, "currentlyAvailable": 990, "restoreRate": 50 }).to_string();
    for id in ["a", "b"] {
        worker.ask(json!({ "id": id, "mode": "allow", "cost": { "points": 10 } })).await;
        let response = json!({ "status": 200, "headers": { "throttle-status": throttle } });
        worker.settle(json!({ "id": id, "response": response })).await;
    }
    let text = printed_at(&nats, &["status", "shop"]).await.unwrap();
    assert!(text.contains("`points`: the upstream states 1000 in 20 s, the file says 5000"), "{text}");
    let json = printed_at(&nats, &["status", "shop", "--json"]).await.unwrap();
    assert!(json.replace(' ', "").contains(r#""states":1000.0"#), "{json}");
}
