//! The SDK's examples behave as described, under the limits that they name.

#![allow(dead_code, unreachable_pub, reason = "command lines and settings of examples are not used here")]

use crate::prelude::*;
use rampmeter_tests::raw_upstream::with_status;

#[path = "../../../../worker-sdk/examples/language_model.rs"]
mod language_model;
#[path = "../../../../worker-sdk/examples/pagination.rs"]
mod pagination;
#[path = "../../../../worker-sdk/examples/priced.rs"]
mod priced;
#[path = "../../../../worker-sdk/examples/worker.rs"]
pub(crate) mod worker;

/// The configuration in the first lines of an example.
fn shown(example: &str) -> String {
    let text = repository::file(&format!("worker-sdk/examples/{example}.rs")).unwrap().text;
    let lines = text.lines().skip_while(|line| *line != "//! ```toml").skip(1).take_while(|line| *line != "//! ```");
    lines.map(|line| line.trim_start_matches("//!").trim_start().to_owned() + "\n").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_language_model_settle_what_they_took() {
    let nats = nats::start().await;
    // A minute of the example passes in a second. On a busy machine calls are late by up to a
    // fourth of that.
    let limits = shown("language_model")
        .replace("\"60s\"", "\"1s\"")
        .replace("90000", "9000\nmargin = 2250")
        .replace("600", "60\nmargin = 15");
    let _scheduler = scheduler::start(&nats, &limits).await;
    let upstream = upstream_with(&["requests=60/1s", "tokens=9000/1s"], Dialect::Openai).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let model = client.resource("language-model").unwrap();
    let summary = language_model::converse(&model, &upstream.url(), 10, 10).await.unwrap();
    assert_eq!((summary.answered, summary.rejected), (100, 0), "{summary}");
    assert!(summary.taken < summary.estimated / 3 * 2, "{summary}");
}

/// Collections have 40 to 439 rows. A second allows one collection or a little more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_settle_the_rows_that_they_had() {
    let nats = nats::start().await;
    // A minute of the example passes in a second.
    let limits = shown("pagination").replace("\"60s\"", "\"1s\"").replace("6000", "600\nmargin = 150");
    let _scheduler = scheduler::start(&nats, &limits).await;
    let upstream = upstream_with(&["requests=600/1s", "rows=600/1s"], Dialect::SentinelHub).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let catalogue = client.resource("catalogue").unwrap();
    let summary = pagination::read_all(&catalogue, &upstream.url(), 12).await.unwrap();
    let stats = upstream.stats().total;
    assert_eq!((stats.ok, stats.rate_limited), (u64::from(summary.pages), 0), "{summary}");
    let learned = Worker::connect(&nats, "catalogue").await.status().await.corrections;
    assert!(learned.iter().any(|known| known.factor < 0.9), "{learned:?}");
}

/// More bodies at once than the scheduler prices in one message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_priced_by_the_scheduler() {
    let nats = nats::start().await;
    // A minute of the example passes in two seconds.
    let limits = shown("priced").replace("\"60s\"", "\"2s\"").replace("600", "60\nmargin = 10");
    let _scheduler = scheduler::start(&nats, &limits).await;
    let upstream = upstream_with(&["requests=60/2s", "processing-units=60/2s"], Dialect::SentinelHub).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let hub = client.resource("sentinel-hub").unwrap();
    let summary = priced::download(&hub, &upstream.url(), 80).await.unwrap();
    assert_eq!((summary.downloaded.into_inner(), summary.failed.into_inner()), (80, 0));
    client.close().await;
    let counters = Worker::connect(&nats, "sentinel-hub").await.status().await.counters;
    assert_eq!((counters.granted, counters.settled, counters.refused), (80, 80, 0));
}

/// The units of the worker's calls.
const HUB: &str = r#"
[[resource]]
name = "sentinel-hub"
limit = [
    { name = "requests", capacity = 100, period = "1s" },
    { name = "processing-units", unit = "processing-units", capacity = 100, period = "1s" },
]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_that_is_shown_settles_a_429_a_404_and_a_time_out() {
    let (nats, _scheduler) = scheduler::alone(HUB).await;
    let said = [with_status("429 Too Many", "retry-after: 1\r\n", ""), with_status("404 Not Found", "", "")];
    let api = RawUpstream::start(said.map(Act::Say).into_iter().chain([Act::Silence])).await.url();

    worker::work(nats.url(), &api, 3, Duration::from_secs(1)).await.unwrap();

    let worker = Worker::connect(&nats, "sentinel-hub").await;
    let counters = until("all are settled", async || {
        let counters = worker.status().await.counters;
        (counters.settled == 4).then_some(counters)
    })
    .await;
    assert_eq!((counters.granted, counters.upstream_429, counters.returned), (4, 1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_that_is_shown_tells_why_it_is_refused() {
    let nats = nats::start().await;
    let other_units = HUB.replace("unit = \"processing-units\"", "unit = \"tiles\"");
    let _scheduler = scheduler::start(&nats, &other_units).await;
    let refused = worker::work(nats.url(), "http://127.0.0.1:1/", 1, Duration::from_secs(1)).await.unwrap_err();
    assert!(refused.to_string().contains("`cost.processing-units`: no limit counts this unit"), "{refused}");
}
