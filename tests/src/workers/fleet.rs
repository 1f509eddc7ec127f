//! Many workers of the SDK, as in real processes: several connections, many tasks on each.

use crate::api::Api;
use rampmeter_nats_server::Server;
use rampmeter_worker_sdk::error::RunError;
use rampmeter_worker_sdk::{Client, Cost, Resource};
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// Tasks that share one connection, as in one process.
const WORKERS_PER_CONNECTION: usize = 50;

/// The work of every worker of a fleet.
#[derive(Clone, Debug)]
pub struct Job {
    /// The resource of the permits.
    pub resource: &'static str,
    /// The API that they call.
    pub api: Api,
    /// The cost of a call beside one request.
    pub cost: BTreeMap<&'static str, f64>,
}

/// Running workers. Dropping it stops them where they are.
#[derive(Debug)]
pub struct Fleet {
    workers: JoinSet<()>,
    clients: Vec<Client>,
}

impl Fleet {
    /// Starts `workers`, each of which makes `calls` calls.
    pub async fn start(nats: &Server, workers: usize, calls: usize, job: &Job) -> Self {
        let mut fleet = Fleet { workers: JoinSet::new(), clients: Vec::new() };
        for connection in 0..workers.div_ceil(WORKERS_PER_CONNECTION) {
            let client = Client::connect(nats.url()).await.unwrap();
            let resource = client.resource(job.resource).unwrap();
            fleet.clients.push(client);
            for _ in connection * WORKERS_PER_CONNECTION..workers.min((connection + 1) * WORKERS_PER_CONNECTION) {
                fleet.workers.spawn(work(resource.clone(), job.clone(), calls));
            }
        }
        fleet
    }

    /// Waits until all calls are made.
    pub async fn finish(&mut self) {
        while let Some(worker) = self.workers.join_next().await {
            worker.expect("no worker sees an error");
        }
    }
}

async fn work(resource: Resource, job: Job, calls: usize) {
    for _ in 0..calls {
        // Faults of the test may last for many repeats.
        let outcome = resource.acquire(cost(&job)).repeats(u32::MAX).run(|| job.api.call(&job.cost)).await;
        match outcome {
            Ok(outcome) => assert!(outcome.is_success(), "{outcome:?}"),
            Err(RunError::Permit(error)) => panic!("{error}"),
            Err(RunError::Call(error)) => panic!("{error}"),
        }
    }
}

fn cost(job: &Job) -> Cost {
    job.cost.iter().fold(Cost::requests(1), |cost, (unit, amount)| cost.and(unit, *amount))
}
