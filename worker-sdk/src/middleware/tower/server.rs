//! A layer around an HTTP service.

use super::policy::{self, Policy};
use super::refusal::{RATE_LIMIT, refusal};
use crate::middleware::acquire_setter::AcquireSetter;
use crate::permit::acquire::Acquire;
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

/// Lets as many requests into a service as the limits of a [`Resource`] allow; refuses the rest.
///
/// A request is charged before the service receives it, and stays charged whatever the response is.
/// In limits of calls in flight it counts until the response's head is there. The layer does not
/// report the response to the scheduler: a 429 of the service says nothing about these limits.
///
/// | answer | when | |
/// |---|---|---|
/// | 429 | the request would have to wait (longer than it may), or a quota is spent | `Retry-After` in whole seconds, at least 1, where it is known when to come back; `RateLimit` with the limit in the way |
/// | 503 | no scheduler answers, or it says `unavailable`, `no_limit`, `queue_full` or `too_many_keys` | `Retry-After` where it is known |
/// | 422 | the cost exceeds what a limit can ever hold | |
/// | 400 | the request for a permit is invalid, such as one with a label of more than 256 characters | |
/// | 500 | what [`asking`](ServerLayer::asking) sets is not configured, such as a class | |
///
/// A response to an admitted request has a `RateLimit` header with what is left, unless the service sets it itself.
///
/// The responses in the table have no body. An outer layer that writes one finds the [`Error`](crate::Error)
/// in the extensions, as an `Arc<Error>`. A request whose caller disconnects leaves the queue.
///
/// **By default the layer notices late that no scheduler answers**: after five seconds, or after
/// the longest wait. A client with [`Unreachable::Fail`](crate::policy::Unreachable::Fail) notices
/// sooner, and one with [`Unreachable::SafeRate`](crate::policy::Unreachable::SafeRate) goes on.
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
pub struct ServerLayer(Admission);

/// A service behind a [`ServerLayer`], with the inner one's errors, which is ready before a permit is requested.
#[derive(Clone, Debug)]
pub struct ServerService<S> {
    inner: S,
    admission: Admission,
}

#[derive(Clone, Debug)]
struct Admission {
    resource: Resource,
    setter: AcquireSetter<Parts>,
    longest_wait: Option<Duration>,
    policies: Option<HeaderValue>,
}

impl ServerLayer {
    /// Creates a layer in which each request costs one request and is admitted at once or refused.
    #[must_use]
    pub fn new(resource: Resource) -> Self {
        ServerLayer(Admission { resource, setter: AcquireSetter::USUAL, longest_wait: None, policies: None })
    }

    /// Sets class, labels, [cost](Acquire::cost) and deadline of the permit from the head. If a label keys a limit,
    /// each value has a bucket: a path with an id makes one for each id.
    #[must_use]
    pub fn asking(self, set: impl Fn(Acquire, &Parts) -> Acquire + Send + Sync + 'static) -> Self {
        ServerLayer(Admission { setter: AcquireSetter::new(set), ..self.0 })
    }

    /// Sets the longest wait. Short bursts are delayed, and longer waits refused at once.
    #[must_use]
    pub fn wait(self, longest: Duration) -> Self {
        ServerLayer(Admission { longest_wait: Some(longest), ..self.0 })
    }

    /// Sets the `RateLimit-Policy` of responses in which the service sets none itself.
    #[must_use]
    pub fn policies(self, policies: impl IntoIterator<Item = Policy>) -> Self {
        ServerLayer(Admission { policies: policy::field(policies), ..self.0 })
    }
}

impl<S> Layer<S> for ServerLayer {
    type Service = ServerService<S>;

    fn layer(&self, inner: S) -> ServerService<S> {
        ServerService { inner, admission: self.0.clone() }
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
        // This clone is ready and takes the request; a new clone may not be ready.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        Box::pin(self.admission.clone().serve(ready, request))
    }
}

impl Admission {
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
                tracing::debug!(resource = self.resource.name(), %error, "a request was not admitted");
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
        self.setter.set(acquire.with_left(), head)
    }
}
