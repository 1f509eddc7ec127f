//! The running proxy.

use crate::exchange::Exchange;
use crate::headers::Pseudonym;
use crate::listener::Listener;
use crate::metrics::Metrics;
use crate::pool::Pool;
use crate::pool::request_body::BodyMemory;
use crate::settings::Settings;
use crate::start_error::StartError;
use rampmeter_listener::BrowserGuard;
use rampmeter_listener::tls::{Certificate, HTTP_2_OR_1};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use rampmeter_worker_sdk::Resource;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SetOnce};
use tokio::task::JoinHandle;

/// How long responses may take to leave after the time for draining.
const LEAVE: Duration = Duration::from_secs(5);
/// Bodies priced at once. Each may take 0.1 s of a processor, and a hundred times its bytes.
const PRICING: usize = 2;

/// A running proxy. Dropping it ends it at once; [`stop`](Proxy::stop) lets held requests finish.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    /// Set once no new request is accepted.
    draining: Arc<SetOnce<()>>,
    /// Set once requests that are still held are refused.
    over: Arc<SetOnce<()>>,
    drain: Span,
    /// Ends when all connections have ended, after the drain has begun.
    serving: JoinHandle<()>,
}

impl Proxy {
    /// Serves on `listener`, with permits of `resource`.
    ///
    /// # Errors
    /// If a file cannot be used, or the system has no authorities for an encrypted upstream.
    pub fn start(listener: TcpListener, resource: Resource, settings: Settings) -> Result<Self, StartError> {
        let clock = Clock::start();
        let address = listener.local_addr().map_err(StartError::Listener)?;
        let metrics = Arc::new(Metrics::new());
        let (draining, over) = (Arc::<SetOnce<()>>::default(), Arc::<SetOnce<()>>::default());
        let (bounds, times, encryption) = (settings.bounds, settings.times, settings.encryption.clone());
        let certificate =
            encryption.certificate.map(|files| Certificate::read(files, HTTP_2_OR_1, clock)).transpose()?;
        let exchange = Exchange {
            guard: browser_guard(&settings),
            pool: Pool::new(times, &settings.upstream, encryption.upstream_ca.as_deref(), clock)?,
            settings,
            resource,
            metrics: metrics.clone(),
            pseudonym: Pseudonym::new(),
            memory: BodyMemory::new(bounds.replay_memory),
            held: Semaphore::new(bounds.held),
            in_flight: Arc::new(Semaphore::new(bounds.in_flight)),
            pricing: Semaphore::new(PRICING),
            prompts: Arc::default(),
            unpriced: Mutex::default(),
            over: over.clone(),
            clock,
        };
        let listening = Listener::new(exchange, certificate).serve(listener, draining.clone(), bounds.clients);
        Ok(Proxy { address, metrics, draining, over, drain: times.drain, serving: tokio::spawn(listening) })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its metrics.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }

    /// Accepts no more requests. Those held beyond the configured time get a 503 and give their permits back.
    pub async fn stop(mut self) {
        self.draining.set(()).ok();
        if tokio::time::timeout(self.drain.duration(), &mut self.serving).await.is_ok() {
            return;
        }
        self.over.set(()).ok();
        if tokio::time::timeout(LEAVE, &mut self.serving).await.is_err() {
            tracing::warn!(address = %self.address, "answers that were under way are cut off");
        }
    }
}

/// Refuses requests that other sites' web pages may have sent.
fn browser_guard(settings: &Settings) -> BrowserGuard {
    let known = settings.asking.routes.hosts().chain([settings.upstream.host()]).map(str::to_owned);
    let hosts = settings.pages.hosts.iter().cloned().chain(known);
    BrowserGuard::new(hosts, "[[proxy]]").with_origins(&settings.pages.origins)
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
