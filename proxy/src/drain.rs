//! The end of a proxy.

use std::time::Duration;
use tokio::sync::watch;

/// How long answers may take to leave behind the time for draining.
pub(crate) const LEAVE: Duration = Duration::from_secs(5);

/// What every request and connection sees of the end.
#[derive(Clone, Debug)]
pub(crate) struct Drain(watch::Receiver<Phase>);

/// How far the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// There is none.
    Serving,
    /// No new request is taken; those that are held go on waiting.
    Draining,
    /// What is held is refused.
    Over,
}

impl Drain {
    /// The proxy runs. The sender tells when it is to end.
    pub(crate) fn new() -> (watch::Sender<Phase>, Self) {
        let (sender, receiver) = watch::channel(Phase::Serving);
        (sender, Drain(receiver))
    }

    /// Returns when no new request is taken any more.
    pub(crate) async fn has_begun(&self) {
        self.reached(Phase::Draining).await;
    }

    /// Returns when nothing is held any more.
    pub(crate) async fn is_over(&self) {
        self.reached(Phase::Over).await;
    }

    async fn reached(&self, phase: Phase) {
        // Without a sender the process ends anyway.
        self.0.clone().wait_for(|now| *now >= phase).await.map(drop).ok();
    }
}
