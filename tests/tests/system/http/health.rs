//! Health, readiness and metrics over HTTP.

use crate::prelude::*;
#[tokio::test]
async fn a_scheduler_that_leads_is_healthy_and_ready() {
    let (_nats, running) = scheduler::alone(TWO_UNITS).await;
    assert_eq!(scheduler::page(&running, "/healthz").await, (200, "ok\n".to_owned()));
    let led = json!({"hub": {"state": "leading", "epoch": 1}});
    let expected = json!({"ready": true, "nats": true, "resources": led, "no_standby": ["hub"]});
    assert_eq!(scheduler::readiness(&running).await, (200, expected));
    let pages = "there is no /elsewhere; there are: GET / for people; GET /healthz, /readyz and /metrics; \
                 POST /v1/permit/RESOURCE and /v1/settle/RESOURCE\n";
    assert_eq!(scheduler::page(&running, "/elsewhere").await, (404, pages.to_owned()));
    let permit = "/v1/permit/hub takes POST, not GET\n";
    assert_eq!(scheduler::page(&running, "/v1/permit/hub").await, (405, permit.to_owned()));
}

/// In readiness, in the status, and in the metrics of both.
#[tokio::test]
async fn it_is_told_who_leads_and_whether_another_stands_by() {
    let (nats, running) = scheduler::alone(TWO_UNITS).await;
    let stands_by = async |told: &str| {
        let (status, body) = scheduler::readiness(&running).await;
        assert_eq!(status, 200, "{body}");
        let alone = body.get("no_standby").cloned();
        let shown = printed_at(&nats, &["status"]).await.unwrap();
        let shown = shown.lines().next().unwrap().ends_with(told);
        (shown && alone == (told == ", no standby").then(|| json!(["hub"]))).then_some(())
    };
    assert_eq!(stands_by(", no standby").await, Some(()));
    let second = scheduler::start(&nats, TWO_UNITS).await;
    until("the standby is seen", async || stands_by(", 1 standby").await).await;
    let leads = async |one| scheduler::metrics(one).await.value("rampmeter_leader", &[]);
    assert_eq!((leads(&running).await, leads(&second).await), (1.0, 0.0));
    let (status, body) = scheduler::readiness(&second).await;
    assert_eq!((status, &body["resources"]["hub"]["state"]), (200, &json!("standby")));
    scheduler::stop(second).await;
    until("it is gone", async || stands_by(", no standby").await).await;
}

#[tokio::test]
async fn readiness_tells_why_not() {
    let (mut nats, running) = scheduler::alone(TWO_UNITS).await;
    nats.kill().await.unwrap();
    let body = until("not ready", async || {
        let (status, body) = scheduler::readiness(&running).await;
        (status == 503).then_some(body)
    })
    .await;
    assert_eq!((&body["ready"], &body["nats"]), (&json!(false), &json!(false)));
    assert_eq!(scheduler::page(&running, "/healthz").await.0, 200, "a restart of the process would not help");
}

/// Names are an interface: `deploy/check` has Prometheus ask for each that the dashboard and the rules use.
#[tokio::test]
async fn metrics_are_openmetrics() {
    let (_nats, running) = scheduler::alone(TWO_UNITS).await;
    let response = http().get(format!("http://{}/metrics", running.http().unwrap())).send().await.unwrap();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let page = Page::parse(&response.text().await.unwrap()).unwrap();
    for (family, kind) in [
        ("rampmeter_leader", "gauge"),
        ("rampmeter_wait_seconds", "histogram"),
        ("rampmeter_granted", "counter"),
        ("rampmeter_standby_writes", "counter"),
        ("rampmeter_provider_contract_age_seconds", "gauge"),
    ] {
        assert_eq!(page.kind(family), Some(kind), "{family}");
    }
}

#[tokio::test]
async fn metrics_tell_what_was_done() {
    let (_nats, running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    worker
        .ask(json!([{"id": "a", "cost": {"processing-units": 2.5}}, {"id": "b", "class": "bulk"}, {"id": "c"}]))
        .await;
    worker.ask(json!([{"class": "none"}, {"cost": {"requests": 5}}, {"mode": "allow", "cost": {"requests": 2}}])).await;
    worker.settle(json!([{"id": "a", "response": {"status": 429}}, {"id": "b", "used": false}])).await;
    worker.ask(json!({"cost": {"requests": 2}})).await;
    let waiting = worker.send("permit", r#"{"mode": "wait", "class": "bulk", "age_ms": 5000}"#).await;
    worker.ask(json!({"cost": {"requests": 0}})).await;

    let page = scheduler::metrics(&running).await;

    let hub = ("resource", "hub");
    #[rustfmt::skip]
    let table = [
        ("rampmeter_leader",                    vec![hub],                                  1.0),
        ("rampmeter_troubled",                  vec![hub],                                  0.0),
        ("rampmeter_epoch",                     vec![hub],                                  1.0),
        ("rampmeter_store_losses_total",        vec![hub],                                  0.0),
        ("rampmeter_store_went_back_total",     vec![hub],                                  0.0),
        ("rampmeter_capacity",                  vec![hub, ("limit", "few")],                4.0),
        ("rampmeter_capacity",                  vec![hub, ("unit", "processing-units")],    100.0),
        ("rampmeter_queued",                    vec![hub, ("class", "urgent")],             0.0),
        ("rampmeter_queued",                    vec![hub, ("class", "bulk")],               1.0),
        ("rampmeter_granted_total",             vec![hub],                                  5.0),
        ("rampmeter_settled_total",             vec![hub],                                  1.0),
        ("rampmeter_returned_total",            vec![hub],                                  1.0),
        ("rampmeter_upstream_429_total",        vec![hub],                                  1.0),
        ("rampmeter_refused_total",             vec![hub, ("code", "unknown_class")],       1.0),
        ("rampmeter_refused_total",             vec![hub, ("code", "never_fits")],          1.0),
        ("rampmeter_refused_total",             vec![hub, ("code", "not_in_time")],         1.0),
        ("rampmeter_refused_total",             vec![hub, ("code", "queue_full")],          0.0),
        ("rampmeter_upstream_rejections_total", vec![hub, ("cause", "unknown")],            1.0),
        ("rampmeter_upstream_rejections_total", vec![hub, ("cause", "ours")],               0.0),
        ("rampmeter_call_seconds_count",        vec![hub],                                  1.0),
        ("rampmeter_remembered_permits",        vec![hub],                                  6.0),
        ("rampmeter_wait_seconds_count",        vec![hub, ("class", "urgent")],             4.0),
        ("rampmeter_wait_seconds_count",        vec![hub, ("class", "bulk")],               1.0),
        ("rampmeter_wait_seconds_bucket",       vec![hub, ("class", "bulk"), ("le", "0.00001")], 1.0),
    ];
    for (sample, labels, value) in table {
        assert_eq!(page.value(sample, &labels), value, "{sample} {labels:?}");
    }
    assert!((page.value("rampmeter_level", &[hub, ("limit", "few")]) - 0.0).abs() < 0.01);
    // A rejected call has taken nothing.
    assert!((page.value("rampmeter_level", &[hub, ("limit", "units")]) - 100.0).abs() < 0.01);
    let oldest = page.value("rampmeter_oldest_wait_seconds", &[hub, ("class", "bulk")]);
    assert!((0.0..60.0).contains(&oldest), "{oldest}: since it came to this leader");
    assert!((1.0..=3.0).contains(&page.value("rampmeter_calls_in_flight", &[hub])));
    assert!(page.value("rampmeter_decision_seconds_count", &[hub]) >= 6.0);
    assert!(page.value("rampmeter_decision_seconds_sum", &[hub]) > 0.0);
    drop(waiting);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn metrics_tell_of_the_process() {
    let (_nats, running) = scheduler::alone(TWO_UNITS).await;
    let page = scheduler::metrics(&running).await;
    assert_eq!(page.value("rampmeter_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    assert_eq!(page.kind("process_cpu_seconds"), Some("counter"));
    let most = page.value("process_max_fds", &[]);
    assert!((1.0..=most).contains(&page.value("process_open_fds", &[])));
    let addressed = page.value("process_virtual_memory_bytes", &[]);
    assert!((1e6..=addressed).contains(&page.value("process_resident_memory_bytes", &[])));
    assert!(page.value("process_start_time_seconds", &[]) > 1.6e9);
    assert!(page.value("process_threads", &[]) >= 1.0);
}
