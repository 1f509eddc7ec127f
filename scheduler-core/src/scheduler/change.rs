//! Other limits while permits are out and requests wait.

use super::Scheduler;
use super::permits::Permit;
use crate::collections::Slot;
use crate::event::Ask;
use crate::fencing::GrantBudget;
use crate::policy::{Call, Resource, Succession};
use crate::queue::Queues;
use crate::refusal::Refusal;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::Time;

/// Units of former limits that are remembered, far more than any resource has.
const MAX_FORMER_UNITS: usize = 1024;

impl<R: Clone> Scheduler<R> {
    /// Goes on under `resource`, which differs in its limits alone.
    ///
    /// * Limits that [go on](Succession) keep their levels, and what was promised of them stays promised and charged. What was
    ///   learned of those whose sizes differ is forgotten. New limits begin as the resource says; what was promised
    ///   before is none of theirs.
    /// * Who waits keeps its place and is charged by the new limits, or is refused if it can't ever be served under them.
    /// * Where the store has to allow what is granted, it is asked first: checkpoints that were written under the former limits allow nothing
    ///   any more.
    pub(crate) fn change_limits(&mut self, now: Time, resource: Resource) {
        assert!(self.resource.differs_in_limits_alone(&resource), "classes and all else stay");
        let resource = resource.at_unix(self.resource.unix_at_origin());
        let succession = Succession::between(&self.resource, &resource);
        let waiting = self.take_waiting(now, &resource);
        self.ledger.change(now, &resource, &succession);
        if !resource.shares_bills_with(&self.resource) {
            self.permits.change(&succession);
        }
        self.shadow_limits.change(now, &resource);
        self.former_units.extend(self.resource.units());
        while self.former_units.len() > MAX_FORMER_UNITS {
            self.former_units.pop_first();
        }
        self.resource = resource;
        self.grant_budget =
            self.grant_budget.take().map(|grant_budget| GrantBudget::after(&grant_budget, &self.resource));
        for ask in waiting {
            self.ask_under_change(now, ask);
        }
        self.ledger.note_change();
    }

    /// Requests that are held for the store, and then all that wait, class by class in the order of arrival, as asked anew. What a
    /// request that is held is for may not be known any more: where that matters, it is sent away to ask again at once.
    pub(crate) fn take_waiting(&mut self, now: Time, resource: &Resource) -> Vec<Ask<R>> {
        let is_same = resource.shares_bills_with(&self.resource);
        let mut waiting = Vec::new();
        for ask in self.take_held() {
            match is_same || ask.call.is_some() {
                true => waiting.push(ask),
                false => self.refuse(ask.to, ask.id, Refusal::Unavailable),
            }
        }
        for slot in self.clear_queues(now, resource) {
            let mut ask = as_asked(now, self.permits.remove(slot));
            if !is_same {
                ask.call.get_or_insert_with(|| Box::new(Call::from_bill(&ask.bill, &self.resource)));
            }
            waiting.push(ask);
        }
        waiting
    }

    /// Empties lines and gates in one pass. Who waited, class by class in the order of arrival; their permits are left to the caller.
    fn clear_queues(&mut self, now: Time, resource: &Resource) -> Vec<Slot> {
        let slots = self.queues.by_arrival();
        self.ledger.keys.keep_none();
        self.queues = Queues::new(resource, now);
        self.next_plan = None;
        slots
    }

    fn ask_under_change(&mut self, now: Time, ask: Ask<R>) {
        let bill = match &ask.call {
            None => self.resource.check_payable(&ask.bill).map(|()| ask.bill.clone()),
            Some(call) => {
                let bill = self.resource.bill(&call.labels, call.cost());
                bill.map(|bill| self.cost_estimates.correct(&self.resource, bill))
            }
        };
        match bill {
            Err(refusal) => self.refuse(ask.to, ask.id, refusal),
            Ok(bill) => self.ask(now, Ask { bill, ..ask }),
        }
    }
}

/// A request as it would be asked anew.
fn as_asked<R>(now: Time, mut permit: Permit<R>) -> Ask<R> {
    let waiting = permit.stop_waiting();
    Ask {
        to: waiting.to,
        id: Some(permit.id),
        bill: (*permit.bill).clone(),
        class: waiting.class,
        mode: Mode::Wait,
        max_wait: waiting.deadline.map(|deadline| deadline.since(now)),
        age: now.since(waiting.arrival.at),
        progress: waiting.progress,
        client: Some(waiting.client),
        call: waiting.call,
    }
}
