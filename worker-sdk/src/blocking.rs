//! Permits for programs without an async runtime.
//!
//! ```no_run
//! use rampmeter_worker_sdk::{Outcome, blocking};
//! # fn fetch() -> Result<u16, std::io::Error> { Ok(200) }
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = blocking::Client::connect("nats://127.0.0.1:4222")?;
//! let api = client.resource("api")?;
//! // Permit, wait, call, settle, and all of it again after a 429.
//! let (_, status) = api.run(1, || fetch().map(|status| (Outcome::status(status), status)))?;
//! // The same by hand, with the options of a request.
//! let call = api.wait(api.acquire(1).class("bulk"))?.begin();
//! call.settle(Outcome::status(fetch()?));
//! # let _ = status;
//! # Ok(())
//! # }
//! ```
//!
//! As in async code, a dropped [`Permit`] is given back, and a dropped [`Call`](crate::Call) is settled as used.

use crate::call::Acquire;
use crate::error::{ErrorKind, RunError};
use crate::permit::outcome::Reply;
use crate::{Cost, Error, Permit};
use std::ops::Deref;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// A connection to the schedulers and the thread that drives it. Threads share its cheap clones. Tasks of an async
/// runtime use [`crate::Client`], and must not drop the last clone of this one.
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
    runtime: Arc<Runtime>,
}

/// A [resource](crate::Resource) for threads that wait for permits.
#[derive(Clone, Debug)]
pub struct Resource {
    inner: crate::Resource,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Connects with default options.
    ///
    /// # Errors
    /// If no server answers at `url` or it refuses, or the system cannot start a thread.
    pub fn connect(url: impl AsRef<str>) -> Result<Self, Error> {
        Client::build(crate::Client::builder(), url)
    }

    /// Connects with the options of `builder`, such as `rampmeter_worker_sdk::Client::builder().name("tiles")`.
    ///
    /// # Errors
    /// As [`Client::connect`], and if an option is invalid.
    pub fn build(builder: crate::client::ClientBuilder, url: impl AsRef<str>) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("rampmeter").enable_all().build();
        let runtime = runtime.map_err(|error| Error::new(ErrorKind::Closed, format!("no thread: {error}")))?;
        let inner = runtime.block_on(builder.connect(url))?;
        Ok(Client { inner, runtime: Arc::new(runtime) })
    }

    /// Returns the resource with this name.
    ///
    /// # Errors
    /// If `name` is not 1 to 64 characters of `[A-Za-z0-9_-]`.
    pub fn resource(&self, name: &str) -> Result<Resource, Error> {
        Ok(Resource { inner: self.inner.resource(name)?, runtime: Arc::clone(&self.runtime) })
    }

    /// Ends all waits and sends outstanding settles, as [`crate::Client::close`] does.
    pub fn close(&self) {
        self.runtime.block_on(self.inner.close());
    }
}

impl Resource {
    /// Waits for the permit that `acquire` requests and for its start.
    ///
    /// # Errors
    /// If there is no permit in time, or the scheduler refuses one.
    pub fn wait(&self, acquire: Acquire) -> Result<Permit, Error> {
        self.runtime.block_on(acquire.into_future())
    }

    /// Makes `call` with a permit, settles it with its outcome, and repeats both after a 429.
    ///
    /// # Errors
    /// The errors of [`Acquire::run`].
    pub fn run<R: Reply, E>(
        &self,
        cost: impl Into<Cost>,
        mut call: impl FnMut() -> Result<R, E>,
    ) -> Result<R, RunError<E>> {
        self.runtime.block_on(self.inner.run(cost, || std::future::ready(call())))
    }
}

/// Its requests are those of [`crate::Resource`]; [`Resource::wait`] waits for them.
impl Deref for Resource {
    type Target = crate::Resource;

    fn deref(&self) -> &crate::Resource {
        &self.inner
    }
}
