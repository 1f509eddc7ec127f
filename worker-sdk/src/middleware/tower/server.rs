//! Before a service.

use super::policy::{self, Policy};
use super::refusal::{RATE_LIMIT, refusal};
use crate::acquire::Acquire;
use crate::middleware::terms::Terms;
use crate::{Outcome, Resource};
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use rampmeter_protocol::rate_limit::remaining;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Lets as many requests into a service as the limits of a [`Resource`] allow, and answers the others itself.
///
/// A request that is let in is charged before the service hears of it and stays charged, whatever the service answers. Where
/// limits count calls in flight, it is one until the head of the answer is there. What the service answers is not told to the
/// scheduler: a 429 of its own says nothing of these limits.
///
/// | answer | when | |
/// |---|---|---|
/// | 429 | the request would have to wait (longer than it may), or a quota is spent | `Retry-After` in whole seconds, at least 1, where it is known when to come back; `RateLimit` with the limit in the way |
/// | 503 | no scheduler answers, or it says `unavailable`, `no_limit`, `queue_full` or `too_many_keys` | `Retry-After` where it is known |
/// | 422 | the cost exceeds what a limit can ever hold | |
/// | 400 | what the request was made into cannot be asked for, such as a label of more than 256 characters | |
/// | 500 | what [`asking`](ServerLayer::asking) sets is not configured, such as a class | |
///
/// A request that is let in is told in `RateLimit` what its limits have left, where the service says nothing there itself.
///
/// These have no body; an outer layer that writes one finds the [`Error`](crate::Error) among the answer's extensions, as
/// an `Arc<Error>`. A caller who goes away while it waits is no longer in the queue.
///
/// **Whether nobody answers is found out late** unless the client is told what to do then: after five seconds, or after the
/// longest wait. A client with [`Unreachable::Fail`](crate::policy::Unreachable::Fail) says so sooner, one with
/// [`Unreachable::SafeRate`](crate::policy::Unreachable::SafeRate) goes on.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use rampmeter_worker_sdk::Client;
/// use rampmeter_worker_sdk::middleware::tower::{Policy, ServerLayer};
/// use std::time::Duration;
///
/// let resource = Client::connect("nats://127.0.0.1:4222").await?.resource("my-api")?;
/// let layer = ServerLayer::new(resource)
///     .asking(|acquire, head| acquire.label("route", head.uri.path()).label("method", head.method.as_str()))
///     .wait(Duration::from_millis(500))
///     .policies([Policy::new("per-minute", 100, Duration::from_secs(60))?]);
/// # drop(layer);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ServerLayer(Gate);

/// A service behind a [`ServerLayer`]. Its errors are those of the service inside.
///
/// The service inside is made ready before a permit is asked for, and is held ready while the request waits.
#[derive(Clone, Debug)]
pub struct ServerService<S> {
    inner: S,
    gate: Gate,
}

#[derive(Clone, Debug)]
struct Gate {
    resource: Resource,
    terms: Terms<Parts>,
    longest_wait: Option<Duration>,
    policies: Option<HeaderValue>,
}

impl ServerLayer {
    /// Each request costs one, and is let in at once or refused.
    #[must_use]
    pub fn new(resource: Resource) -> Self {
        ServerLayer(Gate { resource, terms: Terms::USUAL, longest_wait: None, policies: None })
    }

    /// What is asked for, as the head of a request tells: its class, its labels, its [cost](Acquire::cost), a deadline of its own.
    ///
    /// Where limits are keyed by a label, each of its values has a bucket: a path with an id in it makes one for each id.
    #[must_use]
    pub fn asking(self, set: impl Fn(Acquire, &Parts) -> Acquire + Send + Sync + 'static) -> Self {
        ServerLayer(Gate { terms: Terms::new(set), ..self.0 })
    }

    /// Requests may wait for so long before they are refused: bursts are throttled first. One whose wait would be longer is
    /// refused at once.
    #[must_use]
    pub fn wait(self, longest: Duration) -> Self {
        ServerLayer(Gate { longest_wait: Some(longest), ..self.0 })
    }

    /// What answers say in `RateLimit-Policy`, where the service says nothing there itself.
    #[must_use]
    pub fn policies(self, policies: impl IntoIterator<Item = Policy>) -> Self {
        ServerLayer(Gate { policies: policy::field(policies), ..self.0 })
    }
}

impl<S> Layer<S> for ServerLayer {
    type Service = ServerService<S>;

    fn layer(&self, inner: S) -> ServerService<S> {
        ServerService { inner, gate: self.0.clone() }
    }
}

impl<S, B, C> Service<Request<B>> for ServerService<S>
where
    S: Service<Request<B>, Response = Response<C>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    C: Default + 'static,
{
    type Response = Response<C>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<C>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready takes the request; its clone may not be.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        Box::pin(self.gate.clone().serve(ready, request))
    }
}

impl Gate {
    async fn serve<S, B, C>(self, mut service: S, request: Request<B>) -> Result<Response<C>, S::Error>
    where
        S: Service<Request<B>, Response = Response<C>>,
        C: Default,
    {
        let (head, body) = request.into_parts();
        let acquire = self.acquire(&head);
        let mut response = match acquire.await {
            Ok(permit) => {
                let limits = remaining(permit.left()).and_then(|limits| HeaderValue::try_from(limits).ok());
                let call = permit.begin();
                let mut response = service.call(Request::from_parts(head, body)).await?;
                call.settle(Outcome::default());
                limits.map(|limits| response.headers_mut().entry(RATE_LIMIT).or_insert(limits));
                response
            }
            Err(error) => {
                tracing::debug!(resource = self.resource.name(), %error, "a request was not let in");
                refusal(error)
            }
        };
        if let Some(policies) = self.policies {
            response.headers_mut().entry(RATE_LIMIT_POLICY).or_insert(policies);
        }
        Ok(response)
    }

    fn acquire(&self, head: &Parts) -> Acquire {
        let acquire = match self.longest_wait {
            None => self.resource.try_acquire(1),
            Some(longest) => self.resource.acquire(1).deadline(longest),
        };
        self.terms.set(acquire.with_left(), head)
    }
}
