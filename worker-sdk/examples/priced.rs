//! Downloads tiles of Sentinel Hub at once. The scheduler computes what each of them costs, from the request's body.
//!
//! ```sh
//! rampmeter upstream --listen 127.0.0.1:9490 --limit requests=600/60s --limit processing-units=600/60s
//! cargo run -p rampmeter-worker-sdk --example priced -- sentinel-hub http://127.0.0.1:9490 100
//! ```
//!
//! with the server's URL in `RAMPMETER_NATS`, and these limits of the resource `sentinel-hub`:
//!
//! ```toml
//! [[resource]]
//! name = "sentinel-hub"
//! pricing = "sentinel-hub"
//!
//! [[resource.limit]]
//! name = "requests"
//! unit = "requests"
//! capacity = 600
//! period = "60s"
//!
//! [[resource.limit]]
//! name = "processing-units"
//! unit = "processing-units"
//! capacity = 600
//! period = "60s"
//! ```

use rampmeter_worker_sdk::call::Price;
use rampmeter_worker_sdk::{Client, Outcome, Resource};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What became of some tiles.
#[derive(Debug, Default)]
pub struct Summary {
    /// Tiles that were downloaded.
    pub downloaded: AtomicU32,
    /// Tiles that were answered otherwise.
    pub failed: AtomicU32,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [downloaded, failed] = [&self.downloaded, &self.failed].map(|count| count.load(Ordering::Relaxed));
        write!(f, "{downloaded} tiles downloaded, {failed} failed")
    }
}

/// Downloads this many tiles, all at once: permits wait for their turn.
///
/// # Errors
/// If there is no permit, or the service can't be reached.
pub async fn download(hub: &Resource, url: &str, tiles: u32) -> Result<Summary, Error> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let summary = Summary::default();
    let all = (0..tiles).map(|tile| download_one(hub, &http, url, tile, &summary));
    futures::future::try_join_all(all).await?;
    Ok(summary)
}

async fn download_one(
    hub: &Resource,
    http: &reqwest::Client,
    url: &str,
    tile: u32,
    summary: &Summary,
) -> Result<(), Error> {
    let body = body(tile);
    let permit = hub.acquire(1).price(Price::of("sentinel-hub", "process", &body)).await?;
    // The real service computes what a call costs; the imitated one has to be told.
    let cost = permit.cost().into_wire()?;
    let units = cost.get("processing-units").ok_or("the scheduler prices in processing units")?;
    let call = permit.begin();
    let response = http.post(format!("{url}/process?processing-units={units}")).body(body).send().await?;
    let status = response.status();
    let count = if status.is_success() { &summary.downloaded } else { &summary.failed };
    count.fetch_add(1, Ordering::Relaxed);
    call.settle(Outcome::status(status.as_u16()));
    Ok(())
}

/// The request for a tile of 256 to 640 pixels.
fn body(tile: u32) -> String {
    let width = 256 + tile % 4 * 128;
    let script = "function setup() { return { input: ['B04', 'B08'], output: { bands: 1, sampleType: 'FLOAT32' } } }";
    format!(
        r#"{{"input": {{"data": [{{"type": "sentinel-2-l2a"}}]}},
            "output": {{"width": {width}, "height": 512, "responses": [{{"format": {{"type": "image/tiff"}}}}]}},
            "evalscript": "{script}"}}"#
    )
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Error> {
    let nats = std::env::var("RAMPMETER_NATS").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let mut arguments = std::env::args().skip(1);
    let resource = arguments.next().unwrap_or_else(|| "sentinel-hub".to_owned());
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:9490".to_owned());
    let tiles = arguments.next().map_or(Ok(100), |text| text.parse::<u32>())?;
    let client = Client::builder().name("priced").wait_for_server().connect(nats).await?;
    println!("{}", download(&client.resource(&resource)?, &url, tiles).await?);
    client.close().await;
    Ok(())
}
