//! How workers begin, stop and die.

use super::Run;
use crate::outcome::FleetOutcome;
use crate::rng::Rng;
use crate::workers::backlog::Backlog;
use crate::workers::fleet::{Arrivals, Fleet};
use crate::workers::worker::{Address, RESOURCE, Stage, Worker};
use crate::world_event::WorldEvent;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_session::{Event, Session};

impl Run<'_> {
    pub(super) fn create_workers(&mut self, number: usize, fleet: &Fleet) {
        self.outcome.fleets.push(FleetOutcome { name: fleet.name.clone(), ..FleetOutcome::default() });
        let first = self.workers.len();
        for worker in first..first + fleet.workers {
            let labels = self.world.labels_of(worker);
            // Independent of the strategy, so that workers want the same calls under each.
            let chance = Rng::new(self.world.seed).fork(u64::MAX - worker as u64);
            self.workers.push(Worker::new(number, worker, fleet, labels, &self.world.network, chance));
            if fleet.until < Time::NEVER {
                self.agenda.note(fleet.until, WorldEvent::WorkerStops { worker });
            }
            self.begin(fleet.from, worker);
        }
        let chance = Rng::new(self.world.seed).fork(number as u64);
        let mut backlog = Backlog::new(number, fleet, first..first + fleet.workers, chance);
        if let Some(at) = backlog.first(fleet.from).filter(|at| *at < fleet.until) {
            self.agenda.note(at, WorldEvent::WorkArrived { fleet: number });
        }
        self.backlogs.push(backlog);
    }

    pub(super) fn begin(&mut self, now: Time, number: usize) {
        let (fleet, worker) = (self.fleet(number), &mut self.workers[number]);
        worker.stage = Stage::Idle;
        if self.permit_source.scheduler().is_some() && !fleet.foreign {
            let mut session = Session::new(self.dice.number(0, u64::MAX - 1).into());
            session.handle(now, Event::Connected);
            worker.session = Some(Box::new(session));
        }
        if let Some(crashes) = fleet.crashes {
            let at = now + Span::from_nanos(worker.dice.exponential(crashes.every.nanos()));
            if at < crashes.until {
                self.agenda.note(at, WorldEvent::WorkerDies(worker.address));
            }
        }
        if fleet.arrivals == Arrivals::Loop {
            let thought = now + worker.dice.between(Span::ZERO, fleet.think);
            self.agenda.note(thought, WorldEvent::ThinkTimeOver(worker.address));
        }
    }

    pub(super) fn arrive(&mut self, now: Time, fleet: usize) {
        if let Some(next) = self.backlogs[fleet].arrive(now, &self.prices) {
            self.agenda.note(next, WorldEvent::WorkArrived { fleet });
        }
        self.hand_out(now, fleet);
    }

    fn hand_out(&mut self, now: Time, fleet: usize) {
        for worker in self.backlogs[fleet].workers.clone() {
            if self.workers[worker].is_free() && !self.take_work(now, worker) {
                return;
            }
        }
    }

    /// Gives a worker the next waiting work, and returns whether there was some.
    pub(super) fn take_work(&mut self, now: Time, worker: usize) -> bool {
        let fleet = self.workers[worker].fleet;
        let Some(wanted) = self.backlogs[fleet].waiting.pop_front() else { return false };
        self.seek_permit(now, worker, wanted);
        true
    }

    /// Stops a worker, which finishes its current call and cancels its waiting request.
    pub(super) fn stop(&mut self, now: Time, number: usize) {
        let worker = &mut self.workers[number];
        worker.calls_left = Some(0);
        match worker.stage {
            Stage::Waiting => {
                worker.handle(now, Event::Cancelled { ask: worker.ask, resource: RESOURCE });
                worker.stage = Stage::Gone;
            }
            Stage::Permitted => {
                let settle = worker.id().map(Settle::unused);
                settle.into_iter().for_each(|settle| {
                    worker.handle(now, Event::Settled { resource: RESOURCE, settle: Box::new(settle) });
                });
                worker.stage = Stage::Gone;
            }
            Stage::Idle | Stage::Pausing | Stage::Calling | Stage::Dead | Stage::Gone => {}
        }
        self.poll(now, number);
    }

    pub(super) fn crash(&mut self, now: Time, address: Address) {
        let Some(crashes) = self.fleet(address.worker).crashes else { return };
        let Some(worker) = self.current(address).filter(|worker| worker.has_more()) else { return };
        let unfinished = worker.die();
        let (address, fleet) = (worker.address, worker.fleet);
        self.backlogs[fleet].take_back(unfinished);
        self.agenda.note(now + crashes.pause, WorldEvent::WorkerRestarts(address));
        self.hand_out(now, fleet);
    }

    pub(super) fn revive(&mut self, now: Time, address: Address) {
        if self.workers[address.worker].has_more() {
            self.begin(now, address.worker);
            self.take_work(now, address.worker);
        }
    }
}
