//! A layer around an HTTP client.

use crate::Resource;
use crate::error::RunError;
use crate::middleware::acquire_setter::AcquireSetter;
use crate::permit::acquire::Acquire;
use crate::permit::outcome::Reply;
use http::request::Parts;
use http::{Request, Response};
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Makes each call of a client at the start of a permit, and reports the response to the scheduler.
///
/// A call waits for its permit without a bound unless [`asking`](ClientLayer::asking) sets a
/// deadline. It is settled with status and headers when the response's head arrives. Dropping the
/// future cancels a waiting call at no cost. A call dropped later or failed counts as made.
///
/// A 429 is reported to the scheduler, so that all workers pause, and returned. The layer repeats
/// no request, whose body may be consumed; an outer layer that does gets a permit each time.
///
/// It fits any service of [`http::Request`]s, such as hyper-util's client; for reqwest see `reqwest-middleware`.
///
/// ```no_run
/// # async fn example<S>(hub: rampmeter_worker_sdk::Resource, client: S) -> Result<(), Box<dyn std::error::Error>>
/// # where
/// #     S: tower_service::Service<http::Request<String>, Response = http::Response<String>> + Clone + Send + 'static,
/// #     S::Error: std::error::Error,
/// #     S::Future: Send,
/// # {
/// use rampmeter_worker_sdk::middleware::tower::ClientLayer;
/// use std::future::poll_fn;
/// use tower_layer::Layer;
/// use tower_service::Service;
///
/// let mut client = ClientLayer::new(hub).asking(|acquire, _| acquire.class("bulk")).layer(client);
/// poll_fn(|cx| client.poll_ready(cx)).await?;
/// let answer = client.call(http::Request::get("http://127.0.0.1/tile").body(String::new())?).await?;
/// # drop(answer);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ClientLayer(Pacing);

/// A client behind a [`ClientLayer`]. Fails with [`RunError::Permit`] if it made no call, else [`RunError::Call`].
///
/// The inner client is made ready before a permit is requested, and stays ready during the wait. A
/// bound on calls in flight, such as tower's concurrency limit, belongs outside of this layer.
#[derive(Clone, Debug)]
pub struct ClientService<S> {
    inner: S,
    pacing: Pacing,
}

#[derive(Clone, Debug)]
struct Pacing {
    resource: Resource,
    setter: AcquireSetter<Parts>,
}

impl ClientLayer {
    /// Creates a layer in which each call costs one request.
    #[must_use]
    pub fn new(resource: Resource) -> Self {
        ClientLayer(Pacing { resource, setter: AcquireSetter::USUAL })
    }

    /// Sets class, labels, [cost](Acquire::cost) and deadline of the permit from the head.
    #[must_use]
    pub fn asking(self, set: impl Fn(Acquire, &Parts) -> Acquire + Send + Sync + 'static) -> Self {
        ClientLayer(Pacing { setter: AcquireSetter::new(set), ..self.0 })
    }
}

impl<S> Layer<S> for ClientLayer {
    type Service = ClientService<S>;

    fn layer(&self, inner: S) -> ClientService<S> {
        ClientService { inner, pacing: self.0.clone() }
    }
}

impl<S, B, C> Service<Request<B>> for ClientService<S>
where
    S: Service<Request<B>, Response = Response<C>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    C: 'static,
{
    type Response = Response<C>;
    type Error = RunError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<C>, RunError<S::Error>>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RunError<S::Error>>> {
        self.inner.poll_ready(cx).map_err(RunError::Call)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // This clone is ready and takes the request; a new clone may not be ready.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        Box::pin(self.pacing.clone().send(ready, request))
    }
}

impl Pacing {
    async fn send<S, B, C>(self, mut client: S, request: Request<B>) -> Result<Response<C>, RunError<S::Error>>
    where
        S: Service<Request<B>, Response = Response<C>>,
    {
        let (head, body) = request.into_parts();
        let spec = self.setter.set(self.resource.acquire(1), &head).into_spec()?;
        let call = spec.begin_call().await?;
        let response = client.call(Request::from_parts(head, body)).await.map_err(RunError::Call)?;
        call.settle(response.outcome());
        Ok(response)
    }
}
