//! The limits of one resource: those of the rules, or else of the configuration or the provider.

use crate::serve::limits::rulebook::{Rulebook, RulebookReceiver};
use crate::store::RulesRevision;
use rampmeter_protocol::status::RulesStatus;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::{LimitSpec, ResourceSpec};
use std::time::Duration;

/// How long a successor waits for the rules of its predecessor: far longer than the store takes to
/// deliver them.
const CATCH_UP: Duration = Duration::from_secs(1);

/// A change of the rules, for the loop.
#[derive(Debug)]
pub struct NewRules {
    /// The resource under these limits, if they differ from its present ones.
    pub(crate) resource: Option<Box<Resource>>,
    pub(crate) in_force: InForce,
}

/// The edition of the rules that is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    pub(crate) revision: RulesRevision,
    pub(crate) status: Option<RulesStatus>,
}

/// Where the limits of a resource come from.
#[derive(Debug)]
pub struct EffectiveLimits {
    rules: RulebookReceiver,
    /// All that the configuration says of the resource.
    spec: ResourceSpec,
    /// Its limits by the configuration or the provider, if they are known.
    own: Option<Vec<LimitSpec>>,
    /// The limits of the rules. None if the rules in force have no limits for the resource.
    ruled: Option<Vec<LimitSpec>>,
    in_force: InForce,
}

impl EffectiveLimits {
    pub(crate) fn new(rules: RulebookReceiver, spec: ResourceSpec) -> Self {
        let own = spec.has_limits().then(|| spec.limits.clone());
        EffectiveLimits { rules, spec, own, ruled: None, in_force: InForce::default() }
    }

    /// Returns when the rules were read. Until then, `trouble` gets why they were not.
    pub(crate) async fn until_known(&mut self, mut trouble: impl FnMut(String)) {
        while !self.rules.borrow_and_update().is_known() {
            let reason = self.rules.borrow().trouble.clone();
            reason.into_iter().for_each(&mut trouble);
            self.changed().await;
        }
    }

    /// Takes the limits that the provider has sent.
    pub(crate) fn provided(&mut self, resource: &Resource) {
        self.own = Some(resource.spec().limits.clone());
    }

    /// The resource with the limits that are in force now; nothing if it has none.
    pub(crate) fn resource(&mut self) -> Option<Resource> {
        let (limits, in_force) = self.look();
        let now_in_force = limits.clone().or_else(|| self.own.clone())?;
        let resource = Resource::new(&ResourceSpec { limits: now_in_force, ..self.spec.clone() });
        let resource = resource.expect("rules and configuration were checked when they were read");
        (self.ruled, self.in_force) = (limits, in_force);
        Some(resource)
    }

    /// Takes the rules that are known now. Returns what changes if other rules come into force.
    /// `present` has the limits that were in force until now.
    pub(crate) fn take(&mut self, present: &Resource) -> Option<NewRules> {
        let (limits, in_force) = self.look();
        let news = in_force != self.in_force;
        let resource = if limits == self.ruled { None } else { self.resource() };
        if limits.is_none() && self.own.is_none() {
            tracing::warn!(resource = %present.name(), "its rules are gone, and it has no other limits: the last ones stay in force");
        }
        self.in_force = in_force.clone();
        (news || resource.is_some()).then(|| NewRules { resource: resource.map(Box::new), in_force })
    }

    /// Waits until this revision of the rules is known, because the predecessor has promised starts
    /// under it.
    pub(crate) async fn reach(&mut self, revision: RulesRevision) {
        let reached = self.rules.wait_for(|rules| rules.revision >= revision);
        if !matches!(tokio::time::timeout(CATCH_UP, reached).await, Ok(Ok(_))) {
            let (revision, known) = (revision.get(), self.rules.borrow().revision.get());
            tracing::error!(resource = %self.spec.name, revision, known, "the rules of the last leader are gone; `rampmeter apply` them again");
        }
    }

    /// Returns when the rules may have changed.
    pub(crate) async fn changed(&mut self) {
        if self.rules.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn in_force(&self) -> InForce {
        self.in_force.clone()
    }

    pub(crate) fn revision(&self) -> RulesRevision {
        self.in_force.revision
    }

    fn look(&mut self) -> (Option<Vec<LimitSpec>>, InForce) {
        let book: Rulebook = self.rules.borrow_and_update().clone();
        let limits = book.of(&self.spec.name).map(|rules| rules.limits.clone());
        (limits, InForce { revision: book.revision, status: book.status(&self.spec.name) })
    }

    /// The same limits, for another task that watches them.
    pub(crate) fn for_another(&self) -> Self {
        EffectiveLimits {
            rules: self.rules.clone(),
            spec: self.spec.clone(),
            own: self.own.clone(),
            ruled: self.ruled.clone(),
            in_force: self.in_force.clone(),
        }
    }
}
