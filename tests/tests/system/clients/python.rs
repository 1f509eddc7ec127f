//! The Python worker of docs/workers.md runs against a real scheduler and a real upstream.

use crate::prelude::*;
use async_nats::Subscriber;
use rampmeter_tests::python;
use rampmeter_tests::raw_upstream::with_status;

/// The margin covers a machine on which Python needs two seconds from the permit to the call.
const RESOURCE: &str = r#"
[[resource]]
name = "sentinel-hub"
limit = [
    { name = "requests", capacity = 6, period = "3s", margin = 4 },
    { name = "processing-units", unit = "processing-units", capacity = 20, period = "2s", margin = 10 },
]
"#;

/// One call in eight seconds, the first of which is used. A worker waits longer than a scheduler
/// needs to come back.
const SLOW: &str = r#"
[[resource]]
name = "sentinel-hub"
limit = [
    { name = "requests", capacity = 1, period = "8s", margin = 0 },
    { name = "processing-units", unit = "processing-units", capacity = 100, period = "1s" },
]
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
    let environment = [("RAMPMETER_NATS", nats.url()), ("API_URL", url.as_str()), ("CALLS", "1")];

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

/// The next settle of a worker, without its id.
async fn settled(settles: &mut Subscriber) -> Value {
    let message = within("a settle", settles.next()).await.unwrap();
    let mut settle: Value = serde_json::from_slice(&message.payload).unwrap();
    settle.as_object_mut().unwrap().remove("id").expect("an id");
    settle
}

#[tokio::test]
async fn a_python_worker_settles_a_429_a_404_and_a_time_out() {
    let packages = python::packages(env!("CARGO_TARGET_TMPDIR"), "worker").await;
    let (nats, _running) = scheduler::alone(RESOURCE).await;
    let other = Worker::connect(&nats, "sentinel-hub").await;
    let mut settles = other.client().subscribe(other.subject("settle")).await.unwrap();
    other.client().flush().await.unwrap();
    let said = [with_status("429 Too Many", "retry-after: 1\r\n", ""), with_status("404 Not Found", "", "")];
    let api = RawUpstream::start(said.map(Act::Say).into_iter().chain([Act::Silence])).await.url();
    let environment = [("RAMPMETER_NATS", nats.url()), ("API_URL", &api), ("API_TIMEOUT", "1"), ("CALLS", "3")];

    let worker = python::run("worker.py", &packages, &environment).await;

    let (output, errors) = (String::from_utf8_lossy(&worker.stdout), String::from_utf8_lossy(&worker.stderr));
    assert_eq!(output, "404 0 bytes\nno answer: timed out\n200 2 bytes\n", "{errors}");
    assert!(worker.status.success() && errors.is_empty(), "{errors}");
    let answered = |status, headers| json!({"used": true, "response": {"status": status, "headers": headers}});
    assert_eq!(settled(&mut settles).await, answered(429, json!({"retry-after": "1"})));
    assert_eq!(settled(&mut settles).await, answered(404, json!({})));
    assert_eq!(settled(&mut settles).await, json!({"used": true}), "a call that timed out");
    assert_eq!(settled(&mut settles).await, answered(200, json!({})));
    let counters = until("all are settled", async || {
        let counters = other.status().await.counters;
        (counters.settled == 4).then_some(counters)
    })
    .await;
    assert_eq!((counters.granted, counters.upstream_429), (4, 1));
}
