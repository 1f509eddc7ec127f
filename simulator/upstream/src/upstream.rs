//! A running service.

use crate::{Admission, Config, Endpoint, Fault, Policy, Stats, customer_api, service::Service};
use axum::serve::ListenerExt;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

/// Connections that may wait to be accepted: a fleet of thousands connects at once.
const BACKLOG: u32 = 4096;

/// How long a stop waits beyond the longest response time, for callers that stopped in the middle
/// of a request.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A running service, for as long as the value lives: dropping it stops the service too, without
/// waiting.
///
/// It runs on the runtime that started it.
///
/// ```
/// use rampmeter_upstream::{Config, Upstream};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let upstream = Upstream::start(Config::new(vec!["requests=1/PT1H".parse()?])).await?;
/// let call = || reqwest::get(format!("{}/process", upstream.url()));
/// assert_eq!(call().await?.status(), 200);
/// assert_eq!(call().await?.status(), 429);
/// assert_eq!(upstream.stats().total.rate_limited, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Upstream {
    addr: SocketAddr,
    service: Arc<Service>,
    serving: JoinHandle<()>,
    /// The service runs until this is dropped.
    running: oneshot::Sender<()>,
}

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {addr}")]
pub struct StartError {
    /// The address that was asked for.
    pub addr: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

impl Upstream {
    /// Starts the service; it accepts calls when this returns. Its clock and its policies start
    /// now.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let addr = config.listen;
        let (listener, addr) = listen(addr).map_err(|source| StartError { addr, source })?;
        let service = Arc::new(Service::new(&config));
        let (running, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(listener, Arc::clone(&service), stopped));
        Ok(Self { addr, service, serving, running })
    }

    /// Where the service listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The same as the start of a URL, `http://127.0.0.1:12345`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Everything counted so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.service.stats()
    }

    /// The latest decisions, oldest first, as many as [`Config::keep_admissions`] allows. The log
    /// is complete when it is shorter than that. Malformed calls are not in it.
    #[must_use]
    pub fn admissions(&self) -> Vec<Admission> {
        self.service.admissions()
    }

    /// Has these policies from now on, as [`Account::change`](crate::Account::change) says. Units
    /// that the first ones did not have cost nothing, as no call states them. What the portal tells
    /// of the contract follows.
    pub fn change(&self, policies: Vec<Policy>) {
        self.service.change(policies);
    }

    /// Breaks an endpoint from now on, or mends it.
    pub fn set_fault(&self, endpoint: Endpoint, fault: Option<Fault>) {
        let faults = &mut self.service.portal.state().faults;
        match fault {
            Some(fault) => faults.insert(endpoint, fault),
            None => faults.remove(&endpoint),
        };
    }

    /// How often an endpoint was asked, whatever it answered.
    #[must_use]
    pub fn asked(&self, endpoint: Endpoint) -> u64 {
        self.service.portal.state().asked.get(&endpoint).copied().unwrap_or(0)
    }

    /// All access tokens that were issued, in their order.
    #[must_use]
    pub fn tokens(&self) -> Vec<String> {
        self.service.portal.state().tokens.clone()
    }

    /// From now on no token is good that was issued until now.
    pub fn revoke_tokens(&self) {
        self.service.portal.state().revoke();
    }

    /// Stops: no call is accepted any more, and those under way are answered. Waits for them, and a
    /// second longer for callers that are still in the middle of a request.
    pub async fn stop(self) {
        let patience = self.service.longest_response().saturating_add(STOP_GRACE);
        drop(self.running);
        // Out of patience or served to the end: either way there is nobody left to tell.
        drop(tokio::time::timeout(patience, self.serving).await);
    }
}

/// Opened by hand for the sake of the backlog.
fn listen(addr: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    let listener = socket.listen(BACKLOG)?;
    let addr = listener.local_addr()?;
    Ok((listener, addr))
}

async fn serve(listener: TcpListener, service: Arc<Service>, stopped: oneshot::Receiver<()>) {
    let server =
        axum::serve(listener.tap_io(send_at_once), Service::routes().merge(customer_api::routes()).with_state(service));
    let until_stopped = server.with_graceful_shutdown(async { drop(stopped.await) });
    until_stopped.await.expect("accepting retries for ever and so never fails");
}

/// Small answers must not wait for company; a connection without that setting still works.
fn send_at_once(connection: &mut TcpStream) {
    drop(connection.set_nodelay(true));
}
