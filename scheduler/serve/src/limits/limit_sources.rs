//! The sources of a resource's limits: the configuration, the rules in the store, and its provider.

use crate::limits::provider_view::ProviderView;
use crate::limits::rulebook::RulebookReceiver;
use rampmeter_policy::spec::{LimitSpec, ResourceSpec};
use rampmeter_policy::{Limit, Resource};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::news::LimitNews;
use rampmeter_protocol::status::{ProviderStatus, RulesStatus};
use rampmeter_protocol::time::Time;
use rampmeter_store::RulesRevision;
use std::time::Duration;

/// How long a successor waits for the rules of its predecessor. The store delivers them far sooner.
const CATCH_UP: Duration = Duration::from_secs(1);

/// The sources of the limits of one resource. The leader has one clone, each term's permit loop another, which takes
/// the rules known when it asks, so that a loop applies exactly those that it reports.
#[derive(Clone, Debug)]
pub struct LimitSources {
    rules: RulebookReceiver,
    spec: ResourceSpec,
    /// The limits of the configuration or the provider, if they are known.
    own: Option<Vec<LimitSpec>>,
    /// The limits of the rules in force, if these have any for the resource.
    ruled: Option<Vec<LimitSpec>>,
    revision: RulesRevision,
    status: Option<RulesStatus>,
    /// Remarks on limits of the configuration, by name.
    pub(crate) notes: Vec<(Name, String)>,
    /// `None` if the resource has no provider.
    pub(crate) provider: Option<ProviderView>,
}

impl LimitSources {
    pub(crate) fn new(rules: RulebookReceiver, spec: ResourceSpec, has_provider: bool) -> Self {
        let (own, provider) =
            (spec.has_limits().then(|| spec.limits.clone()), has_provider.then(ProviderView::default));
        let (ruled, status, notes) = (None, None, Vec::new());
        LimitSources { rules, spec, own, ruled, revision: RulesRevision::NONE, status, notes, provider }
    }

    /// Waits until the rules were read. Meanwhile `trouble` receives the reasons why they were not.
    pub(crate) async fn until_known(&mut self, mut trouble: impl FnMut(String)) {
        while !self.rules.borrow_and_update().is_known() {
            let reason = self.rules.borrow().trouble.clone();
            reason.into_iter().for_each(&mut trouble);
            self.changed().await;
        }
    }

    /// Sets the limits that the provider has sent.
    pub(crate) fn provided(&mut self, resource: &Resource) {
        self.own = Some(resource.spec().limits.clone());
    }

    /// Returns the resource with the limits now in force, or `None` if it has no limits.
    pub(crate) fn resource(&mut self) -> Option<Resource> {
        let ruled = self.take_edition();
        let limits = ruled.clone().or_else(|| self.own.clone())?;
        self.ruled = ruled;
        let resource = Resource::new(&ResourceSpec { limits, ..self.spec.clone() });
        Some(resource.expect("rules and configuration were checked when they were read"))
    }

    /// Takes the rules that are known now, and returns the resource if other limits come into force. The
    /// provider's contract is [applied](ProviderView::keep_to_contract) on top by the caller.
    pub(crate) fn take_rules(&mut self) -> Option<Resource> {
        let ruled = self.take_edition();
        if ruled.is_none() && self.own.is_none() {
            tracing::warn!(resource = %self.spec.name, "its rules are gone, and it has no other limits: the last ones stay in force");
        }
        if ruled == self.ruled { None } else { self.resource() }
    }

    /// Waits until this revision of the rules is known, under which the predecessor has promised starts.
    pub(crate) async fn reach(&mut self, revision: RulesRevision) {
        let reached = self.rules.wait_for(|rules| rules.revision >= revision);
        if !matches!(tokio::time::timeout(CATCH_UP, reached).await, Ok(Ok(_))) {
            let (revision, known) = (revision.get(), self.rules.borrow().revision.get());
            tracing::error!(resource = %self.spec.name, revision, known, "the rules of the last leader are gone; `rampmeter apply` them again");
        }
    }

    pub(crate) async fn changed(&mut self) {
        if self.rules.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn revision(&self) -> RulesRevision {
        self.revision
    }

    pub(crate) fn status(&self, now: Time) -> (Option<ProviderStatus>, Option<RulesStatus>) {
        (self.provider.as_ref().map(|provider| provider.status(now)), self.status.clone())
    }

    pub(crate) fn name(&self) -> &Name {
        &self.spec.name
    }

    /// Returns the limits that would be in force without the rules, if rules are.
    pub(crate) fn configured(&self) -> Option<&[LimitSpec]> {
        self.own.as_deref().filter(|_| self.ruled.is_some())
    }

    /// Describes how the rules in force differ from the file of `scheduler`, a sentence for each limit.
    pub(crate) fn differ(&self, scheduler: &str) -> Vec<String> {
        let own = self.configured().filter(|_| self.provider.is_none());
        let (Some(ruled), Some(own)) = (&self.ruled, own) else { return Vec::new() };
        let others = own.iter().filter(|written| !ruled.iter().any(|rule| rule.name == written.name));
        let names = ruled.iter().filter(|rule| !own.contains(rule)).chain(others).map(|limit| &limit.name);
        let sentence = |name: &Name| match own.iter().find(|written| written.name == *name) {
            Some(LimitSpec { capacity, period, .. }) => {
                format!(
                    "the file of {scheduler} still says {capacity} in {period} for `{name}`, which the rules replace \
                     (as it was read at the start)"
                )
            }
            None => format!("the file of {scheduler} has no `{name}`, which the rules have"),
        };
        names.map(sentence).collect()
    }

    /// Notes the edition in force, and returns its limits for this resource.
    fn take_edition(&mut self) -> Option<Vec<LimitSpec>> {
        let book = self.rules.borrow_and_update();
        (self.revision, self.status) = (book.revision, book.status(&self.spec.name));
        book.of(&self.spec.name).map(|rules| rules.limits.clone())
    }
}

/// Returns the news for workers when other limits come into force: limits that are new or have other sizes.
pub(crate) fn limit_news(before: &Resource, after: &Resource) -> Vec<LimitNews> {
    let sizes = |limit: &LimitSpec| (limit.name.clone(), limit.capacity, limit.period);
    let is_new = |limit: &&LimitSpec| !before.limits().iter().any(|known| sizes(known.spec()) == sizes(limit));
    let news = after.limits().iter().map(Limit::spec).filter(is_new).map(|limit| LimitNews {
        name: limit.name.clone(),
        capacity: limit.capacity.units(),
        period_ms: limit.period.millis(),
    });
    news.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::rulebook::Rulebook;
    use rampmeter_account::matching::limits_of;
    use rampmeter_account::{Contract, ProvidedLimit};
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::time::Span;
    use tokio::sync::watch;

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

    fn spec(contract: &Contract) -> ResourceSpec {
        ResourceSpec::new(Name::new("hub").unwrap(), limits_of(contract))
    }

    fn resource(minute: u32, hour: u32) -> Resource {
        Resource::new(&spec(&contract(minute, hour))).unwrap()
    }

    /// An edition with limits for the resource, or without.
    fn edition(revision: u64, limits: Option<(u32, u32)>) -> Rulebook {
        let limit = |name, capacity, period| {
            format!(
                "[[resource.limit]]\nname = \"{name}\"\nunit = \"requests\"\ncapacity = {capacity}\nperiod = \"{period}\"\n"
            )
        };
        let text = limits.map(|(minute, hour)| {
            let limits =
                [limit("requests-per-minute", minute, "60s"), limit("requests-per-hour", hour, "3600s")].concat();
            format!("[[resource]]\nname = \"hub\"\n{limits}")
        });
        Rulebook::of_edition(revision, text.as_deref())
    }

    /// The capacities of the limits that change.
    fn changed(before: &Resource, after: Option<Resource>) -> Vec<f64> {
        after.map(|after| limit_news(before, &after)).into_iter().flatten().map(|news| news.capacity).collect()
    }

    #[test]
    fn rules_replace_the_limits_of_the_configuration() {
        let (book, rules) = watch::channel(Rulebook::default());
        let mut sources = LimitSources::new(rules, spec(&contract(300, 9000)), false);
        let present = sources.resource().unwrap();
        assert_eq!(
            (changed(&resource(1, 1), Some(present.clone())), sources.revision().get()),
            (vec![300.0, 9000.0], 0)
        );
        for (revision, limits, expected) in [
            (4, Some((200, 9000)), &[200.0, 9000.0][..]),
            (5, Some((200, 9000)), &[]),
            (6, Some((200, 8000)), &[200.0, 8000.0]),
            (7, None, &[300.0, 9000.0]),
            (8, None, &[]),
        ] {
            book.send_replace(edition(revision, limits));
            assert_eq!(changed(&resource(1, 1), sources.take_rules()), expected, "revision {revision}");
            assert_eq!(changed(&present, sources.take_rules()), NOTHING, "it was taken already");
            assert_eq!(sources.revision().get(), revision);
        }
    }

    /// The last limits stay, and rules with the same limits change nothing.
    #[test]
    fn without_any_limits_there_is_no_resource() {
        let (book, rules) = watch::channel(Rulebook::default());
        let mut sources = LimitSources::new(rules, ResourceSpec::new(Name::new("hub").unwrap(), Vec::new()), false);
        assert!(sources.resource().is_none());
        book.send_replace(edition(1, Some((200, 9000))));
        assert!(sources.resource().is_some());
        for limits in [None, Some((200, 9000))] {
            book.send_replace(edition(2, limits));
            assert!(sources.take_rules().is_none(), "{limits:?}");
        }
        book.send_replace(edition(3, None));
        sources.provided(&resource(300, 9000));
        assert_eq!(changed(&resource(200, 9000), sources.take_rules()), [300.0]);
    }

    #[test]
    fn a_contract_corrects_the_rules_that_come_after_it() {
        let (book, rules) = watch::channel(Rulebook::default());
        let mut sources = LimitSources::new(rules, spec(&contract(300, 9000)), true);
        let present = sources.resource().unwrap();
        let provider = sources.provider.as_mut().unwrap();
        assert_eq!(changed(&present, provider.keep_to_contract(&present)), NOTHING, "no contract is known");
        assert_eq!(changed(&present, provider.take_contract(Time::ORIGIN, &present, contract(300, 8000))), [8000.0]);
        let present = resource(300, 8000);
        book.send_replace(edition(4, Some((200, 9000))));
        assert_eq!(changed(&present, sources.take_rules()), [200.0, 9000.0]);
        assert_eq!(sources.revision(), RulesRevision::new(4));
        let ruled = resource(200, 9000);
        let provider = sources.provider.as_mut().unwrap();
        assert_eq!(changed(&ruled, provider.keep_to_contract(&ruled)), [300.0, 8000.0]);
        book.send_replace(edition(4, Some((200, 9000))));
        assert_eq!(changed(&present, sources.take_rules()), NOTHING);
    }

    #[test]
    fn status_tells_the_notes_and_failures_of_the_provider() {
        let (_book, rules) = watch::channel(Rulebook::default());
        let one = Contract { limits: contract(300, 8000).limits[..1].to_vec(), notes: Vec::new() };
        let mut sources = LimitSources::new(rules.clone(), spec(&one), true);
        let present = sources.resource().unwrap();
        sources.provider.as_mut().unwrap().take_contract(Time::ORIGIN, &present, contract(300, 8000));
        let (provider, _) = sources.status(Time::ORIGIN + Span::from_secs(1));
        let provider = provider.unwrap();
        assert_eq!(provider.notes, ["no limit is configured for 8000 requests in 3600s"]);
        assert_eq!(provider.contract_age_ms, Some(1000.0));
        assert_eq!(LimitSources::new(rules, spec(&one), false).status(Time::ORIGIN), (None, None));
    }
}
