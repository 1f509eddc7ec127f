//! The longest event of each kind in worlds with very many requests, permits and keys. No event that
//! workers cause may stall a permit loop for more than a millisecond, and no order of an operator for
//! more than a hundred.
//!
//! An event is handled and its commands are taken. Each world is built again in each round. The
//! shortest of the rounds' longest events counts, because a stall of the machine does not repeat.
//!
//! `cargo bench -p rampmeter-scheduler-core --bench longest_events`; with `-- --quick` everything
//! is a hundredth of its size.

#![expect(clippy::print_stdout, reason = "the table is what it is run for")]

use rampmeter_policy::observation::{Observation, Reading, Scope, Verdict};
use rampmeter_policy::spec::{Algorithm, Alignment, Applies, Bounds, ClassSpec, FairShare, LimitSpec, ResourceSpec};
use rampmeter_policy::{Bill, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::explain::Question;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;
use rampmeter_scheduler_core::event::{Ask, Event, Outcome, Settle};
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_scheduler_core::scheduler::waiting::QueueCursor;
use rampmeter_scheduler_core::scheduler::waiting::Selection;
use std::collections::BTreeMap;
use std::hint::black_box;

const ROUNDS: usize = 5;
/// The number of frequent events in a round.
const EVENTS: u64 = 1_000;
/// One rare event follows this many frequent ones.
const RARE: u64 = 50;
/// The time that passes with each frequent event.
const STEP: Span = Span::from_nanos(20_000);
/// The permits in the snapshot of a graceful stop.
const SNAPSHOT_PERMITS: usize = 250_000;
/// Seconds within which all permits are forgotten.
const FORGOTTEN_WITHIN: u64 = 400;
/// Longer events are flagged in the table.
const LONGEST: Span = Span::from_millis(1);

fn main() {
    let has = |wanted: &str| std::env::args().any(|arg| arg == wanted);
    // Without `--bench` it only runs once, among tests.
    let part = if has("--quick") || !has("--bench") { 100 } else { 1 };
    for shape in shapes() {
        let mut figures = Figures::default();
        for _ in 0..ROUNDS {
            figures.rounds.push(BTreeMap::new());
            World::build(&shape, shape.count / part, &mut figures).play();
        }
        println!("\n{} {}", shape.count / part, shape.what);
        figures.print();
    }
}

/// A world in which one thing is large, and the requests that make it large.
struct Shape {
    what: &'static str,
    count: u64,
    limits: Vec<LimitSpec>,
    /// The mode, cost by unit, and rate of its requests.
    mode: Mode,
    cost: &'static [(&'static str, f64)],
    step: Span,
    /// Whether checkpoints are written during the build, and not only during measurement.
    is_fenced: bool,
}

fn shapes() -> [Shape; 6] {
    let requests = |capacity, period| limit("requests", capacity, period);
    let by_client =
        |limit| LimitSpec { applies: Applies { key: vec!["client".to_owned()], ..Applies::default() }, ..limit };
    let three = vec![
        requests(1_000.0, Span::from_secs(1)),
        limit("units", 40_000.0, Span::from_secs(10)),
        limit("tokens", 1e9, Span::from_secs(744 * 3600)),
    ];
    let windows =
        LimitSpec { algorithm: Algorithm::FixedWindow(Alignment::Epoch), ..requests(10.0, Span::from_secs(1)) };
    let in_flight = LimitSpec { algorithm: Algorithm::Concurrency, ..requests(20_000.0, Span::from_secs(60)) };
    let shape =
        |what, count, limits, mode, step| Shape { what, count, limits, mode, cost: &[], step, is_fenced: false };
    [
        Shape {
            cost: &[("units", 7.0), ("tokens", 100.0)],
            ..shape("requests wait", 100_000, three, Mode::Wait, Span::ZERO)
        },
        shape(
            "keys",
            1_000_000,
            vec![by_client(requests(2.0, Span::from_secs(590)))],
            Mode::Allow,
            Span::from_nanos(10_000),
        ),
        Shape {
            is_fenced: true,
            ..shape(
                "keys that checkpoints list",
                100_000,
                vec![by_client(requests(2.0, Span::from_secs(3600)))],
                Mode::Reserve,
                Span::from_nanos(100_000),
            )
        },
        shape(
            "remembered permits",
            4_000_000,
            vec![requests(1e9, Span::from_secs(1))],
            Mode::Allow,
            Span::from_nanos(14_000),
        ),
        Shape {
            cost: &[("requests", 6.0)],
            ..shape("windows reserved ahead", 10_000, vec![windows], Mode::Reserve, Span::ZERO)
        },
        shape("calls in flight", 10_000, vec![in_flight], Mode::Allow, Span::ZERO),
    ]
}

fn name(name: &str) -> Name {
    Name::new(name).expect("a name")
}

fn amount(units: f64) -> Amount {
    Amount::new(units).expect("an amount")
}

fn limit(unit: &str, capacity: f64, period: Span) -> LimitSpec {
    LimitSpec::new(name(unit), name(unit), amount(capacity), period)
}

fn resource(limits: &[LimitSpec]) -> Resource {
    let bulk = ClassSpec { headroom: 0.1, ..ClassSpec::new(name("bulk")) };
    let spec = ResourceSpec {
        classes: vec![ClassSpec::new(name("urgent")), bulk],
        fair_share: Some(FairShare { label: "client".to_owned(), weights: BTreeMap::new() }),
        // Room for measured requests besides those of the world.
        bounds: Bounds { max_waiting: 200_000, max_permits: 5_000_000, max_keys: 2_000_000 },
        ..ResourceSpec::new(name("api"), limits.to_vec())
    };
    Resource::new(&spec).expect("a resource")
}

fn id(number: u64) -> PermitId {
    PermitId::new(&format!("0199a7c2-5d1e-7000-8000-{number:012x}")).expect("an id")
}

fn about(number: u64) -> Question {
    Question { id: Some(id(number)), ..Question::default() }
}

/// The durations of events, by kind and round.
#[derive(Default)]
struct Figures {
    kinds: Vec<&'static str>,
    rounds: Vec<BTreeMap<&'static str, Vec<Span>>>,
}

impl Figures {
    fn note(&mut self, kind: &'static str, took: Span) {
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
        self.rounds.last_mut().expect("a round").entry(kind).or_default().push(took);
    }

    fn print(&self) {
        println!("{:<30} {:>8} {:>10} {:>10} {:>10}  µs", "event", "number", "p50", "p99.9", "longest");
        for kind in &self.kinds {
            let rounds = || self.rounds.iter().filter_map(|round| round.get(kind));
            let mut all: Vec<Span> = rounds().flatten().copied().collect();
            all.sort_unstable();
            let longest = rounds().filter_map(|took| took.iter().max()).min().copied().unwrap_or_default();
            let at = |thousandths: usize| micros(all[(all.len() * thousandths / 1000).min(all.len() - 1)]);
            let flag = if longest > LONGEST { "  too long" } else { "" };
            println!("{kind:<30} {:>8} {:>10.1} {:>10.1} {:>10.1}{flag}", all.len(), at(500), at(999), micros(longest));
        }
    }
}

fn micros(span: Span) -> f64 {
    span.nanos() as f64 / 1000.0
}

struct World<'a> {
    shape: &'a Shape,
    scheduler: Scheduler<u64>,
    now: Time,
    asked: u64,
    /// The position of the next step through waiting requests.
    walks: [QueueCursor; 2],
    clock: Clock,
    figures: &'a mut Figures,
}

impl<'a> World<'a> {
    fn build(shape: &'a Shape, count: u64, figures: &'a mut Figures) -> Self {
        let now = Time::ORIGIN + Span::from_secs(366 * 86_400);
        let scheduler = Scheduler::new(resource(&shape.limits), Epoch::FIRST, now);
        let scheduler = if shape.is_fenced { scheduler.fenced() } else { scheduler };
        let mut world = World {
            shape,
            scheduler,
            now,
            asked: 0,
            walks: [QueueCursor::default(); 2],
            clock: Clock::start(),
            figures,
        };
        for _ in 0..count {
            world.now += shape.step;
            world.write_due_checkpoint();
            let ask = world.next_ask(shape.mode);
            world.scheduler.handle(world.now, Event::Ask(ask));
            world.take_commands();
        }
        if !shape.is_fenced {
            world.scheduler = world.scheduler.fenced();
            world.write_due_checkpoint();
        }
        world
    }

    /// Every kind of event, those that end a world last.
    fn play(mut self) {
        for number in 0..EVENTS {
            self.now += STEP;
            self.wake();
            self.usual(number);
            if number % RARE == 0 {
                self.rare(number);
            }
        }
        self.last();
    }

    fn usual(&mut self, number: u64) {
        let [reserved, waiting, allowed] = [Mode::Reserve, Mode::Wait, Mode::Allow].map(|mode| {
            let ask = self.next_ask(mode);
            let kind = match mode {
                Mode::Reserve => "ask, reserve",
                Mode::Wait => "ask, wait",
                Mode::Allow => "ask, allow",
            };
            self.event(kind, Event::Ask(ask));
            self.asked
        });
        self.settle("settle, extend", allowed, Outcome::Extend);
        self.settle("settle, used", allowed, Outcome::Used(vec![("requests".to_owned(), amount(0.5))]));
        match number % 2 {
            0 => self.settle("settle, unused", reserved, Outcome::Unused),
            _ => self.event("undelivered, granted", Event::Undelivered { id: id(reserved), is_grant: true }),
        }
        match number % 4 {
            0 => self.settle("settle, cancel", waiting, Outcome::Unused),
            1 => self.event("undelivered, waiting", Event::Undelivered { id: id(waiting), is_grant: false }),
            _ => {}
        }
        self.event("wake, for nothing", Event::Wake);
    }

    fn rare(&mut self, number: u64) {
        if let Some(checkpoint) = self.timed("checkpoint, not due", |core, now| core.checkpoint(now)) {
            self.event("checkpointed", Event::CheckpointStored(checkpoint.number));
        }
        self.timed("status of limits", |core, now| core.limit_status(now));
        self.timed("status of classes", |core, now| core.class_status(now));
        let counts = |core: &mut Scheduler<u64>, now| {
            (core.counters(), core.remembered(), core.waiting(), core.delay_of_next(now), core.corrections())
        };
        self.timed("metrics", counts);
        let asked = self.asked;
        self.timed("explain", |core, now| core.explain(now, &Question::default()).is_ok());
        self.timed("explain one of the first", |core, now| core.explain(now, &about(asked / 100)).is_ok());
        self.timed("explain one of the last", |core, now| core.explain(now, &about(asked)).is_ok());
        self.timed("what is left", |core, now| core.left(now, &id(asked)));
        let requests = self.scheduler.resource().limit("requests").expect("a limit");
        let levels = vec![(requests, amount(1.0))];
        self.event("levels", Event::Levels { asked: self.now, answered: self.now, levels });
        let [probe, purge] = self.walks;
        let probed = self.timed("probe step", |core, now| core.probe(now, probe, |to| to % 7 == 0));
        self.event("wake, after a probe", Event::Wake);
        let nobody = Selection { client: Some("nobody".to_owned()), class: None };
        self.timed("purge step, of nobody", |core, _| core.purge(purge, &nobody));
        let (_, purged) = self.timed("purge step", |core, _| core.purge(purge, &Selection::default()));
        self.walks = [probed, purged].map(Option::unwrap_or_default);
        self.event("wake, after a purge", Event::Wake);
        self.event("held up", Event::AnswersLate);
        self.event("delivered", Event::Delivered);
        if number == RARE {
            self.answered(
                "settle, limited",
                Verdict::Limited { scope: Scope::Unnamed, retry_after: None, by_other_accounts: false },
            );
            self.now += Span::from_secs(2);
            self.wake();
        }
        self.answered("settle, passed", Verdict::Passed);
    }

    fn last(&mut self) {
        let smaller = |limit: &LimitSpec| LimitSpec { capacity: amount(limit.capacity.units() / 2.0), ..limit.clone() };
        let limits: Vec<LimitSpec> = self.shape.limits.iter().map(smaller).collect();
        self.timed("snapshot", |core, now| core.snapshot(now, SNAPSHOT_PERMITS));
        self.event("wall clock", Event::WallClock(WallClockOrigin::from_unix_nanos(1_700_000_000_000_000_000)));
        self.event("doubt", Event::Doubt);
        self.event("limits", Event::Limits(Box::new(resource(&limits))));
        let requests = self.scheduler.resource().limit("requests").expect("a limit");
        self.event("freeze", Event::Freeze { limits: vec![requests], span: Span::from_secs(1) });
        self.event("thaw", Event::Thaw(vec![requests]));
        self.event("empty", Event::Empty(vec![requests]));
        self.event("store is another", Event::StoreReplaced { epoch: Epoch::new(2) });
        self.event("hand-over", Event::HandOver);
        for _ in 0..FORGOTTEN_WITHIN {
            self.now += Span::from_secs(1);
            self.event("wake, to forget permits", Event::Wake);
        }
    }

    /// A call that learns the upstream's response.
    fn answered(&mut self, kind: &'static str, verdict: Verdict) {
        let ask = self.next_ask(Mode::Allow);
        self.scheduler.handle(self.now, Event::Ask(ask));
        self.take_commands();
        let reading = Reading::new(Scope::Unnamed, amount(1.0));
        let observation = Some(Observation { verdict, readings: vec![reading], spent: Vec::new() });
        let settle = Settle {
            to: None,
            id: id(self.asked),
            outcome: Outcome::Used(Vec::new()),
            observation,
            is_throttled: false,
            call: None,
        };
        self.event(kind, Event::Settle(settle));
    }

    fn settle(&mut self, kind: &'static str, number: u64, outcome: Outcome) {
        self.event(
            kind,
            Event::Settle(Settle {
                to: None,
                id: id(number),
                outcome,
                observation: None,
                is_throttled: false,
                call: None,
            }),
        );
    }

    fn event(&mut self, kind: &'static str, event: Event<u64>) {
        self.timed(kind, |core, now| core.handle(now, event));
    }

    fn timed<T>(&mut self, kind: &'static str, event: impl FnOnce(&mut Scheduler<u64>, Time) -> T) -> T {
        let before = self.clock.now();
        let done = event(&mut self.scheduler, self.now);
        self.take_commands();
        self.figures.note(kind, self.clock.now().since(before));
        done
    }

    /// All events that are due by now.
    fn wake(&mut self) {
        if self.scheduler.next_checkpoint().is_some_and(|due| due <= self.now)
            && let Some(checkpoint) = self.timed("checkpoint", |core, now| core.checkpoint(now))
        {
            self.event("checkpointed", Event::CheckpointStored(checkpoint.number));
        }
        self.wake_for("wake");
    }

    fn wake_for(&mut self, kind: &'static str) {
        while self.scheduler.next_wakeup().is_some_and(|wakeup| wakeup.at <= self.now) {
            self.event(kind, Event::Wake);
        }
    }

    fn write_due_checkpoint(&mut self) {
        if self.scheduler.next_checkpoint().is_some_and(|due| due <= self.now)
            && let Some(checkpoint) = self.scheduler.checkpoint(self.now)
        {
            self.scheduler.handle(self.now, Event::CheckpointStored(checkpoint.number));
            self.take_commands();
        }
    }

    fn take_commands(&mut self) {
        while let Some(command) = self.scheduler.poll_command() {
            black_box(command);
        }
    }

    fn next_ask(&mut self, mode: Mode) -> Ask<u64> {
        self.asked += 1;
        let client = format!("client-{}", self.asked);
        let class = ["urgent", "bulk"][self.asked as usize % 2];
        let class = self.scheduler.resource().class(class).expect("a class");
        let ask = Ask::new(self.asked, id(self.asked), self.bill(&client), class, mode);
        Ask { progress: self.asked.is_multiple_of(2), client: Some(client.into()), ..ask }
    }

    fn bill(&self, client: &str) -> Bill {
        let mut labels = Labels::new();
        labels.set("client", client).expect("a label");
        let cost = self.shape.cost.iter().map(|(unit, units)| (*unit, amount(*units)));
        self.scheduler.resource().bill(&labels, cost).expect("a bill")
    }
}
