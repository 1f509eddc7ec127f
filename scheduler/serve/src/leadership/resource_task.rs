//! The work for one resource, from its first limits to its last hand-over.

use crate::context::ProcessContext;
use crate::discovery::Known;
use crate::health::ServingState;
use crate::leadership::provider_watch;
use crate::leadership::resource_leader::ResourceLeader;
use crate::leadership::resource_state::ResourceState;
use crate::leadership::token_permits;
use crate::leadership::usage_book::UsageBook;
use crate::leadership::usage_keeper::UsageKeeper;
use crate::limits::fingerprint::Fingerprint;
use crate::limits::limit_sources::LimitSources;
use crate::limits::provider_view::first_limits;
use crate::permits::loop_handle::{LoopPublisher, LoopWatch};
use crate::permits::permit_loop::Upstream;
use crate::permits::permit_thread::PermitThreads;
use crate::stop::{Stop, stopped};
use rampmeter_account::SentinelHub;
use rampmeter_config::Configured;
use rampmeter_policy::Resource;
use rampmeter_protocol::log_throttle::LogThrottle;

pub(crate) struct ResourceTask {
    pub(crate) context: ProcessContext,
    pub(crate) permits: PermitThreads,
    pub(crate) shown: PublishedResource,
    /// The channel on which its loop is published.
    pub(crate) led: (LoopPublisher, LoopWatch),
    pub(crate) limits: LimitSources,
    pub(crate) stop: Stop,
}

impl ResourceTask {
    pub(crate) async fn run(mut self, configured: Configured, mut provider: Option<SentinelHub>) -> anyhow::Result<()> {
        let token_resource = configured.provider.as_ref().and_then(|settings| settings.token_resource.as_ref());
        if let (Some(resource), Some(provider)) = (token_resource, &mut provider) {
            provider.set_token_permits(token_permits::of(&self.context, resource));
        }
        let mut stop = self.stop.clone();
        let resource = tokio::select! {
            biased;
            () = stopped(&mut stop) => return Ok(()),
            resource = self.resource(&configured, &mut provider) => resource,
        };
        let (publisher, led) = self.led;
        let uses = UsageBook::new(self.context.store.clone(), configured.name().clone());
        let keeper = UsageKeeper::new(self.context.clone(), configured.name().clone(), uses.clone());
        tokio::spawn(keeper.keep(led.clone()));
        let shares_token = configured.provider.as_ref().is_some_and(|settings| settings.share_token);
        if let (Some(provider), Some(settings)) = (provider, configured.provider.clone()) {
            let (context, resource) = (self.context.clone(), configured.name().clone());
            tokio::spawn(provider_watch::keep_asking(context, resource, (provider, settings), led));
        }
        let upstream = Upstream { reader: configured.reader.clone(), pricing: configured.pricing, shares_token };
        let announcing = self.shown.keep(configured, self.limits.clone());
        let leader = ResourceLeader {
            state: ResourceState::new(self.context, resource.name().clone()),
            resource,
            upstream,
            uses,
            permits: self.permits,
            limits: self.limits,
            led: publisher,
            stop: self.stop,
            log: LogThrottle::default(),
        };
        tokio::select! {
            ended = leader.run() => ended,
            () = announcing => Ok(()),
        }
    }

    /// Returns the resource with the limits of the rules, else of the file, else of its provider.
    async fn resource(&mut self, configured: &Configured, provider: &mut Option<SentinelHub>) -> Resource {
        let (health, clock) = (self.context.health.clone(), self.context.clock);
        let trouble = |reason: String| health.set(configured.name(), ServingState::Troubled { reason });
        self.limits.until_known(trouble).await;
        let resource = loop {
            if let Some(resource) = self.limits.resource() {
                break resource;
            }
            let provider = provider.as_mut().expect("the configuration refuses a resource without limits and provider");
            tokio::select! {
                () = self.limits.changed() => {}
                resource = first_limits(configured, provider, clock, trouble) => self.limits.provided(&resource),
            }
        };
        self.shown.set(configured, &resource);
        self.shown.log_differences(&self.limits);
        resource
    }
}

/// The announcement of a resource to other schedulers.
pub(crate) struct PublishedResource {
    pub(crate) known: Known,
    pub(crate) context: ProcessContext,
}

impl PublishedResource {
    /// Publishes the resource. The fingerprint is set first, because the announcement carries it.
    fn set(&self, configured: &Configured, resource: &Resource) {
        self.context.differences.set_own(resource.name(), Fingerprint::of(configured, resource));
        self.known.set(resource);
    }

    /// Logs differences between the rules in force and this scheduler's file.
    fn log_differences(&self, limits: &LimitSources) {
        for difference in limits.differ(&self.context.leader) {
            tracing::warn!(resource = %limits.name(), "{difference}");
        }
    }

    /// Keeps the announcement up to date, whether this scheduler leads or not. Never returns.
    async fn keep(self, configured: Configured, mut limits: LimitSources) {
        loop {
            limits.changed().await;
            if let Some(resource) = limits.take_rules() {
                self.set(&configured, &resource);
                self.log_differences(&limits);
            }
        }
    }
}
