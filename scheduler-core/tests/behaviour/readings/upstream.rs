//! Workers in saturation before an upstream whose windows begin when it likes.

use crate::common::{Said, World, limit, ms, resource, span, wish};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::adaptation::observation::{Observation, Reading, Scope, Verdict};
use rampmeter_scheduler_core::event::{Event, Outcome};
use rampmeter_scheduler_core::policy::spec::{Algorithm, Alignment, Margin, ResourceSpec};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const CAPACITY: u64 = 60;
const PERIOD: u64 = 20_000;
const WORKERS: usize = 90;
/// A call is on its way for so long at most, in milliseconds, and so is its answer.
const WAY: u64 = 30;

/// What an upstream does besides counting.
#[derive(Clone, Copy)]
pub(super) struct Habits {
    /// Its windows begin so much later than at multiples of the period.
    pub(super) phase: u64,
    /// From this time on they begin a third of a period later.
    pub(super) jumps_at: Option<u64>,
    /// Headers count whole seconds.
    pub(super) whole_seconds: bool,
    /// Another process calls every so many milliseconds.
    pub(super) strangers: Option<u64>,
}

/// What came of it after the first windows.
#[derive(Debug)]
pub(super) struct Outcomes {
    pub(super) calls: u64,
    pub(super) rejected: u64,
    pub(super) strangers: u64,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Stranger,
    Arrives { id: String },
    Answered { id: String, rejected: bool, left: u64, reset: u64 },
}

struct Play {
    world: World,
    habits: Habits,
    steps: BinaryHeap<Reverse<(u64, u64, Step)>>,
    /// The window of the upstream, and what it has served in it.
    window: (u64, u64),
    asked: Vec<String>,
    told: usize,
    random: u64,
    counted_from: u64,
    outcomes: Outcomes,
}

/// Plays saturation until `end`, and counts from `counted_from` on.
pub(super) fn saturated(seed: u64, habits: Habits, (counted_from, end): (u64, u64)) -> Outcomes {
    let mut fixed = limit("requests", CAPACITY as f64, span(PERIOD));
    (fixed.algorithm, fixed.margin) = (Algorithm::FixedWindow(Alignment::Epoch), Margin::Auto);
    let world = World::new(&ResourceSpec { ..resource(vec![fixed]) });
    let mut play = Play {
        world,
        habits,
        steps: BinaryHeap::new(),
        window: (0, 0),
        asked: Vec::new(),
        told: 0,
        random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        counted_from,
        outcomes: Outcomes { calls: 0, rejected: 0, strangers: 0 },
    };
    play.steps.extend(habits.strangers.map(|every| Reverse((every, 0, Step::Stranger))));
    (0..WORKERS).for_each(|_| play.ask(0));
    play.run(end);
    play.outcomes
}

impl Play {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn run(&mut self, end: u64) {
        loop {
            let step = self.steps.peek().map_or(end, |Reverse((at, ..))| *at).min(end);
            let wakeup = self.world.scheduler.next_wakeup().map_or(Time::NEVER, |wakeup| wakeup.at);
            if wakeup <= ms(step) {
                self.world.handle(wakeup, Event::Wake);
            } else if step >= end {
                return;
            } else if let Some(Reverse((at, _, step))) = self.steps.pop() {
                self.take(at, step);
            }
            self.send();
        }
    }

    fn ask(&mut self, at: u64) {
        let id = format!("p{}", self.asked.len());
        self.world.ask(ms(at), &wish(Mode::Wait, &[]).named(&id));
        self.asked.push(id);
        self.send();
    }

    /// Sends the calls whose permits have come.
    fn send(&mut self) {
        for (at, to, said) in self.world.answers[self.told..].to_vec() {
            let Said::Granted(delay) = said else { continue };
            let start = (at + delay).since(Time::ORIGIN).nanos().div_ceil(1_000_000);
            let arrives = start + self.random(WAY);
            let id = self.asked[to].clone();
            self.steps.push(Reverse((arrives, self.random, Step::Arrives { id })));
        }
        self.told = self.world.answers.len();
    }

    /// Serves a call; the rest and the milliseconds until the reset.
    fn serve(&mut self, at: u64) -> (bool, u64, u64) {
        let later = self.habits.jumps_at.is_some_and(|jump| at >= jump);
        let shifted = at + PERIOD - self.habits.phase + if later { PERIOD * 2 / 3 } else { 0 };
        let number = shifted / PERIOD + if later { 1_000_000 } else { 0 };
        if self.window.0 != number {
            self.window = (number, 0);
        }
        let served = self.window.1 < CAPACITY;
        self.window.1 += u64::from(served);
        (served, CAPACITY - self.window.1, PERIOD - shifted % PERIOD)
    }

    fn take(&mut self, at: u64, step: Step) {
        let counts = u64::from(at >= self.counted_from);
        match step {
            Step::Stranger => {
                let (served, ..) = self.serve(at);
                self.outcomes.strangers += counts * u64::from(served);
                let every = self.habits.strangers.unwrap_or(PERIOD);
                self.steps.push(Reverse((at + every, self.random, Step::Stranger)));
            }
            Step::Arrives { id } => {
                let (served, left, reset) = self.serve(at);
                self.outcomes.calls += counts * u64::from(served);
                self.outcomes.rejected += counts * u64::from(!served);
                let answered = Step::Answered { id, rejected: !served, left, reset };
                let back = at + self.random(WAY);
                self.steps.push(Reverse((back, self.random, answered)));
            }
            Step::Answered { id, rejected, left, reset } => {
                let reset = if self.habits.whole_seconds { reset.div_ceil(1000) * 1000 } else { reset };
                let grain = if self.habits.whole_seconds { Span::from_secs(1) } else { Span::from_millis(1) };
                let told = Span::from_millis(reset);
                let reading = Reading {
                    scope: Scope::Unnamed,
                    remaining: Amount::new(left as f64).unwrap(),
                    capacity: Some(Amount::new(CAPACITY as f64).unwrap()),
                    reset: Some(told),
                    reset_grain: grain,
                };
                let limited = Verdict::Limited { scope: Scope::Unnamed, retry_after: Some(told), others: false };
                let verdict = if rejected { limited } else { Verdict::Passed };
                let observation = Observation { verdict, readings: vec![reading], spent: Vec::new() };
                self.world.settle_observed(ms(at), &id, Outcome::Used(Vec::new()), Some(observation));
                self.ask(at);
            }
        }
    }
}
