//! A tunnel that ends here: from the request for it to its encryption.

use super::{Host, Interceptor};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::TlsAcceptor;

/// A tunnel that was granted, and begins after the answer.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) host: Arc<Host>,
    begins: OnUpgrade,
}

/// The tunnel that a connection becomes, if it becomes one.
#[derive(Clone, Debug, Default)]
pub(crate) struct TunnelSlot {
    /// The lock is held to put the tunnel in, or to take it out.
    tunnel: Arc<Mutex<Option<Tunnel>>>,
}

impl Tunnel {
    /// The tunnel to `host` that `begins` after the answer to its request.
    pub(crate) fn new(host: Arc<Host>, begins: OnUpgrade) -> Self {
        Tunnel { host, begins }
    }

    /// The client's connection, and the acceptor for its encryption; `None` if the client is gone.
    pub(crate) async fn begin(self, interceptor: &Interceptor) -> Option<(TokioIo<Upgraded>, TlsAcceptor)> {
        let acceptor = interceptor.acceptor(&self.host).await?;
        Some((TokioIo::new(self.begins.await.ok()?), acceptor))
    }
}

impl TunnelSlot {
    pub(crate) fn put(&self, tunnel: Option<Tunnel>) {
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = tunnel;
    }

    pub(crate) fn take(&self) -> Option<Tunnel> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
