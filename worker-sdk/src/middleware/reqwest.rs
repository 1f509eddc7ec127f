//! Permits for every call of a reqwest client: feature `reqwest-middleware`.

use crate::acquire::Acquire;
use crate::middleware::terms::Terms;
use crate::outcome::Reply;
use crate::request_future::RequestSpec;
use crate::{Outcome, Resource};
use http::Extensions;
use reqwest_middleware::reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};

/// How often a call is made again unless told. A 429 makes the whole fleet pause, so that a second one in a row is rare.
const REPEATS: u32 = 3;

/// Asks for a permit before each call of a [`reqwest_middleware`] client, makes the call when its start has come, and tells the
/// scheduler the status and the headers of the answer.
///
/// A call that is answered 429 is made anew, with a new permit that comes after the pause: three times unless
/// [told otherwise](Permits::repeats), and only if its body can be sent again, which a stream cannot. Then the 429 is
/// handed on. Calls must therefore be safe to repeat after a 429. Any other answer is handed on at once.
///
/// A call waits for its permit for as long as it takes, unless [`asking`](Permits::asking) sets a deadline, which is one for all
/// repeats. Without a permit the call is not made (again) and fails with [`Error::Middleware`], of which
/// `downcast_ref::<rampmeter_worker_sdk::Error>()` tells why. A call whose future is dropped while it waits is cancelled at no
/// cost; one that is dropped later, or that fails, counts as made.
///
/// **Each redirect that reqwest follows is a call that nobody was asked for**: switch them off (`redirect::Policy::none`) where
/// they count. What repeats calls belongs before this in the chain of middleware, so that each repeat has a permit.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use rampmeter_worker_sdk::Client;
/// use rampmeter_worker_sdk::middleware::reqwest::Permits;
/// use reqwest_middleware::ClientBuilder;
/// use std::time::Duration;
///
/// let hub = Client::connect("nats://127.0.0.1:4222").await?.resource("sentinel-hub")?;
/// let permits = Permits::new(hub).asking(|acquire, request| {
///     acquire.label("method", request.method().as_str()).deadline(Duration::from_secs(60))
/// });
/// let http = ClientBuilder::new(reqwest_middleware::reqwest::Client::new()).with(permits).build();
/// let tile = http.get("http://127.0.0.1/tile").send().await?;
/// # drop(tile);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Permits {
    resource: Resource,
    terms: Terms<Request>,
    repeats: u32,
}

impl Permits {
    /// Each call costs one request.
    #[must_use]
    pub fn new(resource: Resource) -> Self {
        Permits { resource, terms: Terms::USUAL, repeats: REPEATS }
    }

    /// What is asked for, as a request tells: its class, its labels, its [cost](Acquire::cost), its deadline.
    #[must_use]
    pub fn asking(self, set: impl Fn(Acquire, &Request) -> Acquire + Send + Sync + 'static) -> Self {
        Permits { terms: Terms::new(set), ..self }
    }

    /// How often a call that is answered 429 is made anew; zero for never.
    #[must_use]
    pub fn repeats(self, most: u32) -> Self {
        Permits { repeats: most, ..self }
    }
}

#[async_trait::async_trait]
impl Middleware for Permits {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let acquire = self.terms.set(self.resource.acquire(1), &request);
        let mut wanted = acquire.wanted().map_err(Error::middleware)?;
        for _ in 0..self.repeats {
            let Some(copy) = request.try_clone() else { break };
            let (response, again) = call(wanted, copy, extensions, next.clone()).await?;
            if !response.outcome().is_throttled() {
                return Ok(response);
            }
            tracing::warn!(resource = self.resource.name(), "the upstream answered 429; asking for a new permit");
            wanted = again;
        }
        let (response, _) = call(wanted, request, extensions, next).await?;
        Ok(response)
    }
}

/// One call with its permit; what was asked for is left, to be asked for again.
async fn call(
    wanted: RequestSpec,
    request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<(Response, RequestSpec)> {
    let (resource, deadline) = (wanted.resource.clone(), wanted.deadline);
    let call = wanted.begun().await.map_err(Error::middleware)?;
    let response = next.run(request, extensions).await?;
    let request = call.end(response.outcome());
    Ok((response, RequestSpec { resource, request, deadline }))
}

impl Reply for Response {
    fn outcome(&self) -> Outcome {
        Outcome::answered(self.status(), self.headers())
    }
}
