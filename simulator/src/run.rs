//! A world as it runs.

use crate::agenda::Agenda;
use crate::dice::Dice;
use crate::fleet::Fleet;
use crate::gate::Gate;
use crate::network::Network;
use crate::outcome::{Call, FleetOutcome, Outcome};
use crate::strategy::Strategy;
use crate::upstream;
use crate::worker::{State, Worker, WorkerId};
use crate::world::{World, WorldError};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::bill::Bill;
use rampmeter_scheduler_core::command::Command;
use rampmeter_scheduler_core::event::{Ask, Event, Outcome as Settled, Settle};
use rampmeter_scheduler_core::resource::Resource;
use rampmeter_upstream::{Account, Cost};

/// A world as it runs.
pub(crate) struct Run<'a> {
    fleets: &'a [Fleet],
    asks: Vec<Asking>,
    network: Network,
    until: Time,
    dice: Dice,
    agenda: Agenda<Happening>,
    strategy: Strategy,
    gate: Gate,
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
        let shifted = self.shift.as_ref().filter(|_| self.is_shifted(now));
        shifted.map_or(&self.price, |(_, price)| price)
    }

    fn is_shifted(&self, now: Time) -> bool {
        self.shift.as_ref().is_some_and(|(every, _)| now.nanos() / every.nanos() % 2 == 1)
    }
}

/// All that happens, and to whom.
enum Happening {
    /// It has thought enough.
    Thought(WorkerId),
    /// It has paused enough after a 429, and tries again what it wanted then.
    Paused { worker: WorkerId, since: Time },
    /// The scheduler hears something.
    Heard(Event<WorkerId>),
    /// A permit reaches the worker, to be used after this time.
    Permitted { worker: WorkerId, id: PermitId, delay: Span },
    /// A refusal reaches the worker.
    Refused { worker: WorkerId, id: Option<PermitId> },
    /// A call reaches the upstream.
    Called { worker: WorkerId, id: PermitId, asked: Time, wait: Span },
    /// The response reaches the worker.
    Answered { worker: WorkerId, id: PermitId, verdict: Result<(), Span> },
    /// It is told to stop.
    Stopped(WorkerId),
}

impl<'a> Run<'a> {
    pub(crate) fn new(world: &'a World) -> Result<Self, WorldError> {
        let resource = Resource::new(&world.resource)?;
        let asks = world.fleets.iter().map(|fleet| asking(&resource, fleet)).collect::<Result<_, _>>()?;
        let workers = world.fleets.iter().map(|fleet| fleet.workers).sum();
        let mut run = Run {
            fleets: &world.fleets,
            asks,
            network: world.network,
            until: world.until,
            dice: Dice::new(world.seed),
            agenda: Agenda::new(),
            strategy: world.strategy,
            gate: Gate::new(world.strategy, resource, &world.resource.limits, workers),
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
            let wakeup = self.gate.next_wakeup();
            let over = planned == Time::NEVER && self.gate.waiting() == 0;
            if over || planned.min(wakeup) > self.until {
                return self.outcome;
            }
            // The scheduler's own wake-ups come first: nothing that is later can have been heard.
            if wakeup <= planned { self.tell_gate(wakeup, Event::Wake) } else { self.take_next() }
        }
    }

    fn take_next(&mut self) {
        let Some((now, happening)) = self.agenda.pop() else { return };
        match happening {
            Happening::Thought(worker) => self.ask(now, worker, now),
            Happening::Paused { worker, since } => self.ask(now, worker, since),
            Happening::Heard(event) => self.tell_gate(now, event),
            Happening::Permitted { worker, id, delay } => self.use_permit(now, worker, id, delay),
            Happening::Refused { worker, id } => self.be_refused(now, worker, id.as_ref()),
            Happening::Called { worker, id, asked, wait } => self.call(now, worker, id, asked, wait),
            Happening::Answered { worker, id, verdict } => self.take_answer(now, worker, id, verdict),
            Happening::Stopped(worker) => self.stop(now, worker),
        }
    }

    fn hire(&mut self, number: usize, fleet: &Fleet) {
        self.outcome.fleets.push(FleetOutcome { name: fleet.name.clone(), ..FleetOutcome::default() });
        for _ in 0..fleet.workers {
            let worker = self.workers.len();
            self.workers.push(Worker::new(number, fleet.calls, fleet.client(worker)));
            let thought = self.dice.between(Span::ZERO, fleet.think);
            self.agenda.note(fleet.from + thought, Happening::Thought(worker));
            if fleet.until < Time::NEVER {
                self.agenda.note(fleet.until, Happening::Stopped(worker));
            }
        }
    }

    /// Asks for what the worker has wanted since `since`.
    fn ask(&mut self, now: Time, number: WorkerId, since: Time) {
        let worker = &mut self.workers[number];
        if worker.state == State::Gone || !worker.has_more() {
            return;
        }
        let id = worker.next_permit(number, since);
        let asking = &self.asks[worker.fleet];
        let (bill, client) = (asking.price(since).bill.clone(), worker.client.clone());
        let delay = match &mut self.gate {
            Gate::Open => Span::ZERO,
            Gate::Shares(shares) => shares[number].take(now, &bill),
            Gate::Counter(_) | Gate::Scheduler(_) => {
                let mode = if self.strategy == Strategy::Reserve { Mode::Reserve } else { asking.ask.mode };
                let ask = Ask { to: number, id: Some(id), bill, client, mode, ..asking.ask.clone() };
                return self.send(now, Event::Ask(ask));
            }
        };
        self.agenda.note(now, Happening::Permitted { worker: number, id, delay });
    }

    /// Sends something to the scheduler.
    fn send(&mut self, now: Time, event: Event<WorkerId>) {
        let arrives = now + self.network.request.draw(&mut self.dice);
        self.agenda.note(arrives, Happening::Heard(event));
    }

    fn tell_gate(&mut self, now: Time, event: Event<WorkerId>) {
        match (&mut self.gate, event) {
            (Gate::Counter(counter), Event::Ask(Ask { to, id: Some(id), bill, .. })) => {
                let delay = counter.take(now, &bill);
                let arrives = now + self.network.grant.draw(&mut self.dice);
                self.agenda.note(arrives, Happening::Permitted { worker: to, id, delay });
            }
            (Gate::Scheduler(scheduler), event) => {
                scheduler.handle(now, event);
                let commands: Vec<_> = std::iter::from_fn(|| scheduler.poll_command()).collect();
                commands.into_iter().for_each(|command| self.obey(now, command));
            }
            (Gate::Open | Gate::Shares(_) | Gate::Counter(_), _) => {}
        }
    }

    fn obey(&mut self, now: Time, command: Command<WorkerId>) {
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

    /// A permit that comes after its worker has stopped is given back.
    fn use_permit(&mut self, now: Time, number: WorkerId, id: PermitId, delay: Span) {
        let worker = &mut self.workers[number];
        match &worker.state {
            State::Waiting { id: awaited, since } if *awaited == id => {
                let start = now + delay;
                let (asked, wait) = (*since, start.since(*since));
                worker.state = State::Calling { id: id.clone(), since: asked };
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
        let asking = &self.asks[fleet];
        let (shifted, price) = (asking.is_shifted(asked), asking.price(asked));
        let verdict = upstream::admit(&mut self.account, now, &price.cost);
        let answered = now + self.network.response.draw(&mut self.dice);
        let estimate = self.workers[number].estimate.take();
        let call = Call { worker: number, at: now, shifted, wait, estimate, ok: verdict.is_ok(), answered };
        self.outcome.fleets[fleet].calls.push(call);
        self.agenda.note(answered, Happening::Answered { worker: number, id, verdict });
    }

    /// Settles; after a 429 the same is wanted still.
    fn take_answer(&mut self, now: Time, number: WorkerId, id: PermitId, verdict: Result<(), Span>) {
        self.send(now, Event::Settle(Settle { to: None, id, outcome: Settled::Used(Vec::new()) }));
        let worker = &mut self.workers[number];
        match (verdict, &worker.state) {
            (Err(retry_after), State::Calling { since, .. }) => {
                worker.attempts += 1;
                let pause = self.strategy.pause(worker.attempts, retry_after, &mut self.dice);
                self.agenda.note(now + pause, Happening::Paused { worker: number, since: *since });
            }
            (Ok(()) | Err(_), _) => {
                worker.attempts = 0;
                worker.calls_left = worker.calls_left.map(|left| left.saturating_sub(1));
                self.think(now, number);
            }
        }
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
