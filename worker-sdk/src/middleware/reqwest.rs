//! Permits for every call of a reqwest client: feature `reqwest-middleware`.

use crate::Resource;
use crate::middleware::acquire_setter::AcquireSetter;
use crate::permit::acquire::Acquire;
use crate::permit::outcome::Reply;
use crate::permit::request_future::RequestSpec;
use http::Extensions;
use reqwest_middleware::reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};

/// How often a call is repeated by default. The whole fleet pauses after a 429, so that a second
/// 429 in a row is rare.
const REPEATS: u32 = 3;

/// Asks for a permit before each call of a [`reqwest_middleware`] client, and makes the call at its
/// start. It reports the status and the headers of the answer to the scheduler.
///
/// A call that is answered 429 is repeated with a new permit, which comes after the pause. This
/// happens up to three times by default; [`repeats`](Permits::repeats) sets another number. A call
/// with a body that cannot be sent again, such as a stream, is not repeated. After the last repeat
/// the caller receives the 429. Calls must therefore be safe to repeat after a 429. The caller
/// receives any other answer at once.
///
/// A call waits for its permit without a bound unless [`asking`](Permits::asking) sets a deadline,
/// which covers all repeats. Without a permit the call is not made (again) and fails with
/// [`Error::Middleware`]. Its `downcast_ref::<rampmeter_worker_sdk::Error>()` gives the reason. If
/// the future of a waiting call is dropped, the call is cancelled at no cost. A call that is
/// dropped later, or that fails, counts as made.
///
/// **Each redirect that reqwest follows is a call without a permit.** Switch redirects off
/// (`redirect::Policy::none`) if the upstream counts them. Middleware that repeats calls belongs
/// before this one in the chain, so that each repeat has a permit.
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
    setter: AcquireSetter<Request>,
    repeats: u32,
}

impl Permits {
    /// Each call costs one request.
    #[must_use]
    pub fn new(resource: Resource) -> Self {
        Permits { resource, setter: AcquireSetter::USUAL, repeats: REPEATS }
    }

    /// Sets class, labels, [cost](Acquire::cost) and deadline of the request for a permit from the
    /// HTTP request.
    #[must_use]
    pub fn asking(self, set: impl Fn(Acquire, &Request) -> Acquire + Send + Sync + 'static) -> Self {
        Permits { setter: AcquireSetter::new(set), ..self }
    }

    /// How often a call that is answered 429 is repeated; zero for never.
    #[must_use]
    pub fn repeats(self, most: u32) -> Self {
        Permits { repeats: most, ..self }
    }
}

#[async_trait::async_trait]
impl Middleware for Permits {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let acquire = self.setter.set(self.resource.acquire(1), &request);
        let mut spec = acquire.into_spec().map_err(Error::middleware)?;
        for _ in 0..self.repeats {
            let Some(copy) = request.try_clone() else { break };
            let (response, again) = call(spec, copy, extensions, next.clone()).await?;
            if !response.outcome().is_throttled() {
                return Ok(response);
            }
            tracing::warn!(resource = self.resource.name(), "the upstream answered 429; asking for a new permit");
            spec = again;
        }
        let (response, _) = call(spec, request, extensions, next).await?;
        Ok(response)
    }
}

/// Makes one call with its permit, and returns the request, which can be sent again.
async fn call(
    spec: RequestSpec,
    request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<(Response, RequestSpec)> {
    let (resource, deadline) = (spec.resource.clone(), spec.deadline);
    let call = spec.begin_call().await.map_err(Error::middleware)?;
    let response = next.run(request, extensions).await?;
    let request = call.end(response.outcome());
    Ok((response, RequestSpec { resource, request, deadline }))
}
