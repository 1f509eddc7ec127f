//! A change of limits while permits are out and requests wait.

use super::Scheduler;
use super::key_labels::KeyLabels;
use super::permits::Permit;
use crate::event::Ask;
use crate::fencing::GrantBudget;
use crate::policy::{Call, Resource, Succession};
use crate::queue::Queues;
use crate::refusal::Refusal;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::Time;

/// Remembered units of former limits: far more than any resource has.
const MAX_FORMER_UNITS: usize = 1024;

impl<R: Clone> Scheduler<R> {
    /// Goes on under `resource`, which differs in its limits alone.
    ///
    /// * Limits that [go on](Succession) keep their levels and promises. If a limit's size
    ///   changes, what was learned of it is forgotten.
    /// * New limits begin as the resource says, without the promises made before.
    /// * Waiting requests keep their places and are charged by the new limits. A request that
    ///   the new limits can never serve is refused.
    /// * Checkpoints written under the former limits allow nothing; the store is asked first.
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
        self.key_labels = KeyLabels::new(&resource);
        self.resource = resource;
        self.grant_budget = self.grant_budget.take().map(|budget| GrantBudget::after(&budget, &self.resource));
        for ask in waiting {
            self.ask_under_change(now, ask);
        }
        self.ledger.note_change();
    }

    /// Takes out all waiting requests, as if they were asked anew. Requests whose answers wait for
    /// the store are first, then each class follows by arrival. If the charges change, a request of
    /// the first kind that has no [`Call`] is refused, to be asked again at once.
    pub(crate) fn take_waiting(&mut self, now: Time, resource: &Resource) -> Vec<Ask<R>> {
        let is_same = resource.shares_bills_with(&self.resource);
        let mut waiting = Vec::new();
        for ask in self.take_pending_asks() {
            match is_same || ask.call.is_some() {
                true => waiting.push(ask),
                false => self.refuse(ask.to, ask.id, Refusal::Unavailable),
            }
        }
        let slots = self.queues.by_arrival();
        self.ledger.keys.clear_awaited();
        self.queues = Queues::new(resource, now);
        self.next_dispatch = None;
        for slot in slots {
            let mut ask = as_asked(now, self.permits.remove(slot));
            if !is_same {
                ask.call.get_or_insert_with(|| Box::new(Call::from_bill(&ask.bill, &self.resource)));
            }
            waiting.push(ask);
        }
        waiting
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
