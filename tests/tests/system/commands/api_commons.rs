//! Limits that API Commons describes.

use crate::RAMPMETER;
use rampmeter_tests::process::run;
use rampmeter_tests::worker::Worker;
use rampmeter_tests::{nats, scheduler};
use serde_json::json;
use std::io::Write;
use tempfile::NamedTempFile;

/// Limits as a file of the catalogue states them.
const HARVESTED: &str = "
specification: API Commons Rate Limits
specificationVersion: '0.1'
provider: Example
method: harvested
headers: { limit: null, retryAfter: Retry-After }
limits:
  - { name: Free requests a day, tier: free, scope: api-key, metric: requests_per_day, limit: 20, timeFrame: day, burst: null }
  - { name: Pro requests a day, tier: pro, scope: api-key, metric: requests_per_day, limit: 30, timeFrame: day }
  - { name: Bursts, tier: all, scope: ip, metric: requests_per_minute, limit: 7, timeFrame: minute }
  - { name: A guess, tier: pro, method: generated, metric: requests_per_month, limit: 1, timeFrame: month }
  - { name: Bandwidth, tier: pro, metric: gigabytes, limit: 100, timeFrame: month }
";

async fn imported(text: &str, more: &[&str]) -> Result<String, String> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let arguments = [&["import", "api-commons", file.path().to_str().unwrap()], more].concat();
    let output = run(RAMPMETER, &arguments).await;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[tokio::test]
async fn harvested_limits_are_kept_and_others_are_named() {
    let text = imported(HARVESTED, &["--tier", "pro", "--resource", "example"]).await.unwrap();
    let left_out: Vec<&str> = text.lines().filter(|line| line.starts_with("# Left out")).collect();
    let expected = [
        "# Left out: `Free requests a day`: it is of the tier `free`",
        "# Left out: `A guess`: its method is `generated`",
        "# Left out: `Bandwidth`: its metric `gigabytes` is not known",
    ];
    assert_eq!(left_out, expected, "{text}");
    let nats = nats::start().await;
    let running = scheduler::start(&nats, &text).await;
    let worker = Worker::connect(&nats, "example").await;
    let mut granted = Vec::new();
    for address in ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"] {
        let asks = json!(vec![json!({"mode": "allow", "labels": {"address": address}}); 10]);
        let answers = worker.ask(asks).await;
        granted.push(answers.as_array().unwrap().iter().filter(|answer| answer["status"] == "granted").count());
    }
    assert_eq!(granted, [7, 7, 7, 7, 2]);
    scheduler::stop(running).await;
}

#[tokio::test]
async fn it_says_why_there_is_no_configuration() {
    let table = [
        (HARVESTED, vec![], "these limits depend on the plan; pass `--tier` with one of free, pro"),
        (HARVESTED, vec!["--tier", "gold"], "no limit is of the tier `gold`; there are: free, pro"),
        (
            "- {name: a, limit: 1, metric: request, timeframe: day}",
            vec![],
            "it has no method, so that it may be a guess",
        ),
        ("provider: x", vec![], "is no rate limits document of API Commons"),
    ];
    for (text, more, expected) in table {
        let error = imported(text, &more).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
