//! The run of a world.

mod asking;
mod calling;
mod upstream;
mod workers;

use crate::event_queue::EventQueue;
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::upstream::Upstream;
use crate::workers::backlog::Backlog;
use crate::workers::fleet::Fleet;
use crate::workers::permit_source::PermitSource;
use crate::workers::price::Prices;
use crate::workers::worker::{Address, Worker};
use crate::world::World;
use crate::world_error::WorldError;
use crate::world_event::WorldEvent;
use rampmeter_policy::Resource;
use rampmeter_policy::refusal::Refusal;
use rampmeter_protocol::time::Time;

/// Number of events between two reports of progress.
const WATCHED: u64 = 20_000;

pub(crate) struct Run<'a> {
    world: &'a World,
    prices: Prices<'a>,
    dice: Rng,
    agenda: EventQueue<WorldEvent>,
    permit_source: PermitSource,
    upstream: Upstream,
    workers: Vec<Worker>,
    backlogs: Vec<Backlog>,
    next_observation: Time,
    outcome: Outcome,
}

impl World {
    /// Checks that the world can run.
    ///
    /// # Errors
    /// Those of [`World::run`].
    pub fn check(&self) -> Result<(), WorldError> {
        Run::new(self).map(|_| ())
    }

    /// Runs the world.
    ///
    /// # Errors
    /// If the resource, its upstream or a fleet is invalid, or the world would never end.
    pub fn run(&self) -> Result<Outcome, WorldError> {
        self.run_watched(|_| ())
    }

    /// Runs the world, and calls `watch` with its time every 20 000 events.
    ///
    /// # Errors
    /// Those of [`World::run`].
    pub fn run_watched(&self, mut watch: impl FnMut(Time)) -> Result<Outcome, WorldError> {
        self.run_while(|now| {
            watch(now);
            true
        })
    }

    /// Runs the world until it ends or `goes_on`, called every 20 000 events, returns false.
    ///
    /// # Errors
    /// Those of [`World::run`].
    pub fn run_while(&self, goes_on: impl FnMut(Time) -> bool) -> Result<Outcome, WorldError> {
        Ok(Run::new(self)?.finish(goes_on))
    }
}

impl<'a> Run<'a> {
    fn new(world: &'a World) -> Result<Self, WorldError> {
        world.check_fleets()?;
        let resource = Resource::new(&world.resource).map_err(WorldError::Resource)?;
        let upstream = Upstream::new(&world.upstream, &world.resource)?;
        world.fleets.iter().try_for_each(|fleet| check_class(&resource, fleet))?;
        Ok(Run {
            world,
            prices: Prices::new(resource.clone(), &upstream, &world.fleets)?,
            dice: Rng::new(world.seed),
            agenda: EventQueue::new(),
            permit_source: PermitSource::new(world, resource),
            upstream,
            workers: Vec::new(),
            backlogs: Vec::new(),
            next_observation: Time::ORIGIN,
            outcome: Outcome::default(),
        })
    }

    pub(crate) fn finish(mut self, mut goes_on: impl FnMut(Time) -> bool) -> Outcome {
        self.world.fleets.iter().enumerate().for_each(|(number, fleet)| self.create_workers(number, fleet));
        self.plan_upstream();
        for (number, (at, _)) in self.world.incidents.iter().enumerate() {
            self.agenda.note(*at, WorldEvent::Incident { number });
        }
        let mut taken: u64 = 0;
        while self.take_next() {
            taken += 1;
            let is_asked = taken.is_multiple_of(WATCHED);
            if is_asked && !goes_on(self.agenda.next_at().unwrap_or(self.world.until)) {
                break;
            }
        }
        self.note_unfinished();
        if let PermitSource::Scheduler(scheduler) = self.permit_source {
            self.outcome.causes = scheduler.causes();
            (self.outcome.requests, self.outcome.grants) = scheduler.into_record();
        }
        self.outcome
    }

    fn note_unfinished(&mut self) {
        for worker in &self.workers {
            let since = worker.unfinished().map(|wanted| (worker.address.worker, wanted.since));
            self.outcome.fleets[worker.fleet].unfinished.extend(since);
        }
        for (result, backlog) in self.outcome.fleets.iter_mut().zip(&self.backlogs) {
            result.backlog.extend(backlog.waiting.iter().map(|wanted| wanted.since));
        }
    }

    /// Handles the next event, and returns whether there was one.
    fn take_next(&mut self) -> bool {
        let planned = self.agenda.next_at().unwrap_or(Time::NEVER);
        let wakeup = self.permit_source.next_wakeup();
        let over = planned == Time::NEVER && self.permit_source.waiting() == 0;
        if over || planned.min(wakeup) > self.world.until {
            return false;
        }
        self.observe(planned.min(wakeup));
        // The scheduler's own wake-ups come first: no message with a later time can have arrived.
        if wakeup <= planned {
            self.with_scheduler(wakeup, |scheduler| scheduler.wake(wakeup));
        } else if let Some((now, happening)) = self.agenda.pop() {
            self.take(now, happening);
        }
        true
    }

    /// Records the upstream's levels at every interval until `now`.
    fn observe(&mut self, now: Time) {
        let Some(interval) = self.world.observed else { return };
        while self.next_observation <= now && self.next_observation <= self.world.until {
            self.outcome.levels.push(self.upstream.levels(self.next_observation));
            self.next_observation += interval;
        }
    }

    fn take(&mut self, now: Time, happening: WorldEvent) {
        match happening {
            WorldEvent::ThinkTimeOver(address) => self.want(now, address),
            WorldEvent::WorkArrived { fleet } => self.arrive(now, fleet),
            WorldEvent::PauseOver(address) => self.try_again(now, address),
            WorldEvent::SessionTimer(address) => self.wake(now, address),
            WorldEvent::PermitRequestArrived { reply, payload } => {
                self.with_scheduler(now, |scheduler| scheduler.take_requests(now, reply, &payload));
            }
            WorldEvent::SettleArrived { payload } => {
                self.with_scheduler(now, |scheduler| scheduler.take_settles(now, &payload));
            }
            WorldEvent::AnswerArrived { reply, payload } => self.receive_answer(now, reply, &payload),
            WorldEvent::BroadcastArrived { by, payload } => self.receive_broadcast(now, by, &payload),
            WorldEvent::CounterAsked { from, ask } => self.count(now, from, ask),
            WorldEvent::CallPermitted { to, ask, delay } => self.receive_permit(now, to, ask, delay),
            WorldEvent::StartDue { by, ask } => self.start(now, by, ask),
            WorldEvent::CallArrived { by, ask, wanted, wait, request } => {
                self.call(now, by, ask, &wanted, wait, request);
            }
            WorldEvent::ResponseArrived { to, ask, reply } => self.receive_response(now, to, ask, reply),
            WorldEvent::PoliciesChange { number } => self.upstream.change(now, &self.world.upstream.changes[number].1),
            WorldEvent::LevelsAsked { asked } => self.poll_levels(now, asked),
            WorldEvent::LevelsArrived { asked, levels } => {
                self.with_scheduler(now, |scheduler| scheduler.read_levels(now, asked, &levels));
            }
            WorldEvent::Incident { number } => {
                let incident = &self.world.incidents[number].1;
                self.with_scheduler(now, |scheduler| scheduler.meet(now, incident));
            }
            WorldEvent::WorkerStops { worker } => self.stop(now, worker),
            WorldEvent::WorkerDies(address) => self.crash(now, address),
            WorldEvent::WorkerRestarts(address) => self.revive(now, address),
        }
    }

    fn current(&mut self, address: Address) -> Option<&mut Worker> {
        Some(&mut self.workers[address.worker]).filter(|worker| worker.address == address)
    }

    fn fleet(&self, worker: usize) -> &'a Fleet {
        &self.world.fleets[self.workers[worker].fleet]
    }
}

fn check_class(resource: &Resource, fleet: &Fleet) -> Result<(), WorldError> {
    let refused = |refusal: Refusal| WorldError::Fleet { fleet: fleet.name.clone(), reason: refusal.to_string() };
    fleet.class.as_deref().map_or(Ok(()), |class| resource.class(class).map(|_| ()).map_err(refused))
}
