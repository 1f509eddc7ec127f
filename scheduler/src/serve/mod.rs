//! The running scheduler: one thread for permits, one for everything else.
//!
//! [`permit_loop`] answers requests, [`tenure`] decides who leads and keeps the state,
//! [`http`] and [`discovery`] show it to others.

pub mod discovery;
pub mod health;
pub mod http;
pub mod metrics;
pub mod permit_loop;
pub mod permit_thread;
pub mod reply;
pub mod tally;
pub mod tenure;

use crate::config::Config;
use crate::connection::connect;
use crate::store::Store;
use health::Health;
use http::Pages;
use permit_thread::PermitThread;
use rampmeter_protocol::subject::Subjects;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tenure::{Office, Tenure};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a graceful stop may take.
const DRAIN: Duration = Duration::from_secs(5);

/// A scheduler that runs. Dropping it ends it without a handover; [`stop`](Running::stop) hands over.
pub struct Running {
    stop: watch::Sender<bool>,
    tenures: JoinSet<()>,
    permits_ended: permit_thread::Ended,
    service: async_nats::service::Service,
    health: Arc<Health>,
    http: Option<SocketAddr>,
}

/// Starts serving everything in `config`.
///
/// # Errors
/// If NATS can't be reached or is too old, the KV bucket can't be made, or the HTTP address is taken.
pub async fn start(config: Config) -> anyhow::Result<Running> {
    let leader = process_name();
    let subjects = Subjects::new(&config.nats.prefix)?;
    let nats = config.nats.clone();
    let client = connect(&nats.url, nats.credentials_file.as_deref(), &leader).await?;
    let store = Store::open(&client, &nats.prefix, nats.replicas).await?;
    let thread_name = format!("{leader}-permits");
    let connecting = async move { connect(&nats.url, nats.credentials_file.as_deref(), &thread_name).await };
    let (permits, permits_ended) = PermitThread::start(connecting).await?;
    let health = Arc::new(Health::new(config.resources.iter().map(|resource| resource.name())));
    let service = discovery::announce(&client, &subjects, &leader, &config.resources).await?;
    let office = Office { client: client.clone(), store, permits, subjects, health: health.clone(), leader };
    let (stop, stopping) = watch::channel(false);
    let (mut tenures, mut reporters) = (JoinSet::new(), Vec::new());
    for resource in config.resources {
        let (tenure, reporter) = Tenure::new(office.clone(), resource, stopping.clone());
        tenures.spawn(tenure.run());
        reporters.push(reporter);
    }
    let pages = Pages { health: health.clone(), reporters, client };
    let http = match config.http.listen.as_str() {
        "" => None,
        listen => Some(http::start(listen, pages).await?),
    };
    Ok(Running { stop, tenures, permits_ended, service, health, http })
}

impl Running {
    /// Where health and metrics are served, if they are.
    #[must_use]
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Returns when every resource is led, by this scheduler or another.
    pub async fn ready(&self) {
        while !self.health.is_ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Hands every resource over: ready goes off, who waits is sent elsewhere, state is written.
    ///
    /// # Errors
    /// If that takes longer than 5 s.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let handing_over = async {
            self.tenures.join_all().await;
            self.permits_ended.await
        };
        let handed_over = tokio::time::timeout(DRAIN, handing_over).await;
        // A service that is merely dropped goes on, and keeps the connection.
        if let Err(error) = self.service.stop().await {
            tracing::debug!(%error, "the announcement could not be withdrawn");
        }
        handed_over
            .map_err(|_| anyhow::anyhow!("the handover took longer than {DRAIN:?}; some state may be older"))
            .map(drop)
    }
}

/// A name that no other scheduler process has.
fn process_name() -> String {
    format!("scheduler-{}-{:08x}", std::process::id(), rand::random::<u32>())
}
