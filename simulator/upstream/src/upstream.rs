//! The running service.

use crate::{Admission, Config, Policy, Stats, http::service::Service};
use axum::serve::ListenerExt;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

/// Connections that may wait to be accepted: a fleet of thousands connects at once.
const BACKLOG: u32 = 4096;

/// How long a stop waits beyond the longest response time for callers that paused within a request.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A running service on the runtime that started it. Dropping the value stops it without waiting.
#[derive(Debug)]
pub struct Upstream {
    addr: SocketAddr,
    service: Arc<Service>,
    serving: JoinHandle<()>,
    running: oneshot::Sender<()>,
}

/// The service cannot listen on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {addr}")]
pub struct StartError {
    /// The requested address.
    pub addr: SocketAddr,
    /// The system's error.
    pub source: io::Error,
}

impl Upstream {
    /// Starts the service, its clock and its policies. It accepts calls when this returns.
    ///
    /// # Errors
    /// If the service cannot listen on the address.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let addr = config.listen;
        let (listener, addr) = listen(addr).map_err(|source| StartError { addr, source })?;
        let service = Arc::new(Service::new(&config));
        let (running, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(listener, Arc::clone(&service), stopped));
        Ok(Self { addr, service, serving, running })
    }

    /// Returns the address on which the service listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address as the start of a URL, such as `http://127.0.0.1:12345`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Returns all counts so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.service.stats()
    }

    /// Returns all decisions on well-formed calls, oldest first, if [`Config::keeps_admissions`].
    #[must_use]
    pub fn admissions(&self) -> Vec<Admission> {
        self.service.open().1.log.clone().unwrap_or_default()
    }

    /// Replaces the policies like [`Account::change`](crate::Account::change). Calls cost nothing of new units.
    pub fn change(&self, policies: Vec<Policy>) {
        let (now, mut ledger) = self.service.open();
        ledger.api.change(now, policies);
    }

    /// Stops accepting calls, and waits until those in progress have been answered, and a second
    /// longer for callers in the middle of a request.
    pub async fn stop(self) {
        let patience = self.service.response_time.longest().saturating_add(STOP_GRACE);
        drop(self.running);
        // The service has ended or the timeout has passed; neither needs a report.
        drop(tokio::time::timeout(patience, self.serving).await);
    }
}

/// Opens the socket by hand to set the backlog.
fn listen(addr: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    let listener = socket.listen(BACKLOG)?;
    let addr = listener.local_addr()?;
    Ok((listener, addr))
}

async fn serve(listener: TcpListener, service: Arc<Service>, stopped: oneshot::Receiver<()>) {
    let server = axum::serve(listener.tap_io(send_at_once), Service::routes().with_state(service));
    let until_stopped = server.with_graceful_shutdown(async { drop(stopped.await) });
    until_stopped.await.expect("accepting retries for ever and so never fails");
}

/// A small response must not wait for more data. A connection without this setting still works.
fn send_at_once(connection: &mut TcpStream) {
    drop(connection.set_nodelay(true));
}
