//! The end of a proxy.

use std::time::Duration;
use tokio::sync::watch;

/// How long answers may take to leave after the time for draining.
pub(crate) const LEAVE: Duration = Duration::from_secs(5);

/// The end of the proxy, as every request and connection sees it.
#[derive(Clone, Debug)]
pub(crate) struct Drain(watch::Receiver<Phase>);

/// The phases of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// No end has begun.
    Serving,
    /// No new request is taken; those that are held go on waiting.
    Draining,
    /// Held requests are refused.
    Over,
}

impl Drain {
    /// A proxy that serves, and the sender that moves it to the next phase.
    pub(crate) fn new() -> (watch::Sender<Phase>, Self) {
        let (sender, receiver) = watch::channel(Phase::Serving);
        (sender, Drain(receiver))
    }

    /// Returns when no new request is taken any more.
    pub(crate) async fn has_begun(&self) {
        self.reached(Phase::Draining).await;
    }

    /// Returns when held requests are to be refused.
    pub(crate) async fn is_over(&self) {
        self.reached(Phase::Over).await;
    }

    async fn reached(&self, phase: Phase) {
        // Without a sender the process ends anyway.
        self.0.clone().wait_for(|now| *now >= phase).await.map(drop).ok();
    }
}
