//! Holding a lane lease: the server is told that it is worked on, and the holder knows for how long it may believe so.

use crate::connection::Connection;
use async_nats::jetstream::AckKind;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often a lease is renewed while it lasts.
const RENEWALS: u32 = 3;

/// A lane lease in hand. It is let go of when this is dropped, and handed to another when the lease is over.
pub(crate) struct Hold {
    clock: Clock,
    until: watch::Receiver<Time>,
    renewal: JoinHandle<()>,
}

/// The lease is over: somebody else may have the lane lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

impl Hold {
    /// Confirms that a lane lease has come; none if the server does not hear of it.
    pub(crate) async fn take(connection: Connection, reply: String, lease: Duration) -> Option<Self> {
        let clock = Clock::start();
        // The server counts from when it hears of it, which is later.
        let first = clock.now() + Span::from(lease);
        connection.acknowledge(&reply, AckKind::Progress).await.then_some(())?;
        let (sender, until) = watch::channel(first);
        let renewal = tokio::spawn(async move {
            loop {
                tokio::time::sleep(lease / RENEWALS).await;
                let said = clock.now();
                if connection.acknowledge(&reply, AckKind::Progress).await {
                    sender.send_replace(said + Span::from(lease));
                }
            }
        });
        Some(Hold { clock, until, renewal })
    }

    /// Whether nobody else can have the lane lease yet.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        if self.clock.now() < *self.until.borrow() { Ok(()) } else { Err(Lost) }
    }

    /// Does something for as long as the lane lease is held.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let done = tokio::select! {
            biased;
            () = self.lost() => return Err(Lost),
            done = work => done,
        };
        self.check().map(|()| done)
    }

    async fn lost(&self) {
        while self.check().is_ok() {
            let until = *self.until.borrow();
            tokio::time::sleep_until(self.clock.instant(until).into()).await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}
