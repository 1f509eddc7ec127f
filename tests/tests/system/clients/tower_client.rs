//! The layer for clients, around hyper-util's.

use super::HUB;
use crate::prelude::*;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rampmeter_worker_sdk::error::RunError;
use rampmeter_worker_sdk::middleware::tower::{ClientLayer, ClientService, ServerLayer};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use tower::{Layer, Service, ServiceExt};

type Body = Empty<bytes::Bytes>;
type Http = ClientService<legacy::Client<HttpConnector, Body>>;

async fn layer(nats: &Server) -> ClientLayer {
    ClientLayer::new(Client::connect(nats.url()).await.unwrap().resource("hub").unwrap())
}

fn client(layer: &ClientLayer) -> Http {
    layer.layer(legacy::Client::builder(TokioExecutor::new()).build_http())
}

/// The status of one call.
async fn call(http: &Http, url: &str) -> Result<u16, RunError<legacy::Error>> {
    let request = Request::get(format!("{url}/process")).body(Body::new()).unwrap();
    let response = http.clone().oneshot(request).await?;
    let status = response.status().as_u16();
    // A connection is used again only if its answer was read to the end.
    response.into_body().collect().await.unwrap();
    Ok(status)
}

#[tokio::test]
async fn a_429_is_reported_to_the_scheduler_and_passed_on() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let spent = upstream(&["requests=1/1h;start=0"]).await;
    let http = client(&layer(&nats).await);
    assert_eq!(call(&http, &spent.url()).await.unwrap(), 429);
    let worker = Worker::connect(&nats, "hub").await;
    until("the 429 is counted", async || (worker.status().await.counters.upstream_429 == 1).then_some(())).await;
    until("everybody pauses", async || (worker.limit("per-second").await.frozen_ms > 0.0).then_some(())).await;
}

#[tokio::test]
async fn without_a_permit_nothing_is_called_and_a_call_that_fails_counts_as_made() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let upstream = upstream(&["requests=100/1s"]).await;
    let (url, layer) = (upstream.url(), layer(&nats).await);
    let never = layer.clone().asking(|acquire, _| acquire.cost(101).deadline(Duration::from_secs(20)));
    let RunError::Permit(error) = call(&client(&never), &url).await.unwrap_err() else { panic!("it was called") };
    assert_eq!(error.kind(), ErrorKind::Refused(Code::NeverFits));
    assert_eq!(upstream.stats().total.ok, 0);

    upstream.stop().await;
    let error = call(&client(&layer), &url).await.unwrap_err();
    assert!(matches!(error, RunError::Call(_)), "{error}");
    let worker = Worker::connect(&nats, "hub").await;
    until("it counts as made", async || {
        let counters = worker.status().await.counters;
        ((counters.settled, counters.returned) == (1, 0)).then_some(())
    })
    .await;
}

/// A service that may be called only once each time it is ready, as a service that reserves a
/// place.
#[derive(Debug, Default)]
struct Picky {
    ready: bool,
}

impl Clone for Picky {
    fn clone(&self) -> Self {
        Picky::default()
    }
}

impl Service<Request<()>> for Picky {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        ready(Ok(Response::new(())))
    }
}

#[tokio::test]
async fn the_service_inside_is_called_when_it_is_ready() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let hub = Client::connect(nats.url()).await.unwrap().resource("hub").unwrap();
    let mut client = ClientLayer::new(hub.clone()).layer(Picky::default());
    let mut server = ServerLayer::new(hub).layer(Picky::default());
    for _ in 0..2 {
        assert_eq!(client.ready().await.unwrap().call(Request::new(())).await.unwrap().status(), 200);
        assert_eq!(server.ready().await.unwrap().call(Request::new(())).await.unwrap().status(), 200);
    }
}
