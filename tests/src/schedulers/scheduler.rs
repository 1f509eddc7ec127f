//! A scheduler in this process.

use crate::api::http;
use crate::nats;
use crate::openmetrics::Page;
use crate::patience::{until, within};
use rampmeter_config as config;
use rampmeter_nats_server::Server;
use rampmeter_scheduler::running::{self, Running};
use serde_json::Value;
use std::path::Path;

/// A resource `hub` of four requests, none of which comes back while a test runs.
pub const FOUR: &str = r#"
[[resource]]
name = "hub"
limit = [{ name = "few", capacity = 4, period = "400h", margin = 0 }]
"#;
/// The same of a hundred requests.
pub const HUNDRED: &str = r#"
[[resource]]
name = "hub"
limit = [{ name = "many", capacity = 100, period = "400h", margin = 0 }]
"#;

/// A resource `hub` of four requests and a hundred processing units. One more request comes every 100 hours: tests end
/// before anything refills.
pub const TWO_UNITS: &str = r#"
[[resource]]
name = "hub"
max_ahead = "8000h"
max_waiting = 2
classes = [{ name = "urgent" }, { name = "bulk" }]
limit = [
    { name = "few", capacity = 4, period = "400h", margin = 0 },
    { name = "units", unit = "processing-units", capacity = 100, period = "400h", margin = 0 },
]
"#;

/// A resource `hub` of four requests, which its clients share, and another resource.
pub const SHARED: &str = r#"
[[resource]]
name = "hub"
fair_share = "client"
classes = [{ name = "urgent" }, { name = "bulk" }]
limit = [{ name = "few", capacity = 4, period = "400h", margin = 0 }]

[[resource]]
name = "other"
limit = [{ name = "few", capacity = 4, period = "400h" }]
"#;

/// A whole configuration: `resources` on the server at `nats_url`, with HTTP on a free port.
pub fn configuration(nats_url: &str, resources: &str) -> String {
    format!("[nats]\nurl = \"{nats_url}\"\n[http]\nlisten = \"127.0.0.1:0\"\n{resources}")
}

/// A scheduler of `resources`, which leads them or stands by.
pub async fn start(nats: &Server, resources: &str) -> Running {
    start_by(&configuration(nats.url(), resources)).await
}

/// A scheduler with this whole configuration, which leads or stands by.
pub async fn start_by(text: &str) -> Running {
    let running = try_begin(text).await.unwrap();
    within("a scheduler is ready", running.ready()).await;
    running
}

/// The same, on a server of its own.
pub async fn alone(resources: &str) -> (Server, Running) {
    let nats = nats::start().await;
    let running = start(&nats, resources).await;
    (nats, running)
}

/// A scheduler of `resources`, which may not have taken over yet.
pub async fn begin(nats: &Server, resources: &str) -> Running {
    try_begin(&configuration(nats.url(), resources)).await.unwrap()
}

/// A scheduler with this configuration, which may not have taken over yet.
///
/// # Errors
/// What keeps it from starting.
pub async fn try_begin(text: &str) -> anyhow::Result<Running> {
    let config = config::parse(Path::new("test.toml"), text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    running::start(config).await
}

/// What keeps a scheduler with this configuration from starting.
pub async fn refused(text: &str) -> String {
    format!("{:#}", try_begin(text).await.err().expect("refused"))
}

/// Stops the scheduler with a hand-over.
pub async fn stop(running: Running) {
    running.stop().await.unwrap();
}

/// The page at `path` of a scheduler: status and text.
pub async fn page(running: &Running, path: &str) -> (u16, String) {
    let address = running.http().expect("the tests' configuration has HTTP");
    get(&format!("http://{address}{path}")).await
}

/// The metrics of a scheduler.
pub async fn metrics(running: &Running) -> Page {
    Page::parse(&page(running, "/metrics").await.1).unwrap()
}

/// What a scheduler says of its readiness: status and content.
pub async fn readiness(running: &Running) -> (u16, Value) {
    let (status, text) = page(running, "/readyz").await;
    (status, serde_json::from_str(&text).unwrap())
}

/// Why a resource is not ready, as soon as it is not.
pub async fn trouble(running: &Running, resource: &str) -> String {
    until("the resource is in trouble", async || {
        let (status, body) = readiness(running).await;
        (status == 503).then(|| body["resources"][resource]["reason"].as_str().map(str::to_owned))?
    })
    .await
}

/// The page at `url`: status and text.
pub async fn get(url: &str) -> (u16, String) {
    let response = http().get(url).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}
