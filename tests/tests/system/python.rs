//! A dozen lines of Python are a worker: those that the README shows, against a real scheduler and a real upstream.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use futures::future::join_all;
use rampmeter_tests::api::upstream;
use rampmeter_tests::patience::until;
use rampmeter_tests::worker::Worker;
use rampmeter_tests::{nats, python, scheduler};

/// The margin is for a machine on which Python may need two seconds from the permit to the call.
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
async fn python_workers_are_never_told_429() {
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
