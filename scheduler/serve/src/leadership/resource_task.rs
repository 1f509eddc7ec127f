//! Everything for one resource, from its first limits to its last hand-over.

use crate::discovery::Known;
use crate::health::ServingState;
use crate::leadership::context::LeaderContext;
use crate::leadership::provider_watch;
use crate::leadership::resource_leader::{ResourceLeader, ResourceServices};
use crate::leadership::token_endpoint::TokenEndpoint;
use crate::leadership::token_permits;
use crate::leadership::usage_book::UsageBook;
use crate::leadership::usage_keeper::UsageKeeper;
use crate::limits::differences::Differences;
use crate::limits::fingerprint::Fingerprint;
use crate::limits::limit_sources::LimitSources;
use crate::limits::provider_view::first_limits;
use crate::permits::loop_handle::{LoopPublisher, LoopWatch};
use crate::stop::{Stop, stopped};
use rampmeter_account::ProviderSource;
use rampmeter_config::Configured;
use rampmeter_scheduler_core::policy::resource::Resource;
use std::sync::Arc;

/// Serves one resource until the process stops.
pub(crate) struct ResourceTask {
    context: LeaderContext,
    shown: PublishedResource,
    led: (LoopPublisher, LoopWatch),
    limits: LimitSources,
    stop: Stop,
}

impl ResourceTask {
    /// A task that shows the limits to `known` and its loop to `led`.
    pub(crate) fn new(
        context: LeaderContext,
        known: Known,
        led: (LoopPublisher, LoopWatch),
        limits: LimitSources,
        stop: Stop,
    ) -> Self {
        let shown = PublishedResource { known, differences: context.differences.clone() };
        ResourceTask { context, shown, led, limits, stop }
    }

    /// Returns when the process stops.
    pub(crate) async fn run(
        mut self,
        configured: Configured,
        mut provider: Option<ProviderSource>,
    ) -> anyhow::Result<()> {
        if let Some(resource) = configured.provider.as_ref().and_then(|settings| settings.kind.token_resource()) {
            let permits = token_permits::of(&self.context, resource);
            provider = provider.map(|provider| provider.with_token_permits(permits));
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
        if let (Some(provider), Some(settings)) = (provider, configured.provider.clone()) {
            let endpoint = settings.kind.shares_token().then(|| TokenEndpoint::new(&self.context, configured.name()));
            tokio::spawn(provider_watch::keep_asking(provider, (settings, endpoint), self.context.clock, led));
        }
        let shares_token = configured.provider.as_ref().is_some_and(|settings| settings.kind.shares_token());
        let upstream =
            ResourceServices { reader: configured.reader.clone(), pricing: configured.pricing, shares_token, uses };
        let announcing = self.shown.keep(configured, self.limits.clone());
        let leader = ResourceLeader::new(self.context, (resource, upstream), self.limits, publisher, self.stop);
        tokio::select! {
            ended = leader.run() => ended,
            () = announcing => Ok(()),
        }
    }

    /// The resource with the limits of the rules, or else of the file, or else of its provider.
    async fn resource(&mut self, configured: &Configured, provider: &mut Option<ProviderSource>) -> Resource {
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
        resource
    }
}

/// What other schedulers see of the resource.
struct PublishedResource {
    known: Known,
    differences: Arc<Differences>,
}

impl PublishedResource {
    /// Shows the resource. The fingerprint is set first, because the announcement carries it.
    fn set(&self, configured: &Configured, resource: &Resource) {
        self.differences.set_own(resource.name(), Fingerprint::of(configured, resource));
        self.known.set(resource);
    }

    /// Keeps the appearance up to date, whether this scheduler leads or not. Never returns.
    async fn keep(self, configured: Configured, mut limits: LimitSources) {
        loop {
            limits.changed().await;
            if let Some(resource) = limits.take_rules() {
                self.set(&configured, &resource);
            }
        }
    }
}
