//! The thread on which all permit loops run, with a connection of its own, so that neither KV nor
//! HTTP delays an answer.

use super::permit_loop::{Parts, PermitLoop};
use crate::connection::round_trip;
use anyhow::Context;
use async_nats::Client;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

/// A handle on the thread; it ends when the handle and all its clones are dropped and every loop
/// has ended.
#[derive(Clone, Debug)]
pub struct PermitThread {
    loops: mpsc::UnboundedSender<NewLoop>,
}

struct NewLoop {
    parts: Parts,
    started: oneshot::Sender<Running>,
}

/// A loop that has subscribed. Resolves when it has ended.
pub type Running = oneshot::Receiver<()>;

/// Resolves when the thread has ended, and its connection with it.
pub type Ended = oneshot::Receiver<()>;

impl PermitThread {
    /// Starts the thread. `connect` is run on it.
    ///
    /// # Errors
    /// If the system gives no thread, or the connection fails.
    pub async fn start<F>(connect: F) -> anyhow::Result<(Self, Ended)>
    where
        F: Future<Output = anyhow::Result<Client>> + Send + 'static,
    {
        let (loops, new_loops) = mpsc::unbounded_channel();
        let (connected, outcome) = oneshot::channel();
        let (alive, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("permits".to_owned());
        thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime.context("no runtime for the permit thread") {
                Ok(runtime) => LocalSet::new().block_on(&runtime, serve_loops(connect, connected, new_loops)),
                Err(error) => drop(connected.send(Err(error))),
            }
            drop(alive);
        })?;
        outcome.await.context("the permit thread has ended")??;
        Ok((PermitThread { loops }, ended))
    }

    /// Runs a loop, and returns when it has subscribed.
    ///
    /// # Errors
    /// If the connection is closed for good.
    pub async fn run(&self, parts: Parts) -> anyhow::Result<Running> {
        let (started, running) = oneshot::channel();
        self.loops.send(NewLoop { parts, started }).ok().context("the permit thread has ended")?;
        running.await.context("the permit loop could not subscribe")
    }
}

async fn serve_loops<F>(
    connect: F,
    connected: oneshot::Sender<anyhow::Result<()>>,
    mut new_loops: mpsc::UnboundedReceiver<NewLoop>,
) where
    F: Future<Output = anyhow::Result<Client>>,
{
    let client = match connect.await {
        Ok(client) => client,
        Err(error) => return drop(connected.send(Err(error))),
    };
    connected.send(Ok(())).ok();
    let mut running = tokio::task::JoinSet::new();
    while let Some(NewLoop { parts, started }) = new_loops.recv().await {
        match subscribe(&client, parts).await {
            Ok(permit_loop) => {
                let (ended, end) = oneshot::channel();
                running.spawn_local(async move {
                    permit_loop.run().await;
                    ended.send(()).ok();
                });
                started.send(end).ok();
            }
            Err(error) => tracing::error!(%error, "a permit loop could not subscribe"),
        }
    }
    running.join_all().await;
}

/// Subscribes, and makes sure that the server knows before anybody is told.
async fn subscribe(client: &Client, parts: Parts) -> anyhow::Result<PermitLoop> {
    let permit_loop = PermitLoop::subscribe(client.clone(), parts).await?;
    round_trip(client).await?;
    Ok(permit_loop)
}
