//! The bare echo: the cost of NATS and the client library alone.

use crate::thread::alone;
use futures::StreamExt;
use rampmeter_scheduler::config::NatsTable;
use rampmeter_scheduler::connection::connect;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The subject of the echo.
pub(crate) const SUBJECT: &str = "rampmeter-bench-echo";

/// A responder on a thread and a connection of its own, in a loop as tight as the scheduler's.
#[derive(Debug)]
pub(crate) struct Echo {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<anyhow::Result<()>>,
}

impl Echo {
    /// Starts the echo, and returns once it is subscribed.
    pub(crate) async fn start(url: &str) -> anyhow::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let url = url.to_owned();
        let ended = tokio::spawn(alone("echo", move || respond(url, ready, stopped)));
        is_ready.await.ok();
        Ok(Echo { stop, ended })
    }

    /// Stops the echo.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.stop.send(()).ok();
        self.ended.await?
    }
}

async fn respond(url: String, ready: oneshot::Sender<()>, mut stop: oneshot::Receiver<()>) -> anyhow::Result<()> {
    let client = connect(&NatsTable::at(&url), "echo").await?;
    let mut requests = client.subscribe(SUBJECT).await?;
    client.flush().await?;
    ready.send(()).ok();
    loop {
        tokio::select! {
            biased;
            request = requests.next() => {
                let Some(request) = request else { return Ok(()) };
                if let Some(reply) = request.reply {
                    client.publish(reply, request.payload).await?;
                }
            }
            _ = &mut stop => return Ok(()),
        }
    }
}
