//! The term of one leader, and what the store lets it grant.

use super::grant_budget::GrantBudget;
use crate::checkpoint_number::CheckpointNumber;
use crate::limits::NEAR;
use rampmeter_policy::Resource;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::time::{Span, Time};

/// The longest wait at former leaders that counts for a request.
const MAX_AGE_AT_START: Span = Span::from_secs(60);
/// The most bytes of a record: with discovered limits and an envelope, it has to fit in 1 MiB.
const RECORD_BYTES: usize = 800 << 10;

/// The term of a leader.
/// Invariant: the epoch never falls. A term with a store covers only what the store's checkpoints
/// cover, and begins with the first of them. A term without a store covers everything.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    epoch: Epoch,
    since: Time,
    pub(crate) is_ending: bool,
    /// Whether all predecessors are gone, so that only this leader receives settles.
    pub(crate) leads_alone: bool,
    pub(crate) record_bytes: usize,
    pub(crate) budget: GrantBudget,
}

impl Term {
    pub(crate) fn new(resource: &Resource, epoch: Epoch, now: Time) -> Self {
        Term {
            epoch,
            since: now,
            is_ending: false,
            leads_alone: false,
            record_bytes: RECORD_BYTES,
            budget: GrantBudget::new(resource),
        }
    }

    pub(crate) fn fenced(self) -> Self {
        Term { budget: self.budget.fenced(), since: Time::NEVER, ..self }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) fn raise_epoch(&mut self, epoch: Epoch) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Whether the leader took over at most `span` ago, or has not taken over yet.
    pub(crate) fn began_within(&self, now: Time, span: Span) -> bool {
        now <= self.since + span
    }

    pub(crate) fn earliest_arrival(&self, now: Time) -> Time {
        self.since.min(now) - MAX_AGE_AT_START
    }

    /// Whether a settle of a predecessor's call frees its place here. While a predecessor lives and
    /// may grant, it receives the settle too, and gives the place to another call.
    pub(crate) fn frees_inherited(&self, now: Time) -> bool {
        self.leads_alone || !self.began_within(now, NEAR)
    }

    /// Handles the store's refusal of a checkpoint for its size. The next one is half as large.
    pub(crate) fn refuse(&mut self, number: CheckpointNumber) {
        self.record_bytes /= 2;
        self.budget.refuse(number);
    }

    /// Continues under other limits. Earlier checkpoints allow nothing any more.
    pub(crate) fn change_limits(&mut self, resource: &Resource) {
        self.budget = GrantBudget::after(&self.budget, resource);
        assert_eq!(self.budget.largest.len(), resource.limits().len(), "each limit has a largest call");
    }

    /// Notes that the store holds a checkpoint. Returns false without a store.
    pub(crate) fn confirm(&mut self, now: Time, number: CheckpointNumber) -> bool {
        if self.budget.is_fenced() {
            self.budget.confirm(number);
            self.since = self.since.min(now);
        }
        self.budget.is_fenced()
    }
}

#[cfg(test)]
mod tests {
    use super::Term;
    use crate::checkpoint_number::CheckpointNumber;
    use crate::fencing::ImmediateDemand;
    use rampmeter_policy::spec::{LimitSpec, ResourceSpec};
    use rampmeter_policy::{Bill, Resource};
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::epoch::Epoch;
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
        let mut term = Term::new(&resource, Epoch::FIRST, at(0));
        term.budget.charge(&resource, &bill, at(0));
        term.budget.doubt();
        let budget = term.budget;
        assert!(budget.covers(&resource, &bill, at(1000)) && budget.covers_renewals(at(1000)) && budget.is_trusted());
        assert_eq!((budget.next_checkpoint(), budget.may_open()), (None, false));
    }

    #[test]
    fn a_term_with_a_store_begins_with_the_first_checkpoint_that_the_store_holds() {
        let (resource, bill) = ten_per_second();
        let mut term = Term::new(&resource, Epoch::FIRST, at(0)).fenced();
        assert!(!term.budget.covers(&resource, &bill, at(0)) && !term.budget.is_trusted());
        let level = resource.limits()[0].full();
        let immediate = [ImmediateDemand { wanted: level, level }];
        term.budget.open(&resource, at(1), 0, &immediate, None, 0);
        assert!(term.confirm(at(2), CheckpointNumber(1)) && term.budget.is_stored(CheckpointNumber(1)));
        assert!(term.budget.covers(&resource, &bill, at(2)) && !term.budget.covers(&resource, &bill, at(1000)));
        assert!(term.began_within(at(3), Span::from_secs(1)) && !term.began_within(at(4), Span::from_secs(1)));
        term.budget.doubt();
        assert!(!term.budget.covers(&resource, &bill, at(2)) && !term.budget.is_stored(CheckpointNumber(1)));
    }

    #[test]
    fn an_epoch_never_falls() {
        let mut term = Term::new(&ten_per_second().0, Epoch::new(3), at(0));
        [7, 5].into_iter().for_each(|epoch| term.raise_epoch(Epoch::new(epoch)));
        assert_eq!(term.epoch(), Epoch::new(7));
    }
}
