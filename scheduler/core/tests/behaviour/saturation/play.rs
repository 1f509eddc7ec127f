//! Workers in saturation, on their way to an upstream and back.

use super::upstream::{Answer, Habits, Headers, Upstream};
use super::{PERIOD, spec};
use crate::prelude::*;
use rampmeter_scheduler_core::adaptation::observation::Reading;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The longest time that a call, or its answer, is on its way, in milliseconds.
const WAY: u64 = 30;
/// How long a write to the store and a failover take, in milliseconds.
const WRITE: u64 = 5;
const FAILOVER: u64 = 100;

/// Events besides the upstream's own.
#[derive(Clone, Copy, Default)]
pub(super) struct Events {
    /// Strangers call at this interval in milliseconds, until a window has served them this often.
    /// They use one key in twenty.
    pub(super) strangers: Option<(u64, u64)>,
    /// The interval in milliseconds at which the scheduler is killed.
    pub(super) kills: Option<u64>,
    /// The longest time in milliseconds for which a worker rests before its next call.
    pub(super) rest: u64,
    /// One worker's answers tell of random windows.
    pub(super) a_worker_lies: bool,
}

/// The outcomes from the counted time on.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    pub(super) calls: u64,
    pub(super) rejected: u64,
    pub(super) strangers: u64,
    /// Rejections of keys that strangers leave alone.
    pub(super) rejected_elsewhere: u64,
    pub(super) kills: u64,
    pub(super) disbelieved: u64,
}

impl Outcomes {
    /// The share of calls that was rejected, in percent.
    pub(super) fn rejected_share(&self) -> f64 {
        100.0 * self.rejected as f64 / (self.calls + self.rejected).max(1) as f64
    }

    /// The share of `available` that was used, in percent, less what strangers had.
    pub(super) fn used(&self, available: u64) -> f64 {
        100.0 * self.calls as f64 / (available - self.strangers) as f64
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Stranger,
    Wants(u64),
    Asks(usize),
    Arrives(usize),
    Answered(usize, Answer),
    Written,
    Dies,
}

/// A call that a worker wants.
struct Wanted {
    id: String,
    worker: u64,
    is_granted: bool,
}

pub(super) struct Play {
    world: World,
    events: Events,
    headers: Headers,
    keys: u64,
    upstream: Upstream,
    steps: BinaryHeap<Reverse<(u64, u64, Step)>>,
    wanted: Vec<Wanted>,
    waiting: BTreeSet<usize>,
    /// The call of each request to the present scheduler.
    asked: Vec<usize>,
    answers_read: usize,
    /// The last checkpoint that is stored, and the one that is being written.
    stored: Option<(Time, Checkpoint)>,
    writing: Option<(Time, Checkpoint)>,
    epoch: Epoch,
    /// The last time that the scheduler has heard of.
    now: Time,
    down_until: u64,
    random: u64,
    counted_from: u64,
    pub(super) outcomes: Outcomes,
}

/// Plays saturation by `workers` workers until `end`, and counts outcomes from `counted_from` on.
pub(super) fn saturated(
    seed: u64,
    workers: u64,
    (habits, events): (&Habits, Events),
    (counted_from, end): (u64, u64),
) -> Outcomes {
    let scheduler = Scheduler::new(Resource::new(&spec(habits)).unwrap(), Epoch::FIRST, Time::ORIGIN);
    let mut play = Play {
        world: World::of(if events.kills.is_some() { scheduler.fenced() } else { scheduler }),
        events,
        headers: habits.headers,
        keys: habits.keys,
        upstream: Upstream::new(habits.clone()),
        steps: BinaryHeap::new(),
        wanted: Vec::new(),
        waiting: BTreeSet::new(),
        asked: Vec::new(),
        answers_read: 0,
        stored: None,
        writing: None,
        epoch: Epoch::FIRST,
        now: Time::ORIGIN,
        down_until: 0,
        random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        counted_from,
        outcomes: Outcomes::default(),
    };
    play.steps.extend(events.strangers.map(|(every, _)| Reverse((every, 0, Step::Stranger))));
    play.steps.extend(events.kills.map(|every| Reverse((every, 0, Step::Dies))));
    (0..workers).for_each(|worker| play.want(0, worker));
    play.run(&spec(habits), end);
    play.outcomes.disbelieved += play.world.scheduler.counters().disbelieved;
    play.outcomes
}

impl Play {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn run(&mut self, spec: &ResourceSpec, end: u64) {
        loop {
            self.send();
            let step = self.steps.peek().map_or(end, |Reverse((at, ..))| *at).min(end);
            let write = self.world.scheduler.next_checkpoint().filter(|_| self.writing.is_none());
            let wakeup = self.world.scheduler.next_wakeup().map_or(Time::NEVER, |wakeup| wakeup.at);
            if let Some(write) = write.map(|write| write.max(self.now)).filter(|write| *write <= ms(step).min(wakeup)) {
                self.write(write);
            } else if wakeup <= ms(step) {
                self.now = self.now.max(wakeup);
                self.world.handle(wakeup, Event::Wake);
            } else if step >= end {
                return;
            } else if let Some(Reverse((at, _, step))) = self.steps.pop() {
                self.take(spec, at, step);
            }
        }
    }

    fn plan(&mut self, at: u64, step: Step) {
        self.steps.push(Reverse((at, self.random, step)));
    }

    fn write(&mut self, at: Time) {
        self.now = at;
        let checkpoint = self.world.scheduler.checkpoint(at).expect("no other is under way");
        self.writing = Some((at, checkpoint));
        self.plan(millis_up(at) + WRITE, Step::Written);
    }

    fn want(&mut self, at: u64, worker: u64) {
        let number = self.wanted.len();
        self.wanted.push(Wanted { id: format!("p{number}"), worker, is_granted: false });
        self.waiting.insert(number);
        self.ask(at, number);
    }

    fn ask(&mut self, at: u64, number: usize) {
        let Wanted { id, worker, .. } = &self.wanted[number];
        let (id, key) = (id.clone(), (worker % self.keys.max(1)).to_string());
        let mut wish = wish(Mode::Wait, &[]).named(&id);
        wish.labels = if self.keys > 0 { vec![("key", key.as_str())] } else { Vec::new() };
        let to = self.world.ask(ms(at), &wish);
        assert_eq!(to, self.asked.len(), "requests are numbered");
        self.asked.push(number);
    }

    /// Sends the calls whose permits have come.
    fn send(&mut self) {
        while let Some((at, to, answer)) = self.world.answers.get(self.answers_read).cloned() {
            self.answers_read += 1;
            let Some(number) = self.asked.get(to).copied() else { continue };
            match answer {
                SentAnswer::Granted(delay) if !self.wanted[number].is_granted => {
                    self.wanted[number].is_granted = true;
                    self.waiting.remove(&number);
                    let way = self.random(WAY);
                    self.plan(millis_up(at + delay) + way, Step::Arrives(number));
                }
                SentAnswer::Refused(_) if !self.wanted[number].is_granted => {
                    self.plan(millis_up(at) + WAY, Step::Asks(number));
                }
                SentAnswer::Granted(_) | SentAnswer::Refused(_) | SentAnswer::Queued(..) => {}
                SentAnswer::Settled | SentAnswer::Extended | SentAnswer::Frozen(..) => {}
            }
        }
    }

    fn take(&mut self, spec: &ResourceSpec, at: u64, step: Step) {
        let counts = u64::from(at >= self.counted_from);
        self.now = self.now.max(ms(at));
        match step {
            Step::Stranger => {
                let (every, most) = self.events.strangers.expect("there are strangers");
                let key = self.random(self.keys.max(20) / 20);
                self.outcomes.strangers += counts * u64::from(self.upstream.stranger(at, key, most));
                self.plan(at + every, Step::Stranger);
            }
            Step::Wants(..) | Step::Asks(..) if at < self.down_until => self.plan(self.down_until, step),
            Step::Wants(worker) => self.want(at, worker),
            Step::Asks(number) if self.waiting.contains(&number) => self.ask(at, number),
            Step::Asks(_) => {}
            Step::Arrives(number) => {
                let key = self.wanted[number].worker % self.keys.max(1);
                let answer = self.upstream.call(at, key);
                self.outcomes.calls += counts * u64::from(answer.served);
                self.outcomes.rejected += counts * u64::from(!answer.served);
                let elsewhere = self.keys > 0 && key >= self.keys / 20;
                self.outcomes.rejected_elsewhere += counts * u64::from(elsewhere && !answer.served);
                let back = at + self.random(WAY);
                self.plan(back.max(self.down_until), Step::Answered(number, answer));
            }
            Step::Answered(..) if at < self.down_until => self.plan(self.down_until, step),
            Step::Answered(number, answer) => {
                let observation = self.observation(number, answer);
                let id = self.wanted[number].id.clone();
                self.world.settle_observed(ms(at), &id, Outcome::Used(Vec::new()), Some(observation));
                let rest = self.random(self.events.rest.max(1));
                self.plan(at + rest, Step::Wants(self.wanted[number].worker));
            }
            Step::Written => {
                if let Some((at_written, checkpoint)) = self.writing.take() {
                    let number = checkpoint.number;
                    self.stored = Some((at_written, checkpoint));
                    self.world.handle(ms(at), Event::CheckpointStored(number));
                }
            }
            Step::Dies => self.die(spec, at),
        }
    }

    /// Kills the scheduler. Its successor goes on from the state in the store. A write that is
    /// under way arrives with a probability of one half.
    fn die(&mut self, spec: &ResourceSpec, at: u64) {
        let written = self.writing.take().filter(|_| self.random(2) == 0).or(self.stored.take());
        let (then, checkpoint) = written.expect("the first write is older");
        self.epoch = self.epoch.next();
        self.down_until = at + FAILOVER;
        self.outcomes.kills += 1;
        self.outcomes.disbelieved += self.world.scheduler.counters().disbelieved;
        self.now = ms(self.down_until);
        let resource = Resource::new(spec).unwrap();
        let restored = Scheduler::restore(resource, self.epoch, self.now, then, &checkpoint.state);
        self.world = World::of(restored.fenced());
        self.stored = Some((then, checkpoint));
        (self.answers_read, self.asked) = (0, Vec::new());
        self.steps.retain(|Reverse((.., step))| *step != Step::Written);
        for number in self.waiting.clone() {
            let later = self.random(WAY);
            self.plan(self.down_until + later, Step::Asks(number));
        }
        let every = self.events.kills.unwrap_or(PERIOD);
        let early = self.random(every / 2);
        self.plan(at + every - early, Step::Dies);
    }

    /// What the worker reports of an answer.
    fn observation(&mut self, number: usize, answer: Answer) -> Observation {
        let lies = self.events.a_worker_lies && self.wanted[number].worker == 0;
        let reported = if lies || self.headers == Headers::Random {
            let (capacity, reset) = (1 + self.random(2 * answer.capacity), 1 + self.random(2 * PERIOD));
            Answer { capacity, left: self.random(capacity + 1), reset, ..answer }
        } else {
            answer
        };
        let is_whole = self.headers == Headers::WholeSeconds;
        let reset = if is_whole { reported.reset.div_ceil(1000) * 1000 } else { reported.reset };
        let reading = Reading {
            capacity: Some(amount(reported.capacity as f64)),
            reset: Some(Span::from_millis(reset)),
            reset_grain: if is_whole { Span::from_secs(1) } else { Span::from_millis(1) },
            ..Reading::new(Scope::Unnamed, amount(reported.left as f64))
        };
        let retry_after = Some(Span::from_millis(reset));
        let limited = Verdict::Limited { scope: Scope::Unnamed, retry_after, by_other_accounts: false };
        let verdict = if answer.served { Verdict::Passed } else { limited };
        let readings = if self.headers == Headers::Missing { Vec::new() } else { vec![reading] };
        Observation { verdict, readings, spent: Vec::new() }
    }
}

fn millis_up(time: Time) -> u64 {
    time.since(Time::ORIGIN).nanos().div_ceil(1_000_000)
}
