//! A scheduler and what it has answered.

use super::amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::command::Command;
use rampmeter_scheduler_core::event::{Ask, Event, Outcome, Settle};
use rampmeter_scheduler_core::refusal::Refusal;
use rampmeter_scheduler_core::resource::Resource;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_scheduler_core::spec::ResourceSpec;

/// A scheduler and what it has answered, by the number of the request.
pub(crate) struct World {
    pub(crate) scheduler: Scheduler<usize>,
    pub(crate) asked: usize,
    pub(crate) answers: Vec<(Time, usize, Said)>,
}

/// Where answers to settles go.
pub(crate) const SETTLER: usize = usize::MAX;

/// An answer as a test reads it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    /// Start after this long.
    Granted(Span),
    Queued(u64, Span),
    Refused(Refusal),
    Settled,
}

/// A request as a test writes it.
#[derive(Clone, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) cost: Vec<(&'a str, f64)>,
    pub(crate) class: Option<&'a str>,
    pub(crate) mode: Mode,
    pub(crate) max_wait: Option<Span>,
    pub(crate) age: Span,
    pub(crate) progress: bool,
    pub(crate) client: Option<&'a str>,
}

pub(crate) fn wish<'a>(mode: Mode, cost: &[(&'a str, f64)]) -> Wish<'a> {
    let cost = cost.to_vec();
    Wish { id: None, cost, class: None, mode, max_wait: None, age: Span::ZERO, progress: false, client: None }
}

impl<'a> Wish<'a> {
    pub(crate) fn named(self, id: &'a str) -> Self {
        Wish { id: Some(id), ..self }
    }

    pub(crate) fn of_class(self, class: &'a str) -> Self {
        Wish { class: Some(class), ..self }
    }
}

impl World {
    pub(crate) fn new(spec: &ResourceSpec) -> Self {
        World::of(Scheduler::new(Resource::new(spec).unwrap(), 1, Time::ORIGIN))
    }

    pub(crate) fn of(scheduler: Scheduler<usize>) -> Self {
        World { scheduler, asked: 0, answers: Vec::new() }
    }

    /// Asks, and returns the number of the request.
    pub(crate) fn ask(&mut self, now: Time, wish: &Wish<'_>) -> usize {
        let to = self.asked;
        self.asked += 1;
        let resource = self.scheduler.resource();
        let class = wish.class.map_or(resource.default_class(), |class| resource.class(class).unwrap());
        let cost = wish.cost.iter().map(|(unit, units)| (*unit, amount(*units)));
        let bill = resource.bill(cost).unwrap();
        let id = wish.id.map(|id| PermitId::new(id).unwrap());
        let client = wish.client.map(Into::into);
        let Wish { mode, max_wait, age, progress, .. } = *wish;
        self.handle(now, Event::Ask(Ask { to, id, bill, class, mode, max_wait, age, progress, client }));
        to
    }

    pub(crate) fn settle(&mut self, now: Time, id: &str, outcome: Outcome) -> Said {
        self.handle(now, Event::Settle(Settle { to: Some(SETTLER), id: PermitId::new(id).unwrap(), outcome }));
        self.said(SETTLER).expect("a settle is answered at once")
    }

    /// Lets time pass, with every wake-up that is asked for.
    pub(crate) fn run_until(&mut self, end: Time) {
        while let Some(wakeup) = self.scheduler.next_wakeup()
            && wakeup.at <= end
        {
            self.handle(wakeup.at, Event::Wake);
        }
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event<usize>) {
        self.scheduler.handle(now, event);
        while let Some(command) = self.scheduler.poll_command() {
            let (to, said) = match command {
                Command::Grant(grant) => (grant.to, Said::Granted(grant.delay)),
                Command::Queued { to, position, eta, .. } => (to, Said::Queued(position, eta)),
                Command::Refuse { to, refusal, .. } => (to, Said::Refused(refusal)),
                Command::Settled { to, .. } => (to, Said::Settled),
            };
            self.answers.push((now, to, said));
        }
    }

    /// The last answer to a request.
    pub(crate) fn said(&self, request: usize) -> Option<Said> {
        self.answers.iter().rev().find(|(_, to, _)| *to == request).map(|(_, _, said)| said.clone())
    }

    /// The start that a request was granted.
    pub(crate) fn start(&self, request: usize) -> Option<Time> {
        self.answers.iter().filter(|(_, to, _)| *to == request).find_map(|(at, _, said)| match said {
            Said::Granted(delay) => Some(*at + *delay),
            Said::Queued(..) | Said::Refused(_) | Said::Settled => None,
        })
    }

    /// The level of the first limit in millionths, all promises paid.
    pub(crate) fn level_micros(&mut self, now: Time) -> i128 {
        self.scheduler.levels(now)[0].micros
    }
}
