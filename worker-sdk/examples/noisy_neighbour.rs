//! Three calls a second for each client, as a web service allows them. A noisy client asks for all
//! that it can get. A quiet client beside it never waits.
//!
//! `cargo run -p rampmeter-worker-sdk --example noisy_neighbour -- web 5` shows it for five
//! seconds. The server's URL is in `RAMPMETER_NATS`, and the scheduler has this resource:
//!
//! ```toml
//! [[resource]]
//! name = "web"
//!
//! [[resource.limit]]
//! name = "per-client"
//! key = ["client"]
//! capacity = 3
//! period = "1s"
//! margin = 0
//! ```

use futures::future::try_join_all;
use rampmeter_worker_sdk::error::{Code, ErrorKind};
use rampmeter_worker_sdk::{Client, Error, Outcome, Resource};
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::{interval, timeout};

/// The noisy client asks in this many tasks at once, without waiting for its turn.
const TASKS: usize = 20;
/// The quiet client asks twice a second.
const QUIET: Duration = Duration::from_millis(500);

/// The results of one client.
#[derive(Debug, Default)]
pub struct Share {
    /// Calls that it could make.
    pub granted: AtomicU32,
    /// Refusals with a time to ask again.
    pub refused: AtomicU32,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [granted, refused] = [&self.granted, &self.refused].map(|count| count.load(Ordering::Relaxed));
        write!(f, "{granted} calls, refused {refused} times")
    }
}

/// Runs both clients for `span`. Returns the share of the noisy client and of the quiet one.
///
/// # Errors
/// If no scheduler answers.
pub async fn side_by_side(web: &Resource, span: Duration) -> Result<(Share, Share), Error> {
    let (noisy, quiet) = (Share::default(), Share::default());
    let insisting = try_join_all((0..TASKS).map(|_| insist(web, &noisy)));
    let asking = async { tokio::try_join!(insisting, ask_now_and_then(web, &quiet)) };
    // Both tasks only end with an error.
    if let Ok(Err(error)) = timeout(span, asking).await {
        return Err(error);
    }
    Ok((noisy, quiet))
}

/// Asks again after each answer.
async fn insist(web: &Resource, share: &Share) -> Result<Infallible, Error> {
    loop {
        ask(web, "noisy", share).await?;
    }
}

async fn ask_now_and_then(web: &Resource, share: &Share) -> Result<Infallible, Error> {
    let mut turns = interval(QUIET);
    loop {
        turns.tick().await;
        ask(web, "quiet", share).await?;
    }
}

async fn ask(web: &Resource, client: &str, share: &Share) -> Result<(), Error> {
    match web.try_acquire(1).label("client", client).await {
        Ok(permit) => {
            // A real service would handle the request here.
            permit.begin().settle(Outcome::status(200));
            share.granted.fetch_add(1, Ordering::Relaxed);
        }
        Err(error) if error.kind() == ErrorKind::Refused(Code::NotInTime) => {
            share.refused.fetch_add(1, Ordering::Relaxed);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nats = std::env::var("RAMPMETER_NATS").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let resource = std::env::args().nth(1).unwrap_or_else(|| "web".to_owned());
    let seconds = std::env::args().nth(2).map_or(Ok(5), |seconds| seconds.parse())?;
    let client = Client::builder().name("noisy-neighbour").wait_for_server().connect(nats).await?;
    let (noisy, quiet) = side_by_side(&client.resource(&resource)?, Duration::from_secs(seconds)).await?;
    println!("noisy: {noisy}\nquiet: {quiet}");
    Ok(())
}
