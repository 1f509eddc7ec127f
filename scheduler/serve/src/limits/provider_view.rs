//! The provider of a resource's limits, as seen by the permit loop.

use rampmeter_account::matching::{NewLimit, limits_of, new_levels, new_limits, unmatched};
use rampmeter_account::poll_schedule::{PollSchedule, Topic};
use rampmeter_account::{Contract, KIND, ProvidedLevel, ProviderError, SentinelHub};
use rampmeter_config::Configured;
use rampmeter_policy::Resource;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::spec::{ResourceSpec, SpecError};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{ProviderState, ProviderStatus};
use rampmeter_protocol::time::{Span, Time};

/// News from a provider.
#[derive(Clone, Debug)]
pub enum ProviderNews {
    /// All limits of the account.
    Limits(Contract),
    /// The levels of the buckets, read between two instants.
    Levels {
        /// When the provider was asked. Levels may include calls sent before, but no starts committed later.
        asked: Time,
        /// When its answer came. Levels include no calls sent later.
        answered: Time,
        /// The level of each bucket.
        levels: Vec<ProvidedLevel>,
    },
    /// The provider did not answer a question; the known limits stay in force.
    Trouble(ProviderError),
    /// The provider has answered all of the latest questions.
    Well,
}

/// A permit loop's knowledge of its provider, including the last contract, which still applies when rules change.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderView {
    state: ProviderState,
    reason: Option<String>,
    contract_read: Option<Time>,
    contract: Option<Contract>,
    notes: Vec<String>,
}

impl ProviderView {
    pub(crate) fn status(&self, now: Time) -> ProviderStatus {
        ProviderStatus {
            kind: KIND.to_owned(),
            state: self.state,
            reason: self.reason.clone(),
            contract_age_ms: self.contract_read.map(|read| now.since(read).millis()),
            notes: self.notes.clone(),
        }
    }

    /// Takes a contract, and returns the changed resource if it differs from `present`.
    pub(crate) fn take_contract(&mut self, now: Time, present: &Resource, contract: Contract) -> Option<Resource> {
        self.contract_read = Some(now);
        self.contract = Some(contract);
        self.keep_to_contract(present)
    }

    /// Applies the last contract to `present`, also against rules, and returns the resource if it changes.
    /// Limits take the contract's capacity for their unit and period; all others stay.
    pub(crate) fn keep_to_contract(&mut self, present: &Resource) -> Option<Resource> {
        let contract = self.contract.as_ref()?;
        let changed = new_limits(present.limits(), contract);
        let missing = unmatched(present.limits(), contract).into_iter();
        let mut notes: Vec<String> = missing.map(|limit| format!("no limit is configured for {limit}")).collect();
        notes.extend(contract.notes.iter().cloned());
        let change = changed_by(present, &changed);
        if let Err(refused) = &change {
            notes.push(format!("the contract can't count: {refused}"));
        }
        if self.notes != notes {
            let (resource, notes) = (present.name(), notes.join("; "));
            tracing::warn!(%resource, notes, "the contract differs from the limits that count");
        }
        self.notes = notes;
        change.ok().flatten()
    }

    /// Notes a failure of the provider for status and log. The limits stay in force.
    pub(crate) fn note_trouble(&mut self, resource: &Name, error: &ProviderError) {
        let reason = error.to_string();
        if self.reason.as_ref() != Some(&reason) {
            tracing::warn!(%resource, reason, "the provider fails; the known limits stay in force");
        }
        self.state = ProviderState::Failing;
        self.reason = Some(reason);
    }

    pub(crate) fn note_well(&mut self, resource: &Name) {
        if self.state == ProviderState::Failing {
            tracing::info!(%resource, "the provider answers again");
        }
        self.state = ProviderState::Ok;
        self.reason = None;
    }
}

/// Returns the resource with these capacities, or `None` if none has changed.
fn changed_by(present: &Resource, changed: &[NewLimit]) -> Result<Option<Resource>, SpecError> {
    if changed.is_empty() {
        return Ok(None);
    }
    let mut spec = present.spec().clone();
    for new in changed {
        tracing::warn!(resource = %spec.name, "the contract says that {new}; that counts from now on");
        let named = spec.limits.iter_mut().filter(|limit| limit.name == new.name);
        named.for_each(|limit| limit.capacity = new.capacity);
    }
    Resource::new(&spec).map(Some)
}

pub(crate) fn levels_by_limit(resource: &Resource, took: Span, levels: &[ProvidedLevel]) -> Vec<(LimitId, Amount)> {
    let levels_read = new_levels(resource.limits(), levels);
    tracing::debug!(resource = %resource.name(), %took, told = ?levels_read, "the provider's levels");
    levels_read.into_iter().filter_map(|level| Some((resource.limit(&level.name)?, level.remaining))).collect()
}

/// Asks until the provider answers, for a resource without configured limits. `trouble` receives the reasons.
pub(crate) async fn first_limits(
    configured: &Configured,
    provider: &mut SentinelHub,
    clock: Clock,
    trouble: impl Fn(String),
) -> Resource {
    let settings = configured.provider.as_ref().expect("a provider has settings");
    let mut agenda = PollSchedule::new(settings.contract_every, settings.levels_every, clock.now());
    loop {
        let (at, _contract) = agenda.next();
        tokio::time::sleep_until(tokio::time::Instant::from_std(clock.instant(at))).await;
        let contract = provider.limits().await.map_err(|error| error.to_string());
        match contract.and_then(|contract| contracted(configured, &contract)) {
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

fn contracted(configured: &Configured, contract: &Contract) -> Result<Resource, String> {
    for note in &contract.notes {
        tracing::warn!(resource = %configured.name(), "{note}");
    }
    let spec = ResourceSpec { limits: limits_of(contract), ..configured.spec.clone() };
    Resource::new(&spec).map_err(|error| error.to_string())
}
