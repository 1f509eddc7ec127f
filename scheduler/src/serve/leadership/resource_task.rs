//! Everything for one resource, from its first limits to its last hand-over.

use crate::config::Configured;
use crate::provider::ProviderSource;
use crate::serve::discovery::Known;
use crate::serve::health::Duty;
use crate::serve::leadership::context::LeaderContext;
use crate::serve::leadership::provider_watch;
use crate::serve::leadership::resource_leader::{ResourceLeader, Upstream};
use crate::serve::limits::effective_limits::{EffectiveLimits, NewRules};
use crate::serve::limits::first_limits;
use crate::serve::permits::loop_handle::{LoopPublisher, LoopWatch};
use crate::serve::stop::{Stop, stopped};
use rampmeter_scheduler_core::policy::resource::Resource;

/// Serves one resource until the process stops.
pub(crate) struct ResourceTask {
    context: LeaderContext,
    known: Known,
    led: (LoopPublisher, LoopWatch),
    limits: EffectiveLimits,
    stop: Stop,
}

impl ResourceTask {
    /// A task that shows the limits to `known` and its loop to `led`.
    pub(crate) fn new(
        context: LeaderContext,
        known: Known,
        led: (LoopPublisher, LoopWatch),
        limits: EffectiveLimits,
        stop: Stop,
    ) -> Self {
        ResourceTask { context, known, led, limits, stop }
    }

    /// Returns when the process stops.
    pub(crate) async fn run(
        mut self,
        configured: Configured,
        mut provider: Option<ProviderSource>,
    ) -> anyhow::Result<()> {
        let mut stop = self.stop.clone();
        let resource = tokio::select! {
            biased;
            () = stopped(&mut stop) => return Ok(()),
            resource = self.resource(&configured, &mut provider) => resource,
        };
        let (publisher, led) = self.led;
        if let (Some(provider), Some(settings)) = (provider, configured.provider.clone()) {
            tokio::spawn(provider_watch::keep_asking(provider, settings, self.context.clock, led));
        }
        let kind = configured.provider.as_ref().map(|settings| settings.kind.name());
        let announcing = keep_announced(self.known, self.limits.for_another(), resource.clone());
        let upstream = Upstream { reader: configured.reader, provider: kind };
        let leader = ResourceLeader::new(self.context, (resource, upstream), self.limits, publisher, self.stop);
        tokio::select! {
            ended = leader.run() => ended,
            () = announcing => Ok(()),
        }
    }

    /// The resource with the limits of the rules, or else of the file, or else of its provider.
    async fn resource(&mut self, configured: &Configured, provider: &mut Option<ProviderSource>) -> Resource {
        let (health, clock) = (self.context.health.clone(), self.context.clock);
        let trouble = |reason: String| health.set(configured.name(), Duty::Troubled { reason });
        self.limits.until_known(trouble).await;
        let resource = loop {
            if let Some(resource) = self.limits.resource() {
                break resource;
            }
            let provider = provider.as_mut().expect("the configuration refuses a resource without limits and provider");
            tokio::select! {
                () = self.limits.changed() => {}
                resource = first_limits::wait_for(configured, provider, clock, trouble) => self.limits.provided(&resource),
            }
        };
        self.known.set(&resource);
        resource
    }
}

/// Keeps what this scheduler says of a resource up to date, whether it leads or not. Never returns.
async fn keep_announced(known: Known, mut limits: EffectiveLimits, mut present: Resource) {
    loop {
        limits.changed().await;
        if let Some(NewRules { resource: Some(resource), .. }) = limits.take(&present) {
            known.set(&resource);
            present = *resource;
        }
    }
}
