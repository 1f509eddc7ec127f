//! Imported rates of EOM Governor: its rules at its shipped settings, without its faults.

use crate::prelude::*;

const RATES: &str = r#"[
    {"name": "slow things", "route": "/slow/\\d+", "methods": ["GET", "POST"], "limit": 250, "drain_velocity": 1.75},
    {"name": "all", "route": "/.*", "limit": 350, "drain_velocity": 2.5}
]"#;
const PROJECTS: &str = r#"[
    {"name": "all", "project": "big", "route": "/.*", "methods": ["GET"], "limit": 1000, "drain_velocity": 10}
]"#;

async fn imported(rates: &str, projects: &str) -> Result<String, String> {
    let (rates, projects) = (file_with(rates), file_with(projects));
    let [rates, projects] = [&rates, &projects].map(|file| file.path().to_str().unwrap());
    process::printed(RAMPMETER, &["import", "governor", rates, "--projects", projects]).await
}

/// How many of these calls are let through at once, and when the next may come.
async fn let_through(worker: &Worker, labels: Value, count: usize) -> (usize, Option<f64>) {
    let asks = vec![json!({"mode": "allow", "labels": labels}); count];
    let mut answers = Vec::new();
    for asks in asks.chunks(500) {
        answers.extend(worker.ask(Value::Array(asks.to_vec())).await.as_array().unwrap().clone());
    }
    let granted = answers.iter().filter(|answer| answer["status"] == "granted").count();
    (granted, answers.last().and_then(|answer| answer["retry_after_ms"].as_f64()))
}

#[tokio::test]
async fn its_rules_count_as_they_are_documented() {
    let (_nats, _running, worker) = Worker::beside_scheduler(&imported(RATES, PROJECTS).await.unwrap()).await;
    #[rustfmt::skip]
    let table = [
        // project, method, route, calls, let through, ms until the next
        ("a",   "PUT",  "/x",        400,  350,  Some(400.0)),
        // Rejected calls have left the bucket unchanged, and another project has its own.
        ("b",   "GET",  "/x",        350,  350,  None),
        ("a",   "GET",  "/slow/7",   300,  250,  Some(1000.0 / 1.75)),
        // The pattern does not match the whole path, or the method differs: the next rule matches.
        ("c",   "GET",  "/slow/7/x", 300,  300,  None),
        ("d",   "PUT",  "/slow/7",   300,  300,  None),
        // A project's own rule goes first; other calls of the project follow the general rules.
        ("big", "GET",  "/slow/7",   1100, 1000, Some(100.0)),
        ("big", "POST", "/slow/7",   300,  250,  Some(1000.0 / 1.75)),
        // No rule matches, so the call passes.
        ("a",   "GET",  "relative",  1000, 1000, None),
    ];
    for (project, method, route, calls, granted, next) in table {
        let labels = json!({"project": project, "method": method, "route": route});
        let (passed, retry_after) = let_through(&worker, labels.clone(), calls).await;
        // A bucket drains while calls arrive.
        assert!((granted..granted + 30).contains(&passed), "{labels}: {passed} instead of {granted}");
        assert!(retry_after.is_none_or(|after| after <= next.unwrap_or(0.0) + 0.001), "{labels}: {retry_after:?}");
        assert_eq!(retry_after.is_some(), next.is_some(), "{labels}");
    }
}

#[tokio::test]
async fn unsupported_rates_are_reported() {
    for (rates, projects, message) in [
        ("{}", "[]", "is not a list of Governor's rules"),
        (r#"[{"name": "a", "route": "/", "limit": 1}]"#, "[]", "missing field `drain_velocity`"),
        (r#"[{"name": "a", "route": "/", "limit": 1, "drain_velocity": 0}]"#, "[]", "a `drain_velocity` is above 0"),
        ("[]", r#"[{"name": "a", "route": "/", "limit": 1, "drain_velocity": 1}]"#, "names no `project`"),
    ] {
        let error = imported(rates, projects).await.expect_err(rates);
        assert!(error.contains(message), "{rates} {projects}\n{error}\ninstead of {message}");
    }
}
