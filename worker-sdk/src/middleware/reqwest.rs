//! Permits for every call of a reqwest client (feature `reqwest-middleware`).

use crate::middleware::acquire_setter::AcquireSetter;
use crate::middleware::watched_body::WatchedBody;
use crate::permit::acquire::RequestSpec;
use crate::permit::acquire::{Acquire, REPEATS};
use crate::permit::outcome::Reply;
use crate::{Call, Outcome, Resource};
use http::Extensions;
use reqwest_middleware::reqwest::{Body, Request, Response, ResponseBuilderExt};
use reqwest_middleware::{Error, Middleware, Next, Result};

/// Makes each call of a [`reqwest_middleware`] client at its permit's start; reports the response's status and headers.
///
/// A call that gets a 429 is repeated with a new permit, which comes after the pause, up to three times or as
/// set by [`repeats`](Permits::repeats), so calls must be safe to repeat after a 429. A call whose body cannot
/// be sent again, such as a stream, is not. The caller receives the last 429, and any other response at once.
///
/// A call waits for its permit without a bound unless [`asking`](Permits::asking) sets a deadline, which covers all
/// repeats. Without a permit it fails with [`Error::Middleware`], whose `downcast_ref::<rampmeter_worker_sdk::Error>()`
/// gives the reason. Dropping the future of a waiting call cancels the call at no cost. A call that is dropped later or
/// fails counts as made, except for one that got no connection, which is given back. Where a limit counts calls in
/// flight, a call lasts until its body has been read or is dropped.
///
/// **Each redirect that reqwest follows is a call without a permit.** Switch redirects off (`redirect::Policy::none`)
/// if the upstream counts them. Middleware that repeats calls belongs before this one, to give each repeat a permit.
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
    /// Creates a middleware in which each call costs one request.
    #[must_use]
    pub fn new(resource: Resource) -> Self {
        Permits { resource, setter: AcquireSetter::USUAL, repeats: REPEATS }
    }

    /// Sets class, labels, [cost](Acquire::cost) and deadline of the permit from the HTTP request.
    #[must_use]
    pub fn asking(self, set: impl Fn(Acquire, &Request) -> Acquire + Send + Sync + 'static) -> Self {
        Permits { setter: AcquireSetter::new(set), ..self }
    }

    /// Sets how often a call that gets a 429 is repeated; zero for never.
    #[must_use]
    pub fn repeats(self, most: u32) -> Self {
        Permits { repeats: most, ..self }
    }
}

#[async_trait::async_trait]
impl Middleware for Permits {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let acquire = self.setter.set(self.resource.acquire(1), &request);
        let RequestSpec { resource, request: mut wanted, deadline } = acquire.into_spec().map_err(Error::middleware)?;
        let spec = |request| RequestSpec { resource: resource.clone(), request, deadline };
        for _ in 0..self.repeats {
            let Some(copy) = request.try_clone() else { break };
            let (response, call) = send(spec(wanted), copy, extensions, next.clone()).await?;
            let outcome = response.outcome();
            if !outcome.is_throttled() {
                return Ok(settled(response, outcome, call));
            }
            tracing::warn!(resource = self.resource.name(), "the upstream answered 429; asking for a new permit");
            wanted = call.end(outcome);
        }
        let (response, call) = send(spec(wanted), request, extensions, next).await?;
        let outcome = response.outcome();
        Ok(settled(response, outcome, call))
    }
}

/// Makes one call with its permit, which is given back if there is no connection.
async fn send(
    spec: RequestSpec,
    request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<(Response, Call)> {
    let call = spec.begin_call().await.map_err(Error::middleware)?;
    match next.run(request, extensions).await {
        Ok(response) => Ok((response, call)),
        Err(error) => {
            if matches!(&error, Error::Reqwest(error) if error.is_connect()) {
                call.give_back();
            }
            Err(error)
        }
    }
}

/// Settles a call that is not repeated, at the end of its body if a limit counts calls in flight.
fn settled(response: Response, outcome: Outcome, call: Call) -> Response {
    if !call.has_place() {
        call.settle(outcome);
        return response;
    }
    let named = http::Response::builder().url(response.url().clone()).body(());
    let (mut head, body) = http::Response::from(response).into_parts();
    head.extensions.extend(named.map(|named| named.into_parts().0.extensions).unwrap_or_default());
    Response::from(http::Response::from_parts(head, Body::wrap(WatchedBody::new(body, call, outcome))))
}
