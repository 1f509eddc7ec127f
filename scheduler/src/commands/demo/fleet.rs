//! The workers of a phase.

use super::Options;
use super::api::Api;
use super::class::Class;
use super::waits::Waits;
use super::worker::{Manner, Worker};
use rampmeter_protocol::clock::Clock;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Running workers. They end when this is dropped.
pub(super) struct Fleet(JoinSet<anyhow::Result<Infallible>>);

impl Fleet {
    /// Starts all workers at once, and assigns `manners` to them in turn.
    pub(super) fn start(options: Options, url: &str, manners: &[Manner], waits: &Arc<Waits>) -> Self {
        let clock = Clock::start();
        let api = Api::new(url, clock);
        let workers = (0..options.workers).zip(manners.iter().cycle()).map(|(number, manner)| Worker {
            class: Class::of_worker(number),
            manner: manner.clone(),
            api: api.clone(),
            waits: waits.clone(),
            clock,
            dice: StdRng::seed_from_u64(options.seed.wrapping_add(u64::from(number))),
        });
        Fleet(workers.map(Worker::work).collect())
    }

    /// Returns the error of the first worker that fails. Never returns otherwise.
    pub(super) async fn failed(&mut self) -> anyhow::Error {
        match self.0.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(panicked)) => panicked.into(),
            Some(Ok(Ok(never))) => match never {},
            None => std::future::pending().await,
        }
    }

    /// Aborts all workers.
    pub(super) async fn stop(mut self) {
        self.0.shutdown().await;
    }
}
