//! The limits of a resource that has none in the configuration. Nothing is granted before its
//! provider has answered.

use crate::config::Configured;
use crate::provider::matching::limits_of;
use crate::provider::poll_schedule::{PollSchedule, Topic};
use crate::provider::{Contract, Provider};
use rampmeter_protocol::clock::Clock;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::ResourceSpec;

/// Asks until there is an answer. Until then, `trouble` gets why the resource can't be led.
pub(crate) async fn wait_for(
    configured: &Configured,
    provider: &mut impl Provider,
    clock: Clock,
    trouble: impl Fn(String),
) -> Resource {
    let settings = configured.provider.as_ref().expect("a provider has settings");
    let mut agenda = PollSchedule::new(settings, clock.now());
    loop {
        let (at, _contract) = agenda.next();
        tokio::time::sleep_until(tokio::time::Instant::from_std(clock.instant(at))).await;
        let contract = provider.limits().await.map_err(|error| error.to_string());
        match contract.and_then(|contract| resource(configured, &contract)) {
            Ok(resource) => return resource,
            Err(reason) => {
                let reason = format!("it has no limits but its provider's, and that fails: {reason}");
                tracing::warn!(resource = %configured.name(), reason, "could not take the resource over");
                trouble(reason);
                agenda.failed(clock.now(), Topic::Contract, rand::random_range(0.5..=1.0));
            }
        }
    }
}

fn resource(configured: &Configured, contract: &Contract) -> Result<Resource, String> {
    for note in &contract.notes {
        tracing::warn!(resource = %configured.name(), "{note}");
    }
    let spec = ResourceSpec { limits: limits_of(contract), ..configured.spec.clone() };
    Resource::new(&spec).map_err(|error| error.to_string())
}
