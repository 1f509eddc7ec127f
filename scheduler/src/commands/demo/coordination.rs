//! NATS and the scheduler of the second phase.

use super::scenario;
use super::worker::Manner;
use crate::running::{self, Running};
use anyhow::Context;
use rampmeter_nats_server::{Binary, Options, Server};
use rampmeter_worker_sdk::Client;
use std::time::Duration;

/// The longest wait for the scheduler. It leads within a second; the bound is for a machine under
/// full load.
const READY: Duration = Duration::from_secs(20);
/// The number of connections that the workers share, as if they ran in this many processes.
const PROCESSES: usize = 8;

/// A private nats-server and a scheduler on it. Both end when this is dropped.
pub(super) struct Coordination {
    scheduler: Running,
    server: Server,
}

/// The workers' connections.
pub(super) struct Processes(Vec<Client>);

impl Coordination {
    /// Returns once the scheduler grants permits.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let binary = Binary::find().await?;
        // Ctrl-C ends the demo, which then stops the server itself.
        let options = Options { outlives_interrupt: true, ..Options::default() };
        let server = Server::start(&binary, options).await?;
        let scheduler = running::start(scenario::configuration(server.url())?).await?;
        tokio::time::timeout(READY, scheduler.ready()).await.context("the demo's scheduler did not get ready")?;
        Ok(Coordination { scheduler, server })
    }

    /// The address of the scheduler's web page.
    pub(super) fn page(&self) -> Option<String> {
        self.scheduler.http().map(|address| format!("http://{address}/#/resource/{}", scenario::RESOURCE))
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
    /// One manner for each process; the workers of a process share its connection.
    pub(super) fn manners(&self) -> anyhow::Result<Vec<Manner>> {
        let manner = |client: &Client| Ok(Manner::WithPermits(client.resource(scenario::RESOURCE)?));
        self.0.iter().map(manner).collect()
    }

    /// Returns unused permits.
    pub(super) async fn close(self) {
        for client in self.0 {
            client.close().await;
        }
    }
}
