//! Decisions per second on one core, with three limits: an event is handled and its commands are
//! taken. Checkpoints are written as with a store, unless a benchmark says that there is none.
//!
//! Virtual time passes with every decision, so that permits are forgotten as fast as they are
//! remembered. 300 000 permits are remembered at a thousand decisions a second, and 3 000 at ten.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rampmeter_policy::spec::{ClassSpec, LimitSpec, ResourceSpec};
use rampmeter_policy::{Bill, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::event::{Ask, Event, Outcome, Settle};
use rampmeter_scheduler_core::scheduler::Scheduler;
use std::hint::black_box;

/// More ids than are remembered at once, so that none is known when its turn comes again.
const IDS: usize = 1_000_000;
const THOUSAND_PER_SECOND: Span = Span::from_millis(1);
const TEN_PER_SECOND: Span = Span::from_millis(100);

fn name(name: &str) -> Name {
    Name::new(name).expect("a name")
}

fn amount(units: f64) -> Amount {
    Amount::new(units).expect("an amount")
}

/// Three limits, of which the first refills a request in a millisecond.
fn resource() -> Resource {
    let limit = |unit, capacity, period| {
        let (unit, capacity) = (name(unit), amount(capacity));
        LimitSpec::new(unit.clone(), unit, capacity, period)
    };
    let limits = vec![
        limit("requests", 60_000.0, Span::from_secs(60)),
        limit("units", 200_000.0, Span::from_secs(60)),
        limit("tokens", 400_000_000.0, Span::from_secs(744 * 3600)),
    ];
    let bulk = ClassSpec { headroom: 0.2, ..ClassSpec::new(name("bulk")) };
    let classes = vec![ClassSpec::new(name("urgent")), bulk];
    Resource::new(&ResourceSpec { classes, ..ResourceSpec::new(name("api"), limits) }).expect("a resource")
}

/// A scheduler and all events for it.
struct World {
    scheduler: Scheduler<u64>,
    now: Time,
    ids: Vec<PermitId>,
    next: usize,
    bill: Bill,
    has_store: bool,
}

/// Whether grants need a checkpoint.
#[derive(Clone, Copy, PartialEq)]
enum Store {
    Kept,
    None,
}

impl World {
    /// Each permit costs one `requests` and this many of every other unit.
    fn new(units: f64, tokens: f64, store: Store) -> Self {
        let resource = resource();
        let cost = [("units", amount(units)), ("tokens", amount(tokens))];
        let bill = resource.bill(&Labels::new(), cost.into_iter()).expect("a bill");
        let ids = (0..IDS).map(|number| PermitId::new(&format!("0199a7c2-5d1e-7000-8000-{number:012x}")));
        let now = Time::ORIGIN + Span::from_secs(366 * 86_400);
        let scheduler = Scheduler::new(resource, Epoch::FIRST, now);
        World {
            scheduler: if store == Store::Kept { scheduler.fenced() } else { scheduler },
            now,
            ids: ids.collect::<Result<_, _>>().expect("ids"),
            next: 0,
            bill,
            has_store: store == Store::Kept,
        }
    }

    fn ask(&mut self, mode: Mode) {
        self.next = (self.next + 1) % IDS;
        let (id, class) = (self.ids[self.next].clone(), self.scheduler.resource().default_class());
        let ask = Ask::new(self.next as u64, id, self.bill.clone(), class, mode);
        self.handle(Event::Ask(ask));
    }

    /// Settles the request that was made `ago` requests ago.
    fn settle(&mut self, ago: usize) {
        let id = self.ids[(self.next + IDS - ago) % IDS].clone();
        self.handle(Event::Settle(Settle {
            to: None,
            id,
            outcome: Outcome::Used(Vec::new()),
            observation: None,
            is_throttled: false,
            call: None,
        }));
    }

    fn handle(&mut self, event: Event<u64>) {
        if self.has_store && self.scheduler.next_checkpoint().is_some_and(|due| due <= self.now) {
            let checkpoint = self.scheduler.checkpoint(self.now).expect("a checkpoint that is due");
            self.scheduler.handle(self.now, Event::CheckpointStored(checkpoint.number));
        }
        self.scheduler.handle(self.now, event);
        while let Some(command) = self.scheduler.poll_command() {
            black_box(command);
        }
    }

    fn pass(&mut self, step: Span) {
        self.now += step;
    }

    /// This world, once as many permits are forgotten as are granted.
    fn warmed_up(mut self, step: Span) -> Self {
        for _ in 0..320_000 {
            self.pass(step);
            self.ask(Mode::Reserve);
        }
        self
    }
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decisions");
    group.throughput(Throughput::Elements(1));

    let rates = [("3 000", TEN_PER_SECOND), ("300 000", THOUSAND_PER_SECOND)];
    let stores = [("", Store::Kept), (", no store", Store::None)];
    for ((remembered, step), (without, store)) in rates.into_iter().flat_map(|rate| stores.map(|store| (rate, store))) {
        let mut world = World::new(1.0, 0.01, store).warmed_up(step);
        group.bench_function(format!("reserve with free buckets, {remembered} remembered{without}"), |bencher| {
            bencher.iter(|| {
                world.pass(step);
                world.ask(Mode::Reserve);
            });
        });
    }

    let mut world = World::new(1.0, 0.01, Store::Kept);
    (0..60_000 + 100).for_each(|_| world.ask(Mode::Wait));
    group.throughput(Throughput::Elements(2));
    group.bench_function("wait in a saturated queue, and settle", |bencher| {
        bencher.iter(|| {
            world.pass(THOUSAND_PER_SECOND);
            world.ask(Mode::Wait);
            world.settle(1_000);
        });
    });
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
