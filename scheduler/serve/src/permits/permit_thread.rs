//! The threads on which permit loops run. Each has its own connection, so that neither KV nor HTTP delays
//! an answer. Resources share threads only if there are more resources than threads.

use crate::connection::round_trip;
use crate::permits::permit_loop::{Parts, PermitLoop};
use anyhow::Context;
use async_nats::Client;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};

/// A handle on the threads. They end when all handles are dropped and every loop has ended.
#[derive(Clone, Debug)]
pub struct PermitThreads {
    threads: Arc<[PermitThread]>,
}

#[derive(Debug)]
struct PermitThread {
    new_loops: mpsc::UnboundedSender<NewLoop>,
    loops: Arc<()>,
}

struct NewLoop {
    parts: Parts,
    started: oneshot::Sender<RunningLoop>,
    place: Arc<()>,
}

/// A loop that has subscribed. Resolves when the loop has ended.
pub type RunningLoop = oneshot::Receiver<()>;

/// Signals that threads, and with them their connections, have ended.
#[derive(Debug)]
pub struct Ended(pub(crate) FuturesUnordered<oneshot::Receiver<()>>);

impl Ended {
    /// Returns when another thread has ended, or all threads have.
    pub async fn any(&mut self) {
        self.0.next().await;
    }

    /// Returns when all threads have ended.
    pub async fn all(&mut self) {
        while self.0.next().await.is_some() {}
    }
}

impl PermitThreads {
    /// Starts `count` threads. Each runs on the connection that `connect` returns for its number.
    ///
    /// # Errors
    /// If the system can't start a thread, or a connection fails.
    pub async fn start<F>(count: usize, connect: impl Fn(usize) -> F) -> anyhow::Result<(Self, Ended)>
    where
        F: Future<Output = anyhow::Result<Client>> + Send + 'static,
    {
        let (mut threads, ends) = (Vec::with_capacity(count), FuturesUnordered::new());
        for number in 0..count {
            let (end, ended) = oneshot::channel();
            threads.push(PermitThread::start(number, connect(number), end).await?);
            ends.push(ended);
        }
        Ok((PermitThreads { threads: threads.into() }, Ended(ends)))
    }

    /// Runs a loop on the thread with the fewest loops, and returns when the loop has subscribed.
    ///
    /// # Errors
    /// If the connection is closed for good.
    pub async fn run(&self, parts: Parts) -> anyhow::Result<RunningLoop> {
        let PermitThread { new_loops, loops } = least_busy(&self.threads).context("there is no permit thread")?;
        let (started, running) = oneshot::channel();
        let place = Arc::clone(loops);
        new_loops.send(NewLoop { parts, started, place }).ok().context("the permit thread has ended")?;
        running.await.context("the permit loop could not subscribe")
    }
}

impl PermitThread {
    async fn start<F>(number: usize, connect: F, end: oneshot::Sender<()>) -> anyhow::Result<Self>
    where
        F: Future<Output = anyhow::Result<Client>> + Send + 'static,
    {
        let (new_loops, taken) = mpsc::unbounded_channel();
        let (connected, outcome) = oneshot::channel();
        std::thread::Builder::new().name(format!("permits-{number}")).spawn(move || {
            // Dropped however the thread ends.
            let _end = end;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime.context("no runtime for the permit thread") {
                Ok(runtime) => LocalSet::new().block_on(&runtime, serve_loops(connect, connected, taken)),
                Err(error) => drop(connected.send(Err(error))),
            }
        })?;
        outcome.await.context("the permit thread has ended")??;
        Ok(PermitThread { new_loops, loops: Arc::default() })
    }
}

fn least_busy(threads: &[PermitThread]) -> Option<&PermitThread> {
    threads.iter().min_by_key(|thread| Arc::strong_count(&thread.loops))
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
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            new_loop = new_loops.recv() => match new_loop {
                Some(new_loop) => start_loop(&client, &mut running, new_loop).await,
                None => break,
            },
            // The task that started the loop hears of its end through `RunningLoop`.
            Some(_ended) = running.join_next() => {}
        }
    }
    while running.join_next().await.is_some() {}
}

async fn start_loop(client: &Client, running: &mut JoinSet<()>, NewLoop { parts, started, place }: NewLoop) {
    match subscribe(client, parts).await {
        Ok(permit_loop) => {
            let (ended, end) = oneshot::channel();
            running.spawn_local(async move {
                let _place = place;
                permit_loop.run().await;
                ended.send(()).ok();
            });
            started.send(end).ok();
        }
        Err(error) => tracing::error!(%error, "a permit loop could not subscribe"),
    }
}

/// Subscribes, and returns once the server has processed the subscriptions.
async fn subscribe(client: &Client, parts: Parts) -> anyhow::Result<PermitLoop> {
    let permit_loop = PermitLoop::subscribe(client.clone(), parts).await?;
    round_trip(client).await?;
    Ok(permit_loop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_begins_on_the_thread_with_the_fewest() {
        let threads = [(); 3].map(|()| PermitThread { new_loops: mpsc::unbounded_channel().0, loops: Arc::default() });
        let take = || {
            let thread = least_busy(&threads).unwrap();
            let number = threads.iter().position(|other| Arc::ptr_eq(&other.loops, &thread.loops)).unwrap();
            (number, Arc::clone(&thread.loops))
        };
        let mut seats: Vec<_> = (0..4).map(|_| take()).collect();
        assert_eq!(seats.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 0]);
        seats.remove(2);
        assert_eq!(take().0, 2, "its loop has ended");
    }
}
