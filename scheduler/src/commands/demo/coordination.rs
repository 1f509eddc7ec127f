//! What the second phase has and the first has not: NATS and a scheduler.

use super::scenario;
use super::worker::Manner;
use crate::serve;
use anyhow::Context;
use rampmeter_nats_server::{Binary, Options, Server};
use rampmeter_worker_sdk::Client;
use std::time::Duration;

/// A scheduler leads within a second; this is for a machine under full load.
const READY: Duration = Duration::from_secs(20);
/// Connections that the workers share, as if they ran in so many processes.
const PROCESSES: usize = 8;

/// A private nats-server and a scheduler on it, both gone when this is dropped.
pub(super) struct Coordination {
    scheduler: serve::Running,
    server: Server,
}

/// The workers' connections.
pub(super) struct Processes(Vec<Client>);

impl Coordination {
    /// Returns when permits are to be had.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let binary = Binary::find().await?;
        // Ctrl-C is for the demo, which stops the server itself.
        let options = Options { outlives_interrupt: true, ..Options::default() };
        let server = Server::start(&binary, options).await?;
        let scheduler = serve::start(scenario::configuration(server.url())?).await?;
        tokio::time::timeout(READY, scheduler.ready()).await.context("the demo's scheduler did not get ready")?;
        Ok(Coordination { scheduler, server })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Processes> {
        let mut clients = Vec::with_capacity(PROCESSES);
        for _ in 0..PROCESSES {
            clients.push(Client::connect(self.server.url()).await?);
        }
        Ok(Processes(clients))
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.scheduler.stop().await?;
        Ok(self.server.stop().await?)
    }
}

impl Processes {
    /// How workers of each process call.
    pub(super) fn manners(&self) -> anyhow::Result<Vec<Manner>> {
        let manner = |client: &Client| Ok(Manner::WithPermits(client.resource(scenario::RESOURCE)?));
        self.0.iter().map(manner).collect()
    }

    /// Gives back what is unused.
    pub(super) async fn close(self) {
        for client in self.0 {
            client.close().await;
        }
    }
}
