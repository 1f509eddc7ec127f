//! Workers' requests for permission to call.

use super::Run;
use crate::simulated_scheduler::{ReplyTo, SimulatedScheduler};
use crate::workers::permit_source::PermitSource;
use crate::workers::strategy::Strategy;
use crate::workers::worker::{Address, RESOURCE, Stage, WantedCall};
use crate::world_event::WorldEvent;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_session::{AskNumber, Command, Denial, Event};
use std::sync::Arc;

/// How long a worker pauses that has excluded all accounts.
const WITHOUT_ACCOUNTS: Span = Span::from_secs(1);

impl Run<'_> {
    pub(super) fn want(&mut self, now: Time, address: Address) {
        let Some(worker) = self.current(address).filter(|worker| worker.is_free()) else { return };
        let (fleet, mut dice) = (worker.fleet, worker.dice.clone());
        let price = self.prices.draw(fleet, now, &mut dice);
        self.workers[address.worker].dice = dice;
        self.seek_permit(now, address.worker, WantedCall::new(now, price));
    }

    pub(super) fn try_again(&mut self, now: Time, address: Address) {
        let Some(worker) = self.current(address).filter(|worker| worker.has_more()) else { return };
        if let Some(wanted) = worker.advance(worker.ask, Stage::Pausing, Stage::Idle) {
            self.seek_permit(now, address.worker, wanted);
        }
    }

    pub(super) fn seek_permit(&mut self, now: Time, number: usize, wanted: WantedCall) {
        let price = Arc::clone(&wanted.price);
        let (fleet, worker) = (self.fleet(number), &mut self.workers[number]);
        worker.wait(wanted);
        let (address, ask) = (worker.address, worker.ask);
        let delay = match &mut self.permit_source {
            PermitSource::Scheduler(_) if !fleet.foreign => {
                let mode = if self.world.strategy == Strategy::Reserve { Mode::Reserve } else { fleet.mode };
                worker.ask(now, fleet, mode, &price);
                return self.poll(now, number);
            }
            PermitSource::Counter(_) if !fleet.foreign => {
                let arrives = now + self.world.network.request.draw(&mut self.dice);
                return self.agenda.note(arrives, WorldEvent::CounterAsked { from: address, ask });
            }
            PermitSource::Shares(shares) if !fleet.foreign => shares[number].take(now, price.bill_of(number)),
            PermitSource::Open | PermitSource::Shares(_) | PermitSource::Counter(_) | PermitSource::Scheduler(_) => {
                Span::ZERO
            }
        };
        self.receive_permit(now, address, ask, delay);
    }

    /// Carries out the commands of a worker's session.
    pub(super) fn poll(&mut self, now: Time, number: usize) {
        while let Some(command) = self.workers[number].session.as_mut().and_then(|session| session.poll(now)) {
            self.obey(now, number, command);
        }
        let worker = &mut self.workers[number];
        let wakes = worker.session.as_ref().and_then(|session| session.next_wakeup());
        if worker.wakes != wakes {
            worker.wakes = wakes;
            wakes.into_iter().for_each(|at| self.agenda.note(at.max(now), WorldEvent::SessionTimer(worker.address)));
        }
    }

    pub(super) fn obey(&mut self, now: Time, number: usize, command: Command) {
        let worker = &mut self.workers[number];
        let to = worker.address;
        match command {
            Command::Ask { batch, payload, .. } => {
                let reply = ReplyTo { to, batch };
                for at in self.world.network.carry(&mut self.dice, now, &mut worker.to_scheduler) {
                    self.agenda.note(at, WorldEvent::PermitRequestArrived { reply, payload: payload.clone() });
                }
            }
            Command::Settle { batch, payload, .. } => {
                for at in self.world.network.carry(&mut self.dice, now, &mut worker.to_scheduler) {
                    self.agenda.note(at, WorldEvent::SettleArrived { payload: payload.clone() });
                }
                // A settle that is lost stays lost.
                worker.session.iter_mut().for_each(|it| it.handle(now, Event::Answered { batch, payload: b"" }));
            }
            Command::Renew { payload, .. } => {
                for at in self.world.network.carry(&mut self.dice, now, &mut worker.to_scheduler) {
                    self.agenda.note(at, WorldEvent::SettleArrived { payload: payload.clone() });
                }
            }
            Command::Complete { ask, result: Ok(grant) } => {
                let delay = grant.start.since(now);
                worker.grant = Some(grant);
                self.receive_permit(now, to, ask, delay);
            }
            Command::Complete { result: Err(denial), .. } => self.receive_refusal(now, number, &denial),
            Command::Freeze { freeze, .. } => worker.return_if_void(now, freeze),
            Command::Unrenewed { .. } | Command::Silent { .. } | Command::SilenceOver { .. } => {}
        }
    }

    pub(super) fn wake(&mut self, now: Time, address: Address) {
        if self.current(address).is_some() {
            self.poll(now, address.worker);
        }
    }

    /// Lets the scheduler handle something, and sends its answers.
    pub(super) fn with_scheduler(&mut self, now: Time, what: impl FnOnce(&mut SimulatedScheduler)) {
        let Some(scheduler) = self.permit_source.scheduler_mut() else { return };
        what(scheduler);
        for answer in std::mem::take(&mut scheduler.answers) {
            let way = &mut self.workers[answer.to.to.worker].from_scheduler;
            for at in self.world.network.carry(&mut self.dice, now, way) {
                self.agenda.note(at, WorldEvent::AnswerArrived { reply: answer.to, payload: answer.payload.clone() });
            }
        }
        for news in std::mem::take(&mut scheduler.news) {
            self.broadcast(now, &news.into());
        }
    }

    fn broadcast(&mut self, now: Time, payload: &Arc<[u8]>) {
        for worker in self.workers.iter_mut().filter(|worker| worker.session.is_some()) {
            for at in self.world.network.carry(&mut self.dice, now, &mut worker.from_scheduler) {
                self.agenda.note(at, WorldEvent::BroadcastArrived { by: worker.address, payload: Arc::clone(payload) });
            }
        }
    }

    pub(super) fn receive_broadcast(&mut self, now: Time, by: Address, payload: &[u8]) {
        if let Some(worker) = self.current(by) {
            // Epochs of virtual schedulers count from one and follow no wall clock.
            worker.handle(now, Event::News { resource: RESOURCE, payload, unix_ms: 0 });
            self.poll(now, by.worker);
        }
    }

    pub(super) fn receive_answer(&mut self, now: Time, reply: ReplyTo, payload: &[u8]) {
        if let Some(worker) = self.current(reply.to) {
            worker.handle(now, Event::Answered { batch: reply.batch, payload });
            self.poll(now, reply.to.worker);
        }
    }

    pub(super) fn count(&mut self, now: Time, from: Address, ask: AskNumber) {
        let Some(wanted) = self.current(from).and_then(|worker| worker.advance(ask, Stage::Waiting, Stage::Waiting))
        else {
            return;
        };
        if let PermitSource::Counter(counter) = &mut self.permit_source {
            let delay = counter.take(now, wanted.price.bill_of(from.worker));
            let arrives = now + self.world.network.grant.draw(&mut self.dice);
            self.agenda.note(arrives, WorldEvent::CallPermitted { to: from, ask, delay });
        }
    }

    pub(super) fn receive_permit(&mut self, now: Time, to: Address, ask: AskNumber, delay: Span) {
        let Some(worker) = self.current(to) else { return };
        if worker.advance(ask, Stage::Waiting, Stage::Permitted).is_some() {
            self.agenda.note(now + delay, WorldEvent::StartDue { by: to, ask });
        }
    }

    /// Asks again when the quota resets or the start can be reserved, or without excluded accounts; or gives up.
    pub(super) fn receive_refusal(&mut self, now: Time, number: usize, denial: &Denial) {
        let has_excluded = self.workers[number].include_all();
        let fleet = &mut self.outcome.fleets[self.workers[number].fleet];
        fleet.refused += 1;
        match denial {
            Denial::Refused(refused) => match (refused.code, refused.retry_after()) {
                (Code::QuotaSpent | Code::NotInTime, Some(wait)) => self.ask_later(now, number, wait),
                (Code::QuotaSpent, None) => {
                    fleet.given_up += 1;
                    self.count_call(now, number);
                }
                (_, _) if has_excluded => self.ask_later(now, number, WITHOUT_ACCOUNTS),
                (_, _) => self.finish_call(now, number),
            },
            Denial::TimedOut { .. } | Denial::Unreachable { .. } | Denial::TooManyAsks { .. } | Denial::Closed => {
                self.finish_call(now, number);
            }
        }
    }

    fn ask_later(&mut self, now: Time, number: usize, wait: Span) {
        let worker = &mut self.workers[number];
        if let Some(wanted) = worker.advance(worker.ask, Stage::Waiting, Stage::Idle) {
            worker.pause(wanted);
            self.agenda.note(now + wait, WorldEvent::PauseOver(worker.address));
        }
    }
}
