//! Calls and their responses.

use super::Run;
use crate::outcome::Call;
use crate::upstream::Reply;
use crate::workers::fleet::Arrivals;
use crate::workers::strategy::Strategy;
use crate::workers::worker::{Address, RESOURCE, Stage, WantedCall, Worker};
use crate::world_event::WorldEvent;
use rampmeter_policy::ids::AccountId;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::settle::{Headers, Report, Response, Settle};
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_session::{AskNumber, Event};
use std::sync::Arc;

impl Run<'_> {
    pub(super) fn start(&mut self, now: Time, by: Address, ask: AskNumber) {
        let Some(worker) = self.current(by) else { return };
        if let Some(mut wanted) = worker.advance(ask, Stage::Permitted, Stage::Calling) {
            worker.sent = now;
            let granted = worker.grant.as_ref().map(|grant| grant.answer.account.clone());
            let id = worker.id();
            let request = id.and_then(|id| self.permit_source.scheduler()?.request(&id));
            let arrives = now + self.world.network.call.draw(&mut self.dice);
            let wait = wanted.wait(now);
            let named = |name: &str| self.world.resource.accounts.iter().position(|account| *account.name == *name);
            wanted.account = match granted {
                Some(account) => account.and_then(|account| named(&account)),
                None => wanted.price.bill_of(by.worker).account.map(AccountId::index),
            };
            self.agenda.note(arrives, WorldEvent::CallArrived { by, ask, wanted, wait, request });
        }
    }

    pub(super) fn call(
        &mut self,
        now: Time,
        by: Address,
        ask: AskNumber,
        wanted: &WantedCall,
        wait: Span,
        request: Option<usize>,
    ) {
        let labels = self.world.labels_at(&self.workers[by.worker].labels, wanted.account);
        let reply = self.upstream.answer(now, &labels, &wanted.price.charge);
        let answered = now + self.world.network.response.draw(&mut self.dice);
        let (cost, ok) = (Arc::clone(&wanted.price.cost), reply.verdict.is_ok());
        let fleet = &mut self.outcome.fleets[self.workers[by.worker].fleet];
        match reply.revoked {
            Some(_) => fleet.unauthorized += 1,
            None => {
                let account = wanted.account;
                fleet.calls.push(Call { worker: by.worker, account, at: now, cost, wait, request, ok, answered });
            }
        }
        self.agenda.note(answered, WorldEvent::ResponseArrived { to: by, ask, reply });
    }

    /// Settles the call. After a 429 the worker still wants it, after a 401 with another account.
    pub(super) fn receive_response(&mut self, now: Time, to: Address, ask: AskNumber, reply: Reply) {
        let (verdict, revoked) = (reply.verdict, reply.revoked.clone());
        if verdict.is_ok() {
            self.upstream.api.finish();
        }
        let Some(worker) = self.current(to) else { return };
        let Some(mut wanted) = worker.advance(ask, Stage::Calling, Stage::Idle) else { return };
        wanted.not.extend(revoked);
        settle(worker, now, reply);
        self.poll(now, to.worker);
        match verdict {
            Ok(()) => self.count_call(now, to.worker),
            Err(retry_after) => self.pause(now, to, wanted, retry_after),
        }
    }

    pub(super) fn count_call(&mut self, now: Time, number: usize) {
        let worker = &mut self.workers[number];
        worker.calls_left = worker.calls_left.map(|left| left.saturating_sub(1));
        self.finish_call(now, number);
    }

    pub(super) fn pause(&mut self, now: Time, address: Address, wanted: WantedCall, retry_after: Option<Span>) {
        let attempts = wanted.attempts + 1;
        // Strangers know of no scheduler.
        let strategy = if self.fleet(address.worker).foreign { Strategy::BackOff } else { self.world.strategy };
        let pause = strategy.pause(attempts, retry_after, &mut self.dice);
        self.workers[address.worker].pause(WantedCall { attempts, ..wanted });
        self.agenda.note(now + pause, WorldEvent::PauseOver(address));
    }

    pub(super) fn finish_call(&mut self, now: Time, number: usize) {
        let (fleet, worker) = (self.fleet(number), &mut self.workers[number]);
        worker.stage = Stage::Idle;
        if fleet.arrivals == Arrivals::Loop {
            let half = Span::from_nanos(fleet.think.nanos() / 2);
            let thought = now + worker.dice.between(half, half + fleet.think);
            self.agenda.note(thought, WorldEvent::ThinkTimeOver(worker.address));
        } else if worker.is_free() {
            self.take_work(now, number);
        }
    }
}

fn settle(worker: &mut Worker, now: Time, reply: Reply) {
    let Some(id) = worker.id() else { return };
    let headers = reply.headers.into_iter().map(|(name, value)| (Text::from(name), Text::from(value)));
    let headers = Headers::first_of(headers);
    let response = Response { status: reply.status, headers, quota_spent: false, code: None };
    let (elapsed_ms, late_ms) = (Some(now.since(worker.sent).into()), worker.late().map(Millis::from));
    let report = Report { response: Some(response), elapsed_ms, late_ms, ..Report::default() };
    let settle = Settle::reported(id, report);
    worker.handle(now, Event::Settled { resource: RESOURCE, settle: Box::new(settle) });
}
