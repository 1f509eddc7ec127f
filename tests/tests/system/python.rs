//! Some lines of Python are a worker. Those in docs/workers.md run against a real scheduler and a
//! real upstream.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use crate::RAMPMETER;
use futures::StreamExt;
use futures::future::join_all;
use rampmeter_tests::api::upstream;
use rampmeter_tests::patience::{until, within};
use rampmeter_tests::process::Process;
use rampmeter_tests::worker::Worker;
use rampmeter_tests::{nats, python, scheduler};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The margin covers a machine on which Python needs two seconds from the permit to the call.
const RESOURCE: &str = r#"
[[resource]]
name = "sentinel-hub"
[[resource.limit]]
name = "requests"
capacity = 6
period = "3s"
margin = 4
[[resource.limit]]
name = "processing-units"
unit = "processing-units"
capacity = 20
period = "2s"
margin = 10
"#;

#[tokio::test]
async fn python_workers_never_get_429() {
    let packages = python::packages(env!("CARGO_TARGET_TMPDIR"), "worker").await;
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, RESOURCE).await;
    let upstream = upstream(&["requests=6/3s", "processing-units=20/2s"]).await;
    let url = format!("{}/process?processing-units=2", upstream.url());
    let environment = [("RAMPMETER_NATS", nats.url()), ("API_URL", url.as_str())];

    let workers = join_all((0..8).map(|_| python::run("worker.py", &packages, &environment))).await;

    for worker in workers {
        assert!(worker.status.success(), "{}", String::from_utf8_lossy(&worker.stderr));
    }
    let total = upstream.stats().total;
    assert_eq!((total.ok, total.rate_limited, total.bad), (8, 0, 0));
    let worker = Worker::connect(&nats, "sentinel-hub").await;
    let settled = until("all are settled", async || {
        let counters = worker.status().await.counters;
        (counters.settled == 8).then_some(counters)
    })
    .await;
    assert_eq!((settled.granted, settled.upstream_429), (8, 0));
}

/// One call in eight seconds, the first of which is used. A worker waits longer than a scheduler
/// needs to come back.
const SLOW: &str = r#"
[[resource]]
name = "sentinel-hub"
[[resource.limit]]
name = "requests"
capacity = 1
period = "8s"
margin = 0
[[resource.limit]]
name = "processing-units"
unit = "processing-units"
capacity = 100
period = "1s"
"#;

#[tokio::test]
async fn a_python_worker_outlives_a_killed_leader_under_the_same_id() {
    let packages = python::packages(env!("CARGO_TARGET_TMPDIR"), "worker").await;
    let nats = nats::start().await;
    let mut scheduler = Process::start(RAMPMETER, &nats, SLOW).await;
    let other = Worker::connect(&nats, "sentinel-hub").await;
    assert_eq!(other.ask(json!({"cost": {"requests": 1, "processing-units": 2}})).await["status"], "granted");
    let mut asked = other.client().subscribe("rampmeter.permit.sentinel-hub").await.unwrap();
    other.client().flush().await.unwrap();
    let upstream = upstream(&["requests=1/8s", "processing-units=100/1s"]).await;
    let url = format!("{}/process?processing-units=2", upstream.url());
    let environment = [("RAMPMETER_NATS", nats.url()), ("API_URL", url.as_str())];

    let breaking = async {
        let first = within("a request", asked.next()).await.unwrap();
        scheduler.kill().await;
        scheduler.restart();
        scheduler.until_ready().await;
        first
    };
    let (worker, first) = tokio::join!(python::run("worker.py", &packages, &environment), breaking);

    assert!(worker.status.success(), "{}", String::from_utf8_lossy(&worker.stderr));
    let mut ids = BTreeSet::from([id_in(&first.payload)]);
    let again = within("it asks again", asked.next()).await.unwrap();
    ids.insert(id_in(&again.payload));
    assert_eq!(ids.len(), 1, "what is asked again has the same id");
    assert_eq!((upstream.stats().total.ok, upstream.stats().total.rate_limited), (1, 0));
    until("it is settled", async || (other.status().await.counters.settled == 1).then_some(())).await;
}

fn id_in(request: &[u8]) -> String {
    let request: Value = serde_json::from_slice(request).unwrap();
    request["id"].as_str().expect("an id").to_owned()
}
