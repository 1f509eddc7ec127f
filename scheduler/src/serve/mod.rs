//! The running scheduler: one thread for permits, one for everything else.
//!
//! [`permit_loop`] answers requests, [`tenure`] decides who leads and keeps the state,
//! [`http`] and [`discovery`] show it to others.

pub mod array;
pub mod canary;
pub mod discovery;
mod ear;
mod first_limits;
pub mod health;
pub mod http;
mod intake;
pub mod letter;
pub mod metrics;
pub mod peers;
pub mod permit_loop;
pub mod permit_thread;
mod provider_news;
mod provider_watch;
mod purging;
pub mod reply;
pub mod roster;
pub mod rulebook;
pub mod ruled;
mod sending;
mod standby;
mod standing;
mod takeover;
pub mod tally;
pub mod tenure;
mod undelivered;
pub mod vigil;
pub mod witness;

use crate::config::{Config, Configured};
use crate::connection::connect;
use crate::provider::{Settings, Source};
use crate::store::Store;
use anyhow::Context;
use discovery::Announcement;
use health::{Duty, Health};
use http::pages::Pages;
use http::{Backing, Serving, Socket};
use permit_thread::PermitThread;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::subject::Subjects;
use rampmeter_scheduler_core::resource::Resource;
use roster::Roster;
use ruled::RuledLimits;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tenure::{Lead, Led, Office, Reporter, Tenure, stopped};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a graceful stop may take.
const DRAIN: Duration = Duration::from_secs(5);

/// A scheduler that runs. Dropping it ends it without a handover; [`stop`](Running::stop) hands over.
pub struct Running {
    stop: watch::Sender<bool>,
    tenures: JoinSet<()>,
    permits_ended: permit_thread::Ended,
    announcement: Announcement,
    health: Arc<Health>,
    http: Option<Serving>,
}

/// Starts serving everything in `config`.
///
/// # Errors
/// If NATS can't be reached or is too old, the KV bucket can't be made, or the HTTP address is taken.
pub async fn start(config: Config) -> anyhow::Result<Running> {
    let socket = Socket::bind(config.http.clone()).await?;
    let leader = process_name();
    let subjects = Subjects::new(&config.nats.prefix)?;
    let nats = config.nats.clone();
    let nats_prefix = nats.prefix.clone();
    let clock = Clock::start();
    let client = connect(&nats, &leader).await?;
    let store = Store::open(&client, &nats.prefix, nats.replicas).await?;
    let rules = rulebook::keep(client.clone(), nats.prefix.clone(), nats.replicas);
    let (stop, stopping) = watch::channel(false);
    let mut backing = match &socket {
        Some(socket) if socket.has_front() => Some(backing(&config, &leader, clock, stopping.clone()).await?),
        Some(_) | None => None,
    };
    let thread_name = format!("{leader}-permits");
    let connecting = async move { connect(&nats, &thread_name).await };
    let (permits, permits_ended) = PermitThread::start(connecting).await?;
    let health = Arc::new(Health::new(config.resources.iter().map(|resource| resource.name())));
    let providers =
        config.resources.iter().map(|configured| open(configured, clock)).collect::<anyhow::Result<Vec<_>>>()?;
    let known = config.resources.iter().filter_map(Configured::resource).collect();
    let announcement = Announcement::start(client.clone(), subjects.clone(), leader.clone(), known).await?;
    let roster = Arc::new(Roster::new(&leader));
    let calling = peers::keep_calling(client.clone(), nats_prefix, roster.clone(), clock, stopping.clone());
    tokio::spawn(calling);
    let office =
        Office { client: client.clone(), store, permits, subjects, health: health.clone(), roster, clock, leader };
    let (mut tenures, mut reporters) = (JoinSet::new(), Vec::new());
    for (configured, provider) in config.resources.into_iter().zip(providers) {
        let (lead, led) = watch::channel(None);
        reporters.push(Reporter(led.clone()));
        if let Some(backing) = &mut backing {
            backing.led.insert(configured.name().clone(), led.clone());
        }
        let limits = RuledLimits::new(rules.clone(), configured.spec.clone());
        let (office, known) = (office.clone(), announcement.known());
        let post = Post { office, known, lead, led, limits, stop: stopping.clone() };
        tenures.spawn(post.hold(configured, provider));
    }
    let pages = Pages { health: health.clone(), reporters, rules, client };
    let http = match socket {
        Some(socket) => Some(socket.serve(pages, backing).await?),
        None => None,
    };
    Ok(Running { stop, tenures, permits_ended, announcement, health, http })
}

/// What the HTTP front asks on: a connection of its own, as any client has.
async fn backing(
    config: &Config,
    leader: &str,
    clock: Clock,
    stopping: watch::Receiver<bool>,
) -> anyhow::Result<Backing> {
    let client = connect(&config.nats, &format!("{leader}-http")).await?;
    Ok(Backing { client, subjects: Subjects::new(&config.nats.prefix)?, led: BTreeMap::new(), stopping, clock })
}

/// The provider of a resource, ready to be asked.
fn open(configured: &Configured, clock: Clock) -> anyhow::Result<Option<Source>> {
    let Some(Settings { kind, .. }) = &configured.provider else { return Ok(None) };
    kind.open(clock).map(Some).with_context(|| format!("the provider of resource `{}`", configured.name()))
}

/// Everything for one resource, from its first limits to its last handover.
struct Post {
    office: Office,
    known: discovery::Known,
    lead: Lead,
    led: Led,
    limits: RuledLimits,
    stop: watch::Receiver<bool>,
}

impl Post {
    /// Returns when the process stops.
    async fn hold(mut self, configured: Configured, mut provider: Option<Source>) {
        let mut stop = self.stop.clone();
        let resource = tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            resource = self.resource(&configured, &mut provider) => resource,
        };
        if let (Some(provider), Some(settings)) = (provider, configured.provider.clone()) {
            tokio::spawn(provider_watch::keep_asking(provider, settings, self.office.clock, self.led));
        }
        let kind = configured.provider.as_ref().map(|settings| settings.kind.name());
        let announcing = ruled::keep_announced(self.known, self.limits.for_another(), resource.clone());
        let tenure = Tenure::new(self.office, resource, configured.reader, kind, self.limits, self.lead, self.stop);
        tokio::select! {
            () = tenure.run() => {}
            () = announcing => {}
        }
    }

    /// The resource with the limits of the rules, or else of the file, or else of its provider.
    async fn resource(&mut self, configured: &Configured, provider: &mut Option<Source>) -> Resource {
        let health = self.office.health.clone();
        self.limits.until_known(|reason| health.set(configured.name(), Duty::Troubled { reason })).await;
        let resource = loop {
            if let Some(resource) = self.limits.resource() {
                break resource;
            }
            let provider = provider.as_mut().expect("the configuration refuses a resource without limits and provider");
            tokio::select! {
                () = self.limits.changed() => {}
                resource = first_limits::wait_for(configured, provider, &self.office) => self.limits.provided(&resource),
            }
        };
        self.known.set(&resource);
        resource
    }
}

impl Running {
    /// Where health and metrics are served, if they are.
    #[must_use]
    pub fn http(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Serving::address)
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
        self.announcement.withdraw().await;
        if let Some(http) = &self.http {
            http.clear().await;
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
