//! The connection of a worker.

pub use crate::builder::ClientBuilder;
pub use crate::connection::stats::Stats;
pub use async_nats::ConnectOptions;
pub use rampmeter_protocol::token::AccessToken;

use crate::connection::link::{Link, Message};
use crate::policy::named;
use crate::{Error, Resource};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A connection to the schedulers, for all resources and tasks of a process, cheap to clone. Requests of many tasks
/// travel together. It ends when the last clone, resource, permit and call is dropped, after sending outstanding
/// settles if the runtime lives that long; [`Client::close`] waits for that.
#[derive(Clone, Debug)]
pub struct Client(Arc<Link>);

impl Client {
    pub(crate) fn new(link: Link) -> Self {
        Client(Arc::new(link))
    }

    /// Connects with default options; [`Client::builder`] sets a name, credentials and more.
    ///
    /// # Errors
    /// If no server answers at `url` or it refuses.
    pub async fn connect(url: impl AsRef<str>) -> Result<Client, Error> {
        Client::builder().connect(url).await
    }

    /// Returns a builder with default options.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Returns the resource with this name, without checking that a scheduler serves it.
    ///
    /// # Errors
    /// If `name` is not 1 to 64 characters of `[A-Za-z0-9_-]`.
    pub fn resource(&self, name: &str) -> Result<Resource, Error> {
        Ok(Resource::new(self.0.clone(), named(name)?))
    }

    /// Returns the totals so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.counters.read()
    }

    /// Ends all waits with [`ErrorKind::Closed`](crate::error::ErrorKind::Closed) and sends
    /// outstanding settles. Calls in flight may still be settled afterwards; new requests fail.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.0.send(Message::Close { done: Some(done) });
        // An error means that the driver has already ended.
        closed.await.ok();
    }
}
