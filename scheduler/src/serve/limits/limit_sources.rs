//! The sources of the limits in force while a loop leads: the rules and the provider.

use crate::provider::{Contract, ProviderError};
use crate::serve::limits::effective_limits::{InForce, NewRules};
use crate::serve::limits::limit_change::LimitChange;
use crate::serve::limits::provider_view::ProviderView;
use crate::store::RulesRevision;
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
    /// `None` if the resource has no provider.
    provider: Option<ProviderView>,
}

impl LimitSources {
    /// Limits by `rules`, which a provider of the kind `provider` may correct.
    pub(crate) fn new(rules: InForce, provider: Option<&'static str>) -> Self {
        LimitSources { rules, provider: provider.map(ProviderView::new) }
    }

    /// The revision of the rules in force.
    pub(crate) fn revision(&self) -> RulesRevision {
        self.rules.revision
    }

    /// The status as the protocol has it.
    pub(crate) fn status(&self, now: Time) -> (Option<ProviderStatus>, Option<RulesStatus>) {
        (self.provider.as_ref().map(|provider| provider.status(now)), self.rules.status.clone())
    }

    /// Takes other rules, and returns what they change in `present`. After that change, the
    /// provider's contract is to be [kept to](Self::keep_to_contract).
    pub(crate) fn take_rules(&mut self, present: &Resource, rules: NewRules) -> Option<LimitChange> {
        let NewRules { resource, in_force } = rules;
        self.rules = in_force;
        let resource = resource?;
        let revision = self.rules.revision.get();
        tracing::info!(resource = %resource.name(), revision, "limits count as the rules have them");
        Some(LimitChange::between(present, resource))
    }

    /// What the provider's last contract changes in `present`.
    pub(crate) fn keep_to_contract(&mut self, present: &Resource) -> Option<LimitChange> {
        self.provider.as_mut()?.keep_to_contract(present)
    }

    /// Takes a contract of the provider's, and returns what it changes in `present`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ProvidedLimit;
    use crate::provider::matching::limits_of;
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::time::Span;
    use rampmeter_scheduler_core::policy::spec::ResourceSpec;

    const NOTHING: [f64; 0] = [];

    /// A contract about requests in a minute, and about those in an hour.
    fn contract(minute: u32, hour: u32) -> Contract {
        let provided = |capacity: u32, secs| ProvidedLimit {
            unit: Name::new("requests").unwrap(),
            capacity: Amount::new(f64::from(capacity)).unwrap(),
            period: Some(Span::from_secs(secs)),
        };
        Contract { limits: vec![provided(minute, 60), provided(hour, 3600)], notes: Vec::new() }
    }

    fn resource(minute: u32, hour: u32) -> Resource {
        Resource::new(&ResourceSpec::new(Name::new("hub").unwrap(), limits_of(&contract(minute, hour)))).unwrap()
    }

    /// The capacities of the limits that change.
    fn changed(change: Option<LimitChange>) -> Vec<f64> {
        let news = change.map(|change| change.into_parts().1);
        news.into_iter().flatten().map(|news| news.capacity).collect()
    }

    #[test]
    fn a_contract_corrects_the_rules_that_come_after_it() {
        let mut sources = LimitSources::new(InForce::default(), Some("portal"));
        let present = resource(300, 9000);
        assert_eq!(changed(sources.keep_to_contract(&present)), NOTHING, "no contract is known");
        assert_eq!(changed(sources.take_contract(Time::ORIGIN, &present, contract(300, 8000))), [8000.0]);
        let in_force = InForce { revision: RulesRevision::new(4), status: None };
        let rules = NewRules { resource: Some(Box::new(resource(200, 9000))), in_force: in_force.clone() };
        let present = resource(300, 8000);
        assert_eq!(changed(sources.take_rules(&present, rules)), [200.0, 9000.0]);
        assert_eq!(sources.revision(), RulesRevision::new(4));
        assert_eq!(changed(sources.keep_to_contract(&resource(200, 9000))), [300.0, 8000.0]);
        let same = NewRules { resource: None, in_force };
        assert_eq!(changed(sources.take_rules(&resource(300, 8000), same)), NOTHING);
    }

    #[test]
    fn status_tells_the_notes_and_failures_of_the_provider() {
        let mut sources = LimitSources::new(InForce::default(), Some("portal"));
        let one = Contract { limits: contract(300, 8000).limits[..1].to_vec(), notes: Vec::new() };
        let present = Resource::new(&ResourceSpec::new(Name::new("hub").unwrap(), limits_of(&one))).unwrap();
        sources.take_contract(Time::ORIGIN, &present, contract(300, 8000));
        let (provider, _) = sources.status(Time::ORIGIN + Span::from_secs(1));
        let provider = provider.unwrap();
        assert_eq!(provider.notes, ["no limit is configured for 8000 requests in 3600s"]);
        assert_eq!(provider.contract_age_ms, Some(1000.0));
        assert_eq!(LimitSources::new(InForce::default(), None).status(Time::ORIGIN), (None, None));
    }
}
