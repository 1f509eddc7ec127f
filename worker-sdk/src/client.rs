//! A worker's connection.

pub use crate::builder::ClientBuilder;
pub use crate::connection::stats::Stats;
pub use async_nats::ConnectOptions;
pub use rampmeter_protocol::token::AccessToken;

use crate::connection::link::{Link, Message};
use crate::policy::named;
use crate::{Error, Resource};
use std::sync::Arc;
use tokio::sync::oneshot;

/// One connection to the schedulers, for all resources and tasks of a process. Cheap to clone.
///
/// One task does all its work, and requests of many tasks travel together. The connection ends when
/// the last clone, resource, permit and call is dropped. Before that it sends what is unsettled, if
/// the runtime lives that long. [`Client::close`] waits for it.
///
/// ```no_run
/// # async fn example() -> Result<(), rampmeter_worker_sdk::Error> {
/// use rampmeter_worker_sdk::Client;
/// let client = Client::connect("nats://127.0.0.1:4222").await?;
/// let call = client.resource("sentinel-hub")?.acquire(1).await?.begin();
/// // … the call …
/// drop(call);
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client(Arc<Link>);

impl Client {
    pub(crate) fn new(link: Link) -> Self {
        Client(Arc::new(link))
    }

    /// Connects with no options. See [`Client::builder`] for a name, credentials and more.
    ///
    /// # Errors
    /// At once, if there is no server at `url` or it refuses.
    pub async fn connect(url: impl AsRef<str>) -> Result<Client, Error> {
        Client::builder().connect(url).await
    }

    /// A client with options.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The resource with this name. A request for a permit shows whether a scheduler knows it.
    ///
    /// # Errors
    /// If `name` is not 1 to 64 characters of `[A-Za-z0-9_-]`.
    pub fn resource(&self, name: &str) -> Result<Resource, Error> {
        Ok(Resource::new(self.0.clone(), named(name)?))
    }

    /// The totals so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.counters.read()
    }

    /// Ends all waiting with [`ErrorKind::Closed`](crate::error::ErrorKind::Closed) and sends what
    /// is unsettled.
    ///
    /// Calls in flight may still be settled afterwards. New requests fail.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.0.send(Message::Close { done: Some(done) });
        // An error means that the driver has already ended.
        closed.await.ok();
    }
}
