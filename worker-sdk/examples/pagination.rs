//! Reads collections page by page. The service counts rows, and only the last page shows how many there were. Each page
//! is a call with a permit of its own. It asks for the most rows that a page has, and settles with those that it had.
//!
//! ```sh
//! rampmeter upstream --listen 127.0.0.1:9490 --limit requests=600/60s --limit rows=6000/60s
//! cargo run -p rampmeter-worker-sdk --example pagination -- catalogue http://127.0.0.1:9490 20
//! ```
//!
//! with the server's URL in `RAMPMETER_NATS`, and these limits of the resource `catalogue`. With
//! `learn_costs`, the scheduler soon knows how full the pages of a collection are.
//!
//! ```toml
//! [[resource]]
//! name = "catalogue"
//! learn_costs = ["collection"]
//!
//! [[resource.limit]]
//! name = "requests"
//! unit = "requests"
//! capacity = 600
//! period = "60s"
//!
//! [[resource.limit]]
//! name = "rows"
//! unit = "rows"
//! capacity = 6000
//! period = "60s"
//! ```

use rampmeter_worker_sdk::{Client, Cost, Outcome, Resource};
use std::fmt;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The most rows of a page.
const PAGE: u32 = 100;

/// Totals of some collections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Pages that were read.
    pub pages: u32,
    /// Rows on them.
    pub rows: u32,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows on {} pages, {} rows asked for", self.rows, self.pages, self.pages * PAGE)
    }
}

/// Reads this many collections, one after the other.
///
/// # Errors
/// If a page can't be read.
pub async fn read_all(catalogue: &Resource, url: &str, collections: u32) -> Result<Summary, Error> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let mut summary = Summary::default();
    for collection in 0..collections {
        let mut next = Some(0);
        while let Some(number) = next {
            // A page that is answered 429 is asked for again.
            let page = catalogue.acquire(Cost::requests(1).and("rows", PAGE)).label("collection", &name(collection));
            let (_settled, page) = page.run(|| read(&http, url, collection, number)).await?;
            summary = Summary { pages: summary.pages + 1, rows: summary.rows + page.rows };
            next = page.next;
        }
    }
    Ok(summary)
}

fn name(collection: u32) -> String {
    format!("collection-{}", collection % 3)
}

/// A page: its rows, and the number of the page behind it.
struct Page {
    rows: u32,
    next: Option<u32>,
}

/// The call itself. The request tells the imitated service how many rows its page has; a real
/// service decides that itself.
async fn read(
    http: &reqwest::Client,
    url: &str,
    collection: u32,
    number: u32,
) -> Result<(Outcome, Page), reqwest::Error> {
    let left = (40 + collection * 7919 % 400).saturating_sub(number * PAGE);
    let page = Page { rows: left.min(PAGE), next: (left > PAGE).then_some(number + 1) };
    let response = http.get(format!("{url}/process?rows={}", page.rows)).send().await?;
    let outcome = Outcome::status(response.status().as_u16());
    let cost = Cost::requests(1).and("rows", if outcome.is_success() { page.rows } else { 0 });
    response.bytes().await?;
    Ok((outcome.cost(cost), page))
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Error> {
    let nats = std::env::var("RAMPMETER_NATS").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let mut arguments = std::env::args().skip(1);
    let resource = arguments.next().unwrap_or_else(|| "catalogue".to_owned());
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:9490".to_owned());
    let collections = arguments.next().map_or(Ok(20), |text| text.parse::<u32>())?;
    let client = Client::builder().name("pagination").wait_for_server().connect(nats).await?;
    println!("{}", read_all(&client.resource(&resource)?, &url, collections).await?);
    Ok(())
}
