//! The term of one leader, and what the store lets it grant.

use super::grant_budget::{CheckpointDue, GrantBudget};
use crate::ids::{CheckpointNumber, LimitId};
use crate::limits::{CallMade, StartKey};
use crate::policy::{Bill, LimitSet, Resource};
use rampmeter_protocol::time::{Span, Time};

/// The term of a leader.
///
/// Invariant: the epoch never falls. A term with a store covers only what the store's checkpoints
/// cover, and begins with the first of them. A term without a store covers everything.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    epoch: u64,
    since: Time,
    is_ending: bool,
    budget: Option<GrantBudget>,
}

impl Term {
    /// A term without a store.
    pub(crate) fn new(epoch: u64, now: Time) -> Self {
        Term { epoch, since: now, is_ending: false, budget: None }
    }

    /// A term with a store, which holds no checkpoint yet.
    pub(crate) fn fenced(self, resource: &Resource) -> Self {
        Term { budget: Some(GrantBudget::new(resource)), since: Time::NEVER, ..self }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Goes on in a higher epoch.
    pub(crate) fn raise_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Whether the leader took over at most `span` ago, or has yet to.
    pub(crate) fn began_within(&self, now: Time, span: Span) -> bool {
        now <= self.since + span
    }

    /// Begins the hand-over to a successor.
    pub(crate) fn end(&mut self) {
        self.is_ending = true;
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    pub(crate) fn budget(&self) -> Option<&GrantBudget> {
        self.budget.as_ref()
    }

    pub(crate) fn budget_mut(&mut self) -> Option<&mut GrantBudget> {
        self.budget.as_mut()
    }

    /// Goes on under other limits. Earlier checkpoints allow nothing any more.
    pub(crate) fn change_limits(&mut self, resource: &Resource) {
        self.budget = self.budget.take().map(|budget| GrantBudget::after(&budget, resource));
    }

    /// Whether the store allows this start.
    pub(crate) fn covers(&self, resource: &Resource, bill: &Bill, start: Time) -> bool {
        self.budget().is_none_or(|budget| budget.covers(resource, bill, start))
    }

    /// Whether the store allows the renewal of a call in flight.
    pub(crate) fn covers_renewals(&self, now: Time) -> bool {
        self.budget().is_none_or(|budget| budget.covers_renewals(now))
    }

    /// The limit of which the store allows too little for a `bill` that is not covered.
    pub(crate) fn lacking(&self, resource: &Resource, bill: &Bill) -> Option<LimitId> {
        self.budget()?.lacking(resource, bill)
    }

    /// Notes that `bill` could start in `ahead` with more budget; a far start can wait.
    pub(crate) fn note_shortage(&mut self, resource: &Resource, bill: &Bill, ahead: Span) {
        if let Some(budget) = &mut self.budget {
            budget.note_shortage(resource, bill, ahead);
        }
    }

    /// Charges a grant, or usage in excess of one, that starts at `start`.
    pub(crate) fn charge(&mut self, resource: &Resource, bill: &Bill, start: Time) {
        if let Some(budget) = &mut self.budget {
            budget.charge(resource, bill, start);
        }
    }

    /// Gives the budget of a finished call back; see [`GrantBudget::release`].
    pub(crate) fn release(
        &mut self,
        resource: &Resource,
        key: StartKey,
        bill: &Bill,
        places: LimitSet,
        made: CallMade,
    ) {
        if let Some(budget) = &mut self.budget {
            budget.release(resource, key, bill, places, made);
        }
    }

    /// The store holds a checkpoint; false if there is no store.
    pub(crate) fn confirm(&mut self, now: Time, number: CheckpointNumber) -> bool {
        let Some(budget) = &mut self.budget else { return false };
        budget.confirm(number);
        self.since = self.since.min(now);
        true
    }

    /// The number of the next checkpoint, which will list the starts that are promised now.
    ///
    /// # Panics
    /// If there is no store: then every start is covered, and none has to be listed.
    pub(crate) fn next_number(&self) -> CheckpointNumber {
        self.budget().expect("a term without a store covers every start").next()
    }

    /// Whether the store certainly holds this checkpoint, and no other leader has followed it.
    pub(crate) fn is_stored(&self, number: CheckpointNumber) -> bool {
        self.budget().and_then(GrantBudget::stored) >= Some(number)
    }

    /// When to write the next checkpoint.
    pub(crate) fn next_checkpoint(&self) -> Option<Time> {
        self.budget().map(GrantBudget::due)
    }

    /// Makes the next checkpoint due soon, as a successor has to know what has just happened.
    pub(crate) fn hasten_checkpoint(&mut self) {
        if let Some(budget) = &mut self.budget {
            budget.hasten(CheckpointDue::Soon);
        }
    }

    /// Stops all grants until a checkpoint that is opened later is confirmed.
    pub(crate) fn doubt(&mut self) {
        if let Some(budget) = &mut self.budget {
            budget.doubt();
        }
    }

    /// Whether no other leader can have followed since the last doubt.
    pub(crate) fn is_trusted(&self) -> bool {
        self.budget().is_none_or(GrantBudget::is_trusted)
    }

    /// Notes that the store rejects checkpoints; false if there is none.
    pub(crate) fn store_lost(&mut self, resource: &Resource, now: Time) -> bool {
        if let Some(budget) = &mut self.budget {
            budget.store_lost(resource, now);
        }
        self.budget.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Term;
    use crate::fencing::ImmediateDemand;
    use crate::ids::CheckpointNumber;
    use crate::policy::spec::{LimitSpec, ResourceSpec};
    use crate::policy::{Bill, Resource};
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::labels::Labels;
    use rampmeter_protocol::name::Name;
    use rampmeter_protocol::time::{Span, Time};

    /// A resource of ten requests a second, and the bill of one request.
    fn ten_per_second() -> (Resource, Bill) {
        let name = |name| Name::new(name).unwrap();
        let limit = LimitSpec::new(name("few"), name("requests"), Amount::new(10.0).unwrap(), Span::from_secs(1));
        let resource = Resource::new(&ResourceSpec::new(name("hub"), vec![limit])).unwrap();
        let bill = resource.bill(&Labels::new(), [].into_iter()).unwrap();
        (resource, bill)
    }

    fn at(seconds: u64) -> Time {
        Time::ORIGIN + Span::from_secs(seconds)
    }

    #[test]
    fn a_term_without_a_store_covers_everything() {
        let (resource, bill) = ten_per_second();
        let term = Term::new(1, at(0));
        assert!(term.covers(&resource, &bill, at(1000)) && term.covers_renewals(at(1000)) && term.is_trusted());
        assert_eq!(term.next_checkpoint(), None);
    }

    #[test]
    fn a_term_with_a_store_begins_with_the_first_checkpoint_that_the_store_holds() {
        let (resource, bill) = ten_per_second();
        let mut term = Term::new(1, at(0)).fenced(&resource);
        assert!(!term.covers(&resource, &bill, at(0)) && !term.is_trusted());
        let level = resource.limits()[0].full();
        let immediate = [ImmediateDemand { wanted: level, level }];
        term.budget_mut().unwrap().open(&resource, (at(1), 0), &immediate, None, 0);
        assert!(term.confirm(at(2), CheckpointNumber(1)) && term.is_stored(CheckpointNumber(1)));
        assert!(term.covers(&resource, &bill, at(2)) && !term.covers(&resource, &bill, at(1000)));
        assert!(term.began_within(at(3), Span::from_secs(1)) && !term.began_within(at(4), Span::from_secs(1)));
        term.doubt();
        assert!(!term.covers(&resource, &bill, at(2)) && !term.is_stored(CheckpointNumber(1)));
    }

    #[test]
    fn an_epoch_never_falls() {
        let mut term = Term::new(3, at(0));
        [7, 5].into_iter().for_each(|epoch| term.raise_epoch(epoch));
        assert_eq!(term.epoch(), 7);
    }
}
