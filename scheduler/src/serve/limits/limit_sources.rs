//! What says which limits count while a loop leads: the rules, and the provider.

use crate::provider::{Contract, ProviderError};
use crate::serve::limits::effective_limits::{InForce, NewRules};
use crate::serve::limits::limit_change::LimitChange;
use crate::serve::limits::provider_view::ProviderView;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{ProviderStatus, RulesStatus};
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::policy::resource::Resource;

/// The rules in force and the provider's contract.
///
/// Every change of limits is returned; the caller applies it before it asks for the next one.
#[derive(Debug)]
pub(crate) struct LimitSources {
    rules: InForce,
    /// Nothing if the resource has no provider.
    provider: Option<ProviderView>,
}

impl LimitSources {
    /// Limits by `rules`, which a provider of the kind `provider` may correct.
    pub(crate) fn new(rules: InForce, provider: Option<&'static str>) -> Self {
        LimitSources { rules, provider: provider.map(ProviderView::new) }
    }

    /// The edition of the rules in force.
    pub(crate) fn revision(&self) -> u64 {
        self.rules.revision
    }

    /// As the protocol has it.
    pub(crate) fn status(&self, now: Time) -> (Option<ProviderStatus>, Option<RulesStatus>) {
        (self.provider.as_ref().map(|provider| provider.status(now)), self.rules.status.clone())
    }

    /// Takes other rules. What they change in `present`; after that change, the provider's contract
    /// is to be [kept to](Self::keep_to_contract).
    pub(crate) fn take_rules(&mut self, present: &Resource, rules: NewRules) -> Option<LimitChange> {
        let NewRules { resource, in_force } = rules;
        self.rules = in_force;
        let resource = resource?;
        let revision = self.rules.revision;
        tracing::info!(resource = %resource.name(), revision, "limits count as the rules have them");
        Some(LimitChange::between(present, resource))
    }

    /// What the provider's last contract changes in `present`.
    pub(crate) fn keep_to_contract(&mut self, present: &Resource) -> Option<LimitChange> {
        self.provider.as_mut()?.keep_to_contract(present)
    }

    /// Takes a contract of the provider's. What it changes in `present`.
    pub(crate) fn take_contract(&mut self, now: Time, present: &Resource, contract: Contract) -> Option<LimitChange> {
        self.provider.as_mut()?.take_contract(now, present, contract)
    }

    pub(crate) fn note_provider_trouble(&mut self, resource: &Name, error: &ProviderError) {
        self.provider.iter_mut().for_each(|provider| provider.note_trouble(resource, error));
    }

    pub(crate) fn note_provider_well(&mut self, resource: &Name) {
        self.provider.iter_mut().for_each(|provider| provider.note_well(resource));
    }
}
