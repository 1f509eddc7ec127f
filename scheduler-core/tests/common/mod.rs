//! What the tests of the core share: short ways to say who asks for what, and a naive judge.

#![allow(dead_code, reason = "every test uses a part")]

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::command::Command;
use rampmeter_scheduler_core::event::{Ask, Event, Outcome, Settle};
use rampmeter_scheduler_core::refusal::Refusal;
use rampmeter_scheduler_core::resource::Resource;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_scheduler_core::spec::{ClassSpec, LimitSpec, Margin, ResourceSpec};

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

pub(crate) fn amount(units: f64) -> Amount {
    Amount::new(units).unwrap()
}

pub(crate) fn ms(millis: u64) -> Time {
    Time::ORIGIN + Span::from_millis(millis)
}

pub(crate) fn span(millis: u64) -> Span {
    Span::from_millis(millis)
}

/// A limit without margin, called after its unit.
pub(crate) fn limit(unit: &str, capacity: f64, period: Span) -> LimitSpec {
    let margin = Margin::Fixed(Amount::ZERO);
    LimitSpec { name: name(unit), unit: name(unit), capacity: amount(capacity), period, margin }
}

pub(crate) fn class(called: &str, headroom: f64) -> ClassSpec {
    ClassSpec { headroom, ..ClassSpec::new(name(called)) }
}

pub(crate) fn resource(limits: Vec<LimitSpec>) -> ResourceSpec {
    ResourceSpec::new(name("api"), limits)
}

/// A scheduler and what it has answered, by the number of the request.
pub(crate) struct World {
    pub(crate) scheduler: Scheduler<usize>,
    pub(crate) asked: usize,
    pub(crate) answers: Vec<(Time, usize, Said)>,
}

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
#[derive(Clone)]
pub(crate) struct Wish<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) cost: Vec<(&'a str, f64)>,
    pub(crate) class: Option<&'a str>,
    pub(crate) mode: Mode,
    pub(crate) max_wait: Option<Span>,
    pub(crate) age: Span,
    pub(crate) progress: bool,
}

pub(crate) fn wish<'a>(mode: Mode, cost: &[(&'a str, f64)]) -> Wish<'a> {
    let cost = cost.to_vec();
    Wish { id: None, cost, class: None, mode, max_wait: None, age: Span::ZERO, progress: false }
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
        let Wish { mode, max_wait, age, progress, .. } = *wish;
        self.handle(now, Event::Ask(Ask { to, id, bill, class, mode, max_wait, age, progress }));
        to
    }

    pub(crate) fn settle(&mut self, now: Time, id: &str, outcome: Outcome) -> Said {
        let to = usize::MAX;
        self.handle(now, Event::Settle(Settle { to: Some(to), id: PermitId::new(id).unwrap(), outcome }));
        self.said(to).expect("a settle is answered at once")
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
        self.answers.iter().find_map(|(at, to, said)| match said {
            Said::Granted(delay) if *to == request => Some(*at + *delay),
            _ => None,
        })
    }
}

/// A token bucket the slow way: replays all starts, in fractions of a millionth.
pub(crate) struct Judge {
    capacity: i128,
    period: i128,
}

impl Judge {
    pub(crate) fn new(limit: &LimitSpec) -> Self {
        Judge { capacity: i128::from(limit.capacity.micros()), period: i128::from(limit.period.nanos()) }
    }

    /// The lowest level that these calls, by start and cost, ever leave behind, below zero if one
    /// found too little. All in millionths times the period in nanoseconds.
    pub(crate) fn lowest(&self, calls: &[(Time, Amount)]) -> i128 {
        let mut sorted = calls.to_vec();
        sorted.sort_by_key(|(at, _)| *at);
        let full = self.capacity * self.period;
        let (mut level, mut last, mut lowest) = (full, 0, full);
        for (at, cost) in sorted {
            let at = i128::from(at.nanos());
            level = full.min(level + (at - last) * self.capacity);
            level -= i128::from(cost.micros()) * self.period;
            last = at;
            lowest = lowest.min(level);
        }
        lowest
    }
}
