//! The workers of the demo, which make one call after the other, with or without permits.

use super::figures::Waits;
use super::scenario::{CLASSES, PROCESSING_UNITS, class_of};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_simulator::{rng::Rng, strategy::Strategy};
use rampmeter_worker_sdk::error::RunError;
use rampmeter_worker_sdk::{Cost, Resource};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Running workers, which return only if they fail. Dropping this ends them.
pub(super) type Workers = JoinSet<anyhow::Result<Infallible>>;

struct Worker {
    class: usize,
    /// Where it acquires permits. `None` if it calls without permits, and retries after a 429.
    resource: Option<Resource>,
    dice: Rng,
    /// A client of the upstream, with a shared connection pool. It ignores proxies of the environment.
    http: Client<HttpConnector, Empty<Bytes>>,
    url: String,
    clock: Clock,
    waits: Arc<Waits>,
}

/// Starts `count` workers at once that call `url`, and assigns `resources` to them in turn.
pub(super) fn start(count: u32, seed: u64, url: &str, resources: &[Option<Resource>], waits: &Arc<Waits>) -> Workers {
    let http = Client::builder(TokioExecutor::new()).build_http();
    let clock = Clock::start();
    let workers = (0..count).zip(resources.iter().cycle()).map(|(number, resource)| Worker {
        class: class_of(number),
        resource: resource.clone(),
        dice: Rng::new(seed.wrapping_add(u64::from(number))),
        http: http.clone(),
        url: url.to_owned(),
        clock,
        waits: waits.clone(),
    });
    workers.map(Worker::work).collect()
}

impl Worker {
    async fn work(mut self) -> anyhow::Result<Infallible> {
        loop {
            // The pause is random, so that workers do not synchronise.
            let mean = CLASSES[self.class].mean_pause;
            tokio::time::sleep(self.dice.between(Span::ZERO, mean + mean).duration()).await;
            let wanted = self.clock.now();
            match self.resource.clone() {
                None => self.call_until_ok(wanted).await?,
                Some(resource) => self.call_with_permit(&resource, wanted).await?,
            }
        }
    }

    async fn call_until_ok(&mut self, wanted: Time) -> anyhow::Result<()> {
        let mut attempts = 1;
        while self.call(wanted).await?.status() == StatusCode::TOO_MANY_REQUESTS {
            let pause = Strategy::BackOff.pause(attempts, None, &mut self.dice);
            tokio::time::sleep(pause.duration()).await;
            attempts += 1;
        }
        Ok(())
    }

    async fn call_with_permit(&self, resource: &Resource, wanted: Time) -> anyhow::Result<()> {
        let class = &CLASSES[self.class];
        let cost = Cost::requests(1).and(PROCESSING_UNITS, class.processing_units);
        let called = resource.acquire(cost).class(class.name).run(|| self.call(wanted)).await;
        called.map(drop).map_err(|error| match error {
            RunError::Permit(error) => error.into(),
            RunError::Call(error) => error,
        })
    }

    /// Makes a call wanted since `wanted`, and notes its wait. Fails if it does, or unless it gets 200 or 429.
    async fn call(&self, wanted: Time) -> anyhow::Result<Response<()>> {
        let url = format!("{}/process?{PROCESSING_UNITS}={}", self.url, CLASSES[self.class].processing_units);
        let sent = self.clock.now();
        let (head, body) = self.http.request(Request::get(url).body(Empty::new())?).await?.into_parts();
        // The client reuses a connection only after the answer was read to its end.
        body.collect().await?;
        match head.status {
            StatusCode::OK => self.waits.add(self.class, sent.since(wanted)),
            StatusCode::TOO_MANY_REQUESTS => {}
            status => anyhow::bail!("the upstream answered {status}"),
        }
        Ok(Response::from_parts(head, ()))
    }
}
