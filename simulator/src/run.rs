//! A world as it runs.

use crate::agenda::Agenda;
use crate::dice::Dice;
use crate::fleet::{Clients, Fleet};
use crate::network::Network;
use crate::outcome::{Call, FleetOutcome, Outcome};
use crate::upstream;
use crate::worker::{State, Worker, WorkerId};
use crate::world::{World, WorldError};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::bill::Bill;
use rampmeter_scheduler_core::command::Command;
use rampmeter_scheduler_core::event::{Ask, Event, Outcome as Settled, Settle};
use rampmeter_scheduler_core::resource::Resource;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_upstream::{Account, Cost};
use std::sync::Arc;

/// A world as it runs.
pub(crate) struct Run<'a> {
    fleets: &'a [Fleet],
    asks: Vec<Asking>,
    network: Network,
    until: Time,
    dice: Dice,
    agenda: Agenda<Happening>,
    scheduler: Scheduler<WorkerId>,
    account: Account,
    workers: Vec<Worker>,
    outcome: Outcome,
}

/// What the workers of a fleet say, and what their calls cost.
struct Asking {
    ask: Ask<WorkerId>,
    price: Price,
    shift: Option<(Span, Price)>,
}

/// A cost as scheduler and upstream see it.
struct Price {
    bill: Bill,
    cost: Cost,
}

impl Asking {
    /// What a call costs that is asked for at `now`.
    fn price(&self, now: Time) -> &Price {
        match &self.shift {
            Some((every, price)) if now.nanos() / every.nanos() % 2 == 1 => price,
            Some(_) | None => &self.price,
        }
    }
}

/// All that happens, and to whom.
enum Happening {
    /// It has thought enough.
    Thought(WorkerId),
    /// The scheduler hears something.
    Heard(Event<WorkerId>),
    /// A permit reaches the worker, to be used after this time.
    Permitted { worker: WorkerId, id: PermitId, delay: Span },
    /// A refusal reaches the worker.
    Refused { worker: WorkerId, id: Option<PermitId> },
    /// A call reaches the upstream.
    Called { worker: WorkerId, id: PermitId, asked: Time, wait: Span },
    /// The response reaches the worker.
    Answered { worker: WorkerId, id: PermitId },
    /// It is told to stop.
    Stopped(WorkerId),
}

impl<'a> Run<'a> {
    pub(crate) fn new(world: &'a World) -> Result<Self, WorldError> {
        let resource = Resource::new(&world.resource)?;
        let asks = world.fleets.iter().map(|fleet| asking(&resource, fleet)).collect::<Result<_, _>>()?;
        let mut run = Run {
            fleets: &world.fleets,
            asks,
            network: world.network,
            until: world.until,
            dice: Dice::new(world.seed),
            agenda: Agenda::new(),
            scheduler: Scheduler::new(resource, 1, Time::ORIGIN),
            account: upstream::account(&world.resource)?,
            workers: Vec::new(),
            outcome: Outcome::default(),
        };
        for (number, fleet) in world.fleets.iter().enumerate() {
            run.hire(number, fleet);
        }
        Ok(run)
    }

    /// Takes what happens next, until nothing does.
    pub(crate) fn finish(mut self) -> Outcome {
        loop {
            let planned = self.agenda.next_at().unwrap_or(Time::NEVER);
            let wakeup = self.scheduler.next_wakeup().map_or(Time::NEVER, |wakeup| wakeup.at);
            let over = planned == Time::NEVER && self.scheduler.waiting() == 0;
            if over || planned.min(wakeup) > self.until {
                return self.outcome;
            }
            // The scheduler's own wake-ups come first: nothing that is later can have been heard.
            if wakeup <= planned { self.tell_scheduler(wakeup, Event::Wake) } else { self.take_next() }
        }
    }

    fn take_next(&mut self) {
        let Some((now, happening)) = self.agenda.pop() else { return };
        match happening {
            Happening::Thought(worker) => self.ask(now, worker),
            Happening::Heard(event) => self.tell_scheduler(now, event),
            Happening::Permitted { worker, id, delay } => self.use_permit(now, worker, id, delay),
            Happening::Refused { worker, id } => self.be_refused(now, worker, id.as_ref()),
            Happening::Called { worker, id, asked, wait } => self.call(now, worker, id, asked, wait),
            Happening::Answered { worker, id } => self.settle(now, worker, id),
            Happening::Stopped(worker) => self.stop(now, worker),
        }
    }

    fn hire(&mut self, number: usize, fleet: &Fleet) {
        self.outcome.fleets.push(FleetOutcome { name: fleet.name.clone(), ..FleetOutcome::default() });
        for _ in 0..fleet.workers {
            let worker = self.workers.len();
            let client = match fleet.clients {
                Clients::Unnamed => None,
                Clients::One => Some(Arc::from(fleet.name.as_str())),
                Clients::Each => Some(Arc::from(format!("{}-{worker}", fleet.name))),
            };
            self.workers.push(Worker::new(number, fleet.calls, client));
            let thought = self.dice.between(Span::ZERO, fleet.think);
            self.agenda.note(fleet.from + thought, Happening::Thought(worker));
            if fleet.until < Time::NEVER {
                self.agenda.note(fleet.until, Happening::Stopped(worker));
            }
        }
    }

    fn ask(&mut self, now: Time, number: WorkerId) {
        let worker = &mut self.workers[number];
        if worker.state == State::Gone || !worker.has_more() {
            return;
        }
        let id = worker.next_permit(number, now);
        let asking = &self.asks[worker.fleet];
        let (bill, client) = (asking.price(now).bill.clone(), worker.client.clone());
        let ask = Ask { to: number, id: Some(id), bill, client, ..asking.ask.clone() };
        self.send(now, Event::Ask(ask));
    }

    /// Sends something to the scheduler.
    fn send(&mut self, now: Time, event: Event<WorkerId>) {
        let arrives = now + self.network.request.draw(&mut self.dice);
        self.agenda.note(arrives, Happening::Heard(event));
    }

    fn tell_scheduler(&mut self, now: Time, event: Event<WorkerId>) {
        self.scheduler.handle(now, event);
        while let Some(command) = self.scheduler.poll_command() {
            let arrives = now + self.network.grant.draw(&mut self.dice);
            match command {
                Command::Grant(grant) => {
                    let (worker, id, delay) = (grant.to, grant.id, grant.delay);
                    self.agenda.note(arrives, Happening::Permitted { worker, id, delay });
                }
                Command::Refuse { to, id, .. } => self.agenda.note(arrives, Happening::Refused { worker: to, id }),
                Command::Queued { to, eta, .. } => drop(self.workers[to].estimate.get_or_insert(eta)),
                Command::Settled { .. } => {}
            }
        }
    }

    /// A permit that comes after its worker has stopped is given back.
    fn use_permit(&mut self, now: Time, number: WorkerId, id: PermitId, delay: Span) {
        let worker = &mut self.workers[number];
        match &worker.state {
            State::Waiting { id: awaited, since } if *awaited == id => {
                let start = now + delay;
                let (asked, wait) = (*since, start.since(*since));
                worker.state = State::Calling { id: id.clone() };
                worker.calls_left = worker.calls_left.map(|left| left - 1);
                let arrives = start + self.network.call.draw(&mut self.dice);
                self.agenda.note(arrives, Happening::Called { worker: number, id, asked, wait });
            }
            State::Waiting { .. } | State::Thinking | State::Calling { .. } | State::Gone => self.give_back(now, id),
        }
    }

    fn give_back(&mut self, now: Time, id: PermitId) {
        self.send(now, Event::Settle(Settle { to: None, id, outcome: Settled::Unused }));
    }

    fn be_refused(&mut self, now: Time, number: WorkerId, id: Option<&PermitId>) {
        let worker = &self.workers[number];
        let awaited = matches!(&worker.state, State::Waiting { id: awaited, .. } if Some(awaited) == id);
        if awaited {
            self.outcome.fleets[worker.fleet].refused += 1;
            self.think(now, number);
        }
    }

    fn call(&mut self, now: Time, number: WorkerId, id: PermitId, asked: Time, wait: Span) {
        let fleet = self.workers[number].fleet;
        let ok = upstream::admits(&mut self.account, now, &self.asks[fleet].price(asked).cost);
        let answered = now + self.network.response.draw(&mut self.dice);
        let estimate = self.workers[number].estimate.take();
        self.outcome.fleets[fleet].calls.push(Call { worker: number, at: now, wait, estimate, ok, answered });
        self.agenda.note(answered, Happening::Answered { worker: number, id });
    }

    fn settle(&mut self, now: Time, number: WorkerId, id: PermitId) {
        self.send(now, Event::Settle(Settle { to: None, id, outcome: Settled::Used(Vec::new()) }));
        self.think(now, number);
    }

    fn think(&mut self, now: Time, number: WorkerId) {
        let worker = &mut self.workers[number];
        if worker.state == State::Gone {
            return;
        }
        worker.state = State::Thinking;
        let think = self.fleets[worker.fleet].think;
        let half = Span::from_nanos(think.nanos() / 2);
        let thought = now + self.dice.between(half, half + think);
        self.agenda.note(thought, Happening::Thought(number));
    }

    /// It finishes a call that it is at, and cancels what it waits for.
    fn stop(&mut self, now: Time, number: WorkerId) {
        match std::mem::replace(&mut self.workers[number].state, State::Gone) {
            State::Waiting { id, .. } => self.give_back(now, id),
            State::Thinking | State::Calling { .. } | State::Gone => {}
        }
    }
}

fn asking(resource: &Resource, fleet: &Fleet) -> Result<Asking, WorldError> {
    let refused = |refusal| WorldError::Fleet { fleet: fleet.name.clone(), refusal };
    let class = fleet.class.as_deref().map_or(Ok(resource.default_class()), |class| resource.class(class));
    let price = |cost: &[(String, Amount)]| {
        let bill = resource.bill(cost.iter().map(|(unit, amount)| (unit.as_str(), *amount))).map_err(refused)?;
        Ok::<_, WorldError>(Price { bill, cost: upstream::cost(cost)? })
    };
    let shift = fleet.shift.as_ref().map(|shift| Ok::<_, WorldError>((shift.every, price(&shift.to)?))).transpose()?;
    let price = price(&fleet.cost)?;
    let ask = Ask {
        to: 0,
        id: None,
        bill: price.bill.clone(),
        class: class.map_err(refused)?,
        mode: fleet.mode,
        max_wait: None,
        age: Span::ZERO,
        progress: true,
        client: None,
    };
    Ok(Asking { ask, price, shift })
}
