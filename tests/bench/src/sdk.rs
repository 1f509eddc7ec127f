//! The SDK's `acquire`.

use crate::case::{Case, PREFIX};
use crate::plain::keep_in_flight;
use crate::round::Round;
use crate::thread::alone;
use rampmeter_protocol::clock::Clock;
use rampmeter_worker_sdk::{Client, Cost};
use std::time::Duration;

/// Keeps the case's number of `acquire` calls in flight for `length`. Permits are used and dropped,
/// and the SDK settles them, as in production.
pub(crate) async fn round(url: &str, case: &Case, length: Duration) -> anyhow::Result<Round> {
    let (url, name, calls) = (url.to_owned(), case.resource(), case.in_flight * case.array);
    alone("load", move || async move {
        let client = Client::builder().prefix(PREFIX).connect(&url).await?;
        let resource = client.resource(&name)?;
        let cost = Cost::requests(1).and("processing-units", 2.5);
        let clock = Clock::start();
        let acquire = || {
            let acquire = resource.acquire(cost.clone());
            async {
                let sent = clock.now();
                drop(acquire.await?.begin());
                Ok(sent)
            }
        };
        let round = keep_in_flight(calls, length, clock, acquire).await;
        client.close().await;
        round
    })
    .await
}
