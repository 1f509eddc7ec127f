//! Giving a resource up that many wait for.

use crate::connection::round_trip;
use crate::serve::permits::permit_loop::PermitLoop;
use crate::store::Moment;
use futures::StreamExt;
use rampmeter_scheduler_core::durability::snapshot::Snapshot;
use rampmeter_scheduler_core::event::Event;

/// Answers that go out at once where there are many: a millisecond's work or two.
const SLICE: usize = 512;

/// The last word of a leader.
#[derive(Debug)]
pub struct Handover {
    /// The state.
    pub snapshot: Snapshot,
    /// The epoch in which it was.
    pub epoch: u64,
    /// When it was.
    pub moment: Moment,
    /// The edition of the rules under which it was.
    pub rules: u64,
}

impl PermitLoop {
    /// Sends everybody elsewhere who waits, slice by slice: between two of them the connection takes the answers up, and other loops
    /// of this thread go on.
    pub(crate) async fn send_elsewhere(&mut self) {
        let now = self.clock.now();
        self.core.handle(now, Event::HandOver);
        while let Some(first) = self.core.poll_command() {
            self.answer(now, first);
            for _ in 1..SLICE {
                let Some(command) = self.core.poll_command() else { break };
                self.answer(now, command);
            }
            self.publish().await;
            tokio::task::yield_now().await;
        }
    }

    /// Whoever waits is told to ask elsewhere, and so is whoever has asked until now. Only who was replaced leaves these to
    /// its successor, which has heard them too.
    pub(crate) async fn say_farewell(&mut self) -> anyhow::Result<()> {
        self.send_elsewhere().await;
        if self.handing_over {
            self.subscription.drain().await?;
            while let Some(message) = self.subscription.next().await {
                self.take(self.clock.now(), self.endpoints.inbound(message));
                self.publish().await;
            }
        }
        // Who has asked in this process asks elsewhere as soon as it is told.
        self.inbound.close();
        while let Ok(inbound) = self.inbound.try_recv() {
            self.take(self.clock.now(), inbound);
        }
        self.publish().await;
        round_trip(&self.client).await
    }
}
