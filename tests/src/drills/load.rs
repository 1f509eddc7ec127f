//! Workers that offer more than the limits allow, and record what was promised.

use crate::api::Api;
use crate::judge::{Call, Cost, MICROS};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Time;
use rampmeter_worker_sdk::{self as sdk, Client, Outcome, Permit, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// Workers that share a connection, as in one process.
const WORKERS_PER_CONNECTION: usize = 10;
/// Processing units of successive calls, two and a half on average. A limit on requests and one of
/// two and a half times as many units then bind in turn.
const UNITS: [u32; 4] = [1, 4, 2, 3];
const PROCESSING_UNITS: &str = "processing-units";
const THROTTLED: u16 = 429;

/// The parameters of a load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The URL of NATS.
    pub nats_url: String,
    /// The URL of NATS for workers, which may be a proxy.
    pub workers_url: String,
    /// The first token of all subjects.
    pub prefix: &'static str,
    /// The period of the resource.
    pub period: Duration,
    /// The number of workers. Every other one asks in mode `wait`, the rest in mode `reserve`.
    pub workers: usize,
    /// The calls per second that they want to make, all together.
    pub offered: f64,
    /// How many calls the first bursts take until the load is even.
    pub warm: usize,
}

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its permit.
    pub id: String,
    /// When it was promised to start, by the worker's clock: receipt plus delay.
    pub promised: Time,
    /// Its processing units; each is one request.
    units: u32,
}

/// Failures of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Calls that the upstream refused.
    pub throttled: usize,
    /// All other failures: no permit, no answer, another status.
    pub failed: Vec<String>,
}

/// Running workers. Dropping it stops them where they are.
pub struct Load {
    workers: JoinSet<()>,
    clients: Vec<Client>,
    book: Arc<Book>,
}

/// The state that all workers share.
struct Book {
    clock: Clock,
    api: Api,
    next_units: AtomicUsize,
    ends: AtomicBool,
    /// The lock guards both lists, for as long as it takes to add a line.
    written: Mutex<(Vec<Made>, Failures)>,
}

impl Load {
    /// Starts workers that call `api`.
    pub async fn start(plan: &Plan, api: Api, clock: Clock) -> Self {
        let written = Mutex::default();
        let book = Book { clock, api, next_units: AtomicUsize::new(0), ends: AtomicBool::new(false), written };
        let mut load = Load { workers: JoinSet::new(), clients: Vec::new(), book: Arc::new(book) };
        let pace = Duration::from_secs_f64(plan.workers as f64 / plan.offered);
        for number in 0..plan.workers {
            if number % WORKERS_PER_CONNECTION == 0 {
                load.clients.push(Client::builder().prefix(plan.prefix).connect(&plan.workers_url).await.unwrap());
            }
            let resource = load.clients.last().expect("the first worker connects").resource("hub").unwrap();
            let worker = LoadWorker { resource, reserves: number % 2 == 1, book: Arc::clone(&load.book) };
            load.workers.spawn(worker.run(pace));
        }
        load
    }

    /// How many calls have been made.
    pub fn made(&self) -> usize {
        self.book.written().0.len()
    }

    /// The permits of all calls.
    pub fn used(&self) -> BTreeSet<String> {
        self.book.written().0.iter().map(|made| made.id.clone()).collect()
    }

    /// All calls at their promised times.
    pub fn promised(&self) -> Vec<Call> {
        let call = |made: &Made| Call { at: made.promised.since(Clock::START).duration(), cost: cost(made.units) };
        self.book.written().0.iter().map(call).collect()
    }

    /// The failures so far.
    pub fn failures(&self) -> Failures {
        self.book.written().1.clone()
    }

    /// Lets every worker finish its call.
    pub async fn finish(&mut self) {
        self.book.ends.store(true, Ordering::Relaxed);
        while let Some(worker) = self.workers.join_next().await {
            worker.unwrap();
        }
        self.close().await;
    }

    /// Stops the workers where they are.
    pub async fn break_off(&mut self) {
        self.workers.shutdown().await;
        self.close().await;
    }

    async fn close(&self) {
        for client in &self.clients {
            client.close().await;
        }
    }
}

impl Book {
    fn written(&self) -> std::sync::MutexGuard<'_, (Vec<Made>, Failures)> {
        self.written.lock().expect("no holder of the lock panics")
    }

    fn fail(&self, why: &impl ToString) {
        self.written().1.failed.push(why.to_string());
    }
}

struct LoadWorker {
    resource: Resource,
    reserves: bool,
    book: Arc<Book>,
}

impl LoadWorker {
    /// A worker that was held up does not catch up, so the offered rate stays constant.
    async fn run(self, pace: Duration) {
        let mut turns = tokio::time::interval(pace);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.book.ends.load(Ordering::Relaxed) {
            turns.tick().await;
            let units = UNITS[self.book.next_units.fetch_add(1, Ordering::Relaxed) % UNITS.len()];
            match self.permit(units).await {
                Ok((permit, promised)) => self.call(permit, promised, units).await,
                Err(error) => self.book.fail(&error),
            }
        }
    }

    /// A permit whose start has come, and the time that was promised for it.
    async fn permit(&self, units: u32) -> Result<(Permit, Time), sdk::Error> {
        let cost = sdk::Cost::requests(1).and(PROCESSING_UNITS, units);
        if !self.reserves {
            let permit = self.resource.acquire(cost).await?;
            return Ok((permit, self.book.clock.now()));
        }
        let reserved = self.resource.reserve(cost).await?;
        let promised = self.book.clock.now() + reserved.delay().into();
        let id = reserved.id().to_owned();
        let ready = reserved.ready().await?;
        let is_the_same = ready.id() == id;
        Ok((ready, if is_the_same { promised } else { self.book.clock.now() }))
    }

    async fn call(&self, permit: Permit, promised: Time, units: u32) {
        self.book.written().0.push(Made { id: permit.id().to_owned(), promised, units });
        let call = permit.begin();
        match self.book.api.call(&BTreeMap::from([(PROCESSING_UNITS, f64::from(units))])).await {
            Ok(outcome) => {
                self.note(&outcome);
                call.settle(outcome);
            }
            Err(error) => self.book.fail(&error),
        }
    }

    fn note(&self, outcome: &Outcome) {
        if outcome.is_success() {
            return;
        }
        let mut written = self.book.written();
        match outcome.is_throttled() {
            true => written.1.throttled += 1,
            false => written.1.failed.push(format!("neither 200 nor {THROTTLED}: {outcome:?}")),
        }
    }
}

fn cost(units: u32) -> Cost {
    Cost::from([("requests".to_owned(), MICROS), (PROCESSING_UNITS.to_owned(), u64::from(units) * MICROS)])
}
