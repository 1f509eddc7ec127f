//! What headers tell of windows that count by key. `scheduler/core/tests/behaviour/saturation.rs` has
//! the figures of windows whose beginning and capacity the upstream tells.

use crate::prelude::*;

/// Ten requests an hour for each tenant.
const TENANTS: &str = r#"
[[resource]]
name = "hub"
dialect = "ietf"
start = "full"
limit = [
    { name = "each", key = ["tenant"], algorithm = "fixed-window", capacity = 10, period = "1h", margin = 0 },
]
"#;
const TENANTS_UPSTREAM: &str = r#"
dialect = "ietf"
[[limit]]
name = "each"
limit = "requests=10/1h;fixed-window"
key = ["tenant"]
"#;

/// Nothing if a call of a tenant gets no permit at once, and otherwise whether the upstream serves
/// it.
async fn call(worker: &Worker, upstream: &Upstream, tenant: &str) -> Option<bool> {
    let permit = worker.ask(json!({"labels": {"tenant": tenant}, "mode": "allow"})).await;
    if permit["status"] != "granted" {
        return None;
    }
    let answer = http().get(format!("{}/process?tenant={tenant}", upstream.url())).send().await.unwrap();
    let status = answer.status().as_u16();
    let shown = answer.headers().iter().filter(|(name, _)| speaks_of_limits(name.as_str()));
    let headers: BTreeMap<&str, &str> = shown.map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    worker.settle(json!({"id": permit["id"], "response": {"status": status, "headers": headers}})).await;
    Some(status == 200)
}

#[tokio::test]
async fn what_headers_tell_of_a_key_counts_for_this_key_alone() {
    let (nats, _running) = scheduler::alone(TENANTS).await;
    let upstream = Upstream::start(Config::of(TENANTS_UPSTREAM.parse().unwrap())).await.unwrap();
    let stranger = format!("{}/process?tenant=a", upstream.url());
    let answers = within("strangers are served", join_all((0..6).map(|_| http().get(&stranger).send()))).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().status() == 200));
    let worker = Worker::connect(&nats, "hub").await;
    for (tenant, left) in [("a", 4), ("b", 10)] {
        for number in 0..12 {
            let served = call(&worker, &upstream, tenant).await;
            assert_eq!(served, (number < left).then_some(true), "call {number} of {tenant}");
        }
    }
}
