//! Holds a lane lease: renews it at the server, and knows how long it is certainly held.

use crate::lane::lease::Replaced;
use crate::store::connection::Connection;
use async_nats::jetstream::AckKind;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often a lane lease is renewed within its duration.
const RENEWALS: u32 = 3;

/// A held lane lease. Dropping it ends the renewal, and the server gives it to another worker once it ends.
pub(crate) struct HeldLease {
    clock: Clock,
    until: watch::Receiver<Time>,
    renewal: JoinHandle<()>,
}

impl HeldLease {
    /// Confirms the delivery of a lane lease. `None` if the server does not answer.
    pub(crate) async fn take(connection: Connection, reply: String, lease: Duration) -> Option<Self> {
        let clock = Clock::start();
        // The server counts from the receipt of the confirmation, which is later.
        let first = clock.now() + Span::from(lease);
        connection.acknowledge(&reply, AckKind::Progress).await.then_some(())?;
        let (sender, until) = watch::channel(first);
        let renewal = tokio::spawn(async move {
            loop {
                tokio::time::sleep(lease / RENEWALS).await;
                let renewed_at = clock.now();
                if connection.acknowledge(&reply, AckKind::Progress).await {
                    sender.send_replace(renewed_at + Span::from(lease));
                }
            }
        });
        Some(HeldLease { clock, until, renewal })
    }

    /// Fails if another worker may have the lane lease.
    pub(crate) fn check(&self) -> Result<(), Replaced> {
        if self.clock.now() < *self.until.borrow() { Ok(()) } else { Err(Replaced) }
    }

    /// Runs `work` while the lane lease is held.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, Replaced> {
        let done = tokio::select! {
            biased;
            () = self.lost() => return Err(Replaced),
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

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}
