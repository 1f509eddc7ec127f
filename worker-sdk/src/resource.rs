//! Resources: rate-limited APIs.

use crate::connection::link::{Link, Message, Opened};
use crate::error::RunError;
use crate::permit::acquire::Acquire;
use crate::permit::outcome::Reply;
use crate::{Cost, Error};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::token::AccessToken;
use rampmeter_worker_session::{Freezes, ResourceNumber};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// An API with its limits. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Resource(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    link: Arc<Link>,
    name: Name,
    opened: Opened,
}

impl Resource {
    pub(crate) fn new(link: Arc<Link>, name: Name) -> Self {
        let opened = link.open(&name);
        Resource(Arc::new(Inner { link, name, opened }))
    }

    /// Waits in the scheduler's queue and for the permit's start, from which to call at once. More urgent requests may
    /// overtake. Cancelling the wait costs nothing.
    pub fn acquire(&self, cost: impl Into<Cost>) -> Acquire {
        Acquire::new(self.clone(), Mode::Wait, cost.into())
    }

    /// Reserves a start, however far away, and returns at once; [`Permit::ready`](crate::Permit::ready) waits for it.
    ///
    /// ```no_run
    /// # async fn example(hub: rampmeter_worker_sdk::Resource) -> Result<(), rampmeter_worker_sdk::Error> {
    /// let permit = hub.reserve(1).await?;
    /// println!("starts in {:?}", permit.delay());
    /// let call = permit.ready().await?.begin();
    /// # drop(call);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reserve(&self, cost: impl Into<Cost>) -> Acquire {
        Acquire::new(self.clone(), Mode::Reserve, cost.into())
    }

    /// Returns a permit for now, or an error.
    ///
    /// ```no_run
    /// # async fn example(hub: rampmeter_worker_sdk::Resource) {
    /// match hub.try_acquire(1).await {
    ///     Ok(permit) => drop(permit.begin()),
    ///     Err(busy) => println!("not now; in {:?}", busy.retry_after()),
    /// }
    /// # }
    /// ```
    pub fn try_acquire(&self, cost: impl Into<Cost>) -> Acquire {
        Acquire::new(self.clone(), Mode::Allow, cost.into())
    }

    /// Gets a permit, calls, settles and repeats after a 429: [`Acquire::run`] without options.
    ///
    /// # Errors
    /// Those of [`Acquire::run`].
    pub async fn run<F, Fut, R, E>(&self, cost: impl Into<Cost>, call: F) -> Result<R, RunError<E>>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<R, E>>,
        R: Reply,
    {
        self.acquire(cost).run(call).await
    }

    /// Returns the upstream's access token, if the scheduler shares it and this NATS user may
    /// request it. Keep it for its `valid_ms`, and never log it; its `Debug` output hides it.
    ///
    /// # Errors
    /// If no scheduler answers, or it does not share a token or has none now.
    pub async fn access_token(&self) -> Result<AccessToken, Error> {
        let (answer, answered) = oneshot::channel();
        self.link().send(Message::Token { resource: self.wire_name().clone(), answer });
        answered.await.unwrap_or_else(|_| Err(Error::closed()))
    }

    /// Returns the resource's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn wire_name(&self) -> &Name {
        &self.0.name
    }

    pub(crate) fn link(&self) -> &Link {
        &self.0.link
    }

    pub(crate) fn number(&self) -> ResourceNumber {
        self.0.opened.number
    }

    pub(crate) fn freezes(&self) -> &watch::Receiver<Freezes> {
        &self.0.opened.freezes
    }
}
