//! A worker of the demo.

use super::api::{Answer, Api};
use super::backoff::Backoff;
use super::class::Class;
use super::scenario::PROCESSING_UNITS;
use super::waits::Waits;
use rampmeter_protocol::clock::Clock;
use rampmeter_worker_sdk::error::RunError;
use rampmeter_worker_sdk::{Cost, Resource};
use rand::RngExt;
use rand::rngs::StdRng;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How a worker makes its calls.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// The worker calls, and tries again after a 429.
    Alone,
    /// The worker acquires a permit first.
    WithPermits(Resource),
}

/// Makes one call after the other, without end.
pub(super) struct Worker {
    pub(super) class: Class,
    pub(super) manner: Manner,
    pub(super) api: Api,
    pub(super) waits: Arc<Waits>,
    pub(super) clock: Clock,
    pub(super) dice: StdRng,
}

impl Worker {
    pub(super) async fn work(mut self) -> anyhow::Result<Infallible> {
        loop {
            tokio::time::sleep(self.pause()).await;
            let wanted = self.clock.now();
            let answer = match self.manner.clone() {
                Manner::Alone => self.try_until_ok().await?,
                Manner::WithPermits(resource) => self.call_with_permit(&resource).await?,
            };
            self.waits.add(self.class, answer.sent.since(wanted));
        }
    }

    /// A uniformly random pause, so that workers do not synchronise.
    fn pause(&mut self) -> Duration {
        self.class.mean_pause().mul_f64(self.dice.random_range(0.0..2.0))
    }

    async fn try_until_ok(&mut self) -> anyhow::Result<Answer> {
        let mut backoff = Backoff::default();
        loop {
            let answer = self.api.call(self.class).await?;
            let Some(retry_after) = answer.retry_after() else { return Ok(answer) };
            tokio::time::sleep(backoff.after(retry_after, self.dice.random())).await;
        }
    }

    async fn call_with_permit(&self, resource: &Resource) -> anyhow::Result<Answer> {
        let cost = Cost::requests(1).and(PROCESSING_UNITS, self.class.processing_units());
        let asked = resource.acquire(cost).class(self.class.name());
        asked.run(|| self.api.call(self.class)).await.map_err(|error| match error {
            RunError::Permit(error) => error.into(),
            RunError::Call(error) => error,
        })
    }
}
