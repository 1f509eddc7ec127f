//! No failure of schedulers or of writes to the store admits anything twice.

use crate::prelude::*;
use proptest::prelude::*;
use proptest::sample::Index;
use rampmeter_scheduler_core::checkpoint_number::CheckpointNumber;
use rampmeter_scheduler_core::durability::snapshot::{KeySnapshot, NewPage};
use std::sync::LazyLock;

mod keys;
mod waits;

/// The fate of a write to the store.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Done,
    /// The store takes the write, and no answer arrives.
    Unheard,
    /// The write never reaches the store, and no answer arrives.
    Lost,
    /// The write never reaches the store, and all standbys hold it.
    Witnessed,
}

/// An event, after a pause in milliseconds.
#[derive(Clone, Debug)]
enum Step {
    /// One of the schedulers that still run is asked for a permit. The newest one leads.
    Ask { of: Index, cost: [u64; 3], client: usize, mode: Mode },
    /// An unused permit returns to the scheduler that granted it.
    GiveBack { which: Index },
    /// The call of a permit is over, or still in flight.
    Settle { of: Index, which: Index, over: bool },
    /// The leader learns of a call in flight that another scheduler granted.
    CountAnew { of: Index, which: Index },
    /// Another scheduler takes over, which has known the checkpoint for `known_for` milliseconds.
    /// The leader may live on.
    TakeOver { known_for: u64, leader_dies: bool },
    /// The leader doubts its leadership.
    Doubt,
    /// The fate of later writes.
    Writes(Fate),
    /// The leader and its successors go on with other limits besides the judged ones.
    Limits(Others),
    /// [`CROWD`] other clients call, so that keys at rest go to a page.
    Crowd,
}

/// The limits besides the judged ones.
#[derive(Clone, Copy, Debug)]
enum Others {
    Nothing,
    /// One more limit, configured before the judged ones.
    Before,
    /// Other limits between them, in another order, one of them in shadow mode.
    Among,
}

/// The one value of a store with compare-and-set, and the pages that belong to it. A former leader
/// may still write pages.
struct Store {
    revision: u64,
    levels: Snapshot,
    taken: Time,
    writer: usize,
    number: u64,
    pages: Pages,
    /// The state that the standbys hold of a later checkpoint of the same writer, and when it was taken.
    held: Option<(Snapshot, Time)>,
}

/// Pages by place, each with the number of its writer.
type Pages = BTreeMap<(Epoch, u32), (u64, Vec<KeySnapshot>)>;

impl Store {
    fn write_pages(&mut self, checkpoint: &Checkpoint) {
        for NewPage { id, keys } in &checkpoint.state.new_pages {
            self.pages.insert((id.epoch, id.address), (id.serial, keys.clone()));
        }
    }

    fn write(&mut self, checkpoint: &Checkpoint, taken: Time, writer: usize) {
        self.write_pages(checkpoint);
        (self.revision, self.number) = (self.revision + 1, checkpoint.number.0);
        (self.levels, self.taken, self.writer) = (checkpoint.state.clone(), taken, writer);
        self.held = None;
    }

    /// The state that a successor finds, here or with the standbys, and when it was taken.
    fn read(&self) -> (Snapshot, Time) {
        let (mut found, taken) = self.held.clone().unwrap_or_else(|| (self.levels.clone(), self.taken));
        for page in &mut found.keys.pages {
            let there = self.pages.get(&(page.id.epoch, page.id.address));
            page.keys = there.filter(|(serial, _)| *serial == page.id.serial).map(|(_, keys)| keys.clone());
        }
        (found, taken)
    }
}

/// A scheduler, its known revision, and its pending write.
struct Writer {
    number: usize,
    world: World,
    revision: u64,
    writing: Option<(Checkpoint, Time, Fate)>,
    last: Checkpoint,
    granted: Vec<Permit>,
}

struct Permit {
    request: usize,
    cost: [u64; 3],
    client: usize,
    given_back: bool,
    /// Half of it, once a call of quotas is settled.
    is_halved: bool,
    over: Option<Time>,
    renewed: Option<Time>,
}

struct Play {
    /// The judged limits.
    judged: ResourceSpec,
    spec: ResourceSpec,
    now: Time,
    store: Store,
    writers: Vec<Option<Writer>>,
    ended: Vec<Writer>,
    fate: Fate,
}

/// The duration of a write.
const WRITE: Span = Span::from_millis(3);
/// After this time without an answer, a writer reads the store.
const WRITE_TIMEOUT: Span = Span::from_millis(40);

impl Play {
    fn new(spec: ResourceSpec) -> Self {
        let now = Time::ORIGIN + Span::from_secs(100);
        let mut world = World::fenced(&spec, now);
        let checkpoint = world.checkpointed(now);
        let levels = checkpoint.state.clone();
        let (number, pages) = (checkpoint.number.0, Pages::new());
        let store = Store { revision: 1, levels, taken: now, writer: 0, number, pages, held: None };
        let first = Writer { number: 0, world, revision: 1, writing: None, last: checkpoint, granted: Vec::new() };
        Play { judged: spec.clone(), spec, now, store, writers: vec![Some(first)], ended: Vec::new(), fate: Fate::Done }
    }

    fn step(&mut self, pause: u64, step: &Step) {
        self.pass(span(pause));
        match step {
            Step::Ask { of, cost, client, mode } => self.ask(of, *cost, *client, *mode),
            Step::GiveBack { which } => self.give_back(which),
            Step::Settle { of, which, over } => self.settle(of, which, *over),
            Step::CountAnew { of, which } => self.count_anew(of, which),
            Step::TakeOver { known_for, leader_dies } => self.take_over(span(*known_for), *leader_dies),
            Step::Doubt => self.doubt(),
            Step::Writes(fate) => self.fate = *fate,
            Step::Limits(others) => self.change_limits(*others),
            Step::Crowd => self.crowd(),
        }
        self.pass(Span::ZERO);
    }

    /// Lets time pass, from one due event to the next.
    fn pass(&mut self, time: Span) {
        let end = self.now + time;
        loop {
            (0..self.writers.len()).for_each(|index| self.write(index));
            let next = self.writers.iter().flatten().map(Writer::next).min().unwrap_or(end).max(self.now);
            self.now = next.min(end);
            for writer in self.writers.iter_mut().flatten() {
                writer.world.run_until(self.now);
            }
            if next > end {
                return;
            }
        }
    }

    /// Finishes the write that is due and begins the next one.
    fn write(&mut self, index: usize) {
        let Some(writer) = &mut self.writers[index] else { return };
        match writer.writing.take() {
            Some((checkpoint, due, fate)) if due <= self.now => {
                let current = self.store.revision == writer.revision;
                match fate {
                    Fate::Done | Fate::Unheard if current => self.store.write(&checkpoint, due - WRITE, index),
                    Fate::Done | Fate::Unheard => self.store.write_pages(&checkpoint),
                    Fate::Lost | Fate::Witnessed => {}
                }
                // Whoever takes over seals the memory of a standby first.
                let is_held = matches!(fate, Fate::Witnessed) && self.store.writer == index;
                if is_held {
                    self.store.held = Some((checkpoint.state.clone(), due - WRITE));
                    writer.world.handle(self.now, Event::CheckpointWitnessed(checkpoint.number));
                }
                writer.writing = (!matches!(fate, Fate::Done) && !is_held)
                    .then(|| (checkpoint.clone(), due + WRITE_TIMEOUT, Fate::Done));
                if matches!(fate, Fate::Done) && self.store.writer == index {
                    writer.revision = self.store.revision;
                    let number = CheckpointNumber(self.store.number);
                    writer.world.handle(self.now, Event::CheckpointStored(number));
                }
            }
            writing => writer.writing = writing,
        }
        if writer.writing.is_none() && writer.world.scheduler.next_checkpoint().is_some_and(|due| due <= self.now) {
            // If too many checkpoints are open, the last one is written again.
            let checkpoint = writer.world.scheduler.checkpoint(self.now).unwrap_or_else(|| writer.last.clone());
            writer.last = checkpoint.clone();
            writer.writing = Some((checkpoint, self.now + WRITE, self.fate));
        }
    }

    fn doubt(&mut self) {
        let now = self.now;
        self.leader().world.handle(now, Event::Doubt);
    }

    fn change_limits(&mut self, others: Others) {
        let now = self.now;
        self.spec = spec_with(&self.judged, others);
        let resource = Box::new(Resource::new(&self.spec).unwrap());
        self.leader().world.handle(now, Event::Limits(resource));
    }

    fn leader(&mut self) -> &mut Writer {
        self.writers.last_mut().unwrap().as_mut().expect("the leader lives")
    }

    fn ask(&mut self, of: &Index, cost: [u64; 3], client: usize, mode: Mode) {
        let now = self.now;
        let living = self.writers.iter_mut().flatten().collect::<Vec<_>>();
        let index = of.index(living.len());
        living.into_iter().nth(index).unwrap().ask(now, cost, client, mode);
    }

    fn crowd(&mut self) {
        let now = self.now;
        for client in clients(CROWD) {
            self.leader().world.ask(now, &wish(Mode::Reserve, &[("c", 1.0)]).labelled("client", client));
        }
    }

    /// Only a permit that has not started is returned.
    fn give_back(&mut self, which: &Index) {
        let now = self.now;
        let leader = self.leader();
        if leader.granted.is_empty() {
            return;
        }
        let index = which.index(leader.granted.len());
        let request = leader.granted[index].request;
        if leader.world.start(request).is_none_or(|start| start > now) {
            let answer = leader.world.settle(now, &permit_id(leader.number, request), Outcome::Unused);
            leader.granted[index].given_back = answer == SentAnswer::Settled;
        }
    }

    /// The scheduler that granted a permit learns that its call is over, or goes on. If it is over,
    /// all other schedulers that run hear so too.
    fn settle(&mut self, of: &Index, which: &Index, over: bool) {
        let now = self.now;
        if over && self.ended.iter().any(|writer| !writer.granted.is_empty()) && of.index(2) == 0 {
            return self.settle_of_ended(of, which);
        }
        let writers: Vec<&mut Writer> =
            self.writers.iter_mut().flatten().filter(|writer| !writer.granted.is_empty()).collect();
        if writers.is_empty() {
            return;
        }
        let index = of.index(writers.len());
        let writer = writers.into_iter().nth(index).unwrap();
        let place = which.index(writer.granted.len());
        let permit = &writer.granted[place];
        let begun = writer.world.start(permit.request).is_some_and(|start| start <= now);
        let id = permit_id(writer.number, permit.request);
        let (number, cost, client) = (writer.number, permit.cost, permit.client);
        if begun && permit.is_halved {
            // Its client has heard no answer.
            return self.tell_all_but(usize::MAX, &id, cost, client);
        }
        if !begun || permit.given_back || permit.over.is_some() {
            return;
        }
        let outcome = if over { used(cost, has_quotas(&self.judged)) } else { Outcome::Extend };
        let answer = writer.world.settle(now, &id, outcome);
        let expired = self.lease_end(number, place) <= now;
        if over && (!expired || has_quotas(&self.judged)) {
            self.tell_all_but(number, &id, cost, client);
        }
        let halves = over && has_quotas(&self.judged);
        let writer = self.writers[number].as_mut().unwrap();
        let permit = &mut writer.granted[place];
        permit.is_halved |= halves;
        match (over, answer) {
            // A call whose place went to another call has none any more.
            (true, _) | (false, SentAnswer::Refused(Refusal::RenewedTooLate)) => permit.over = Some(now),
            (false, SentAnswer::Extended) => permit.renewed = Some(now),
            (false, _) => {}
        }
    }

    /// The call of a scheduler that is gone is over, and its lease still runs.
    fn settle_of_ended(&mut self, of: &Index, which: &Index) {
        let now = self.now;
        let begun: Vec<usize> = (0..self.ended.len()).filter(|index| !self.ended[*index].granted.is_empty()).collect();
        let index = begun[of.index(begun.len())];
        let writer = &self.ended[index];
        let place = which.index(writer.granted.len());
        let Permit { request, cost, client, given_back, over, .. } = writer.granted[place];
        let has_begun = writer.world.start(request).is_some_and(|start| start <= now);
        let starts_later = writer.world.start(request).is_some_and(|start| start > now);
        let (number, has_quotas) = (writer.number, has_quotas(&self.judged));
        if has_begun && !given_back && over.is_none() && (has_quotas || self.lease_end(number, place) > now) {
            let permit = &mut self.ended[index].granted[place];
            (permit.over, permit.is_halved) = (Some(now), has_quotas);
            self.tell_all_but(number, &permit_id(number, request), cost, client);
        } else if has_quotas && starts_later && !given_back && over.is_none() {
            self.ended[index].granted[place].given_back = true;
            self.tell(usize::MAX, &permit_id(number, request), &Outcome::Unused, cost, client);
        }
    }

    /// When the lease of a call ends.
    fn lease_end(&self, number: usize, place: usize) -> Time {
        let writer = self.ended.iter().chain(self.writers.iter().flatten()).find(|writer| writer.number == number);
        let (writer, permit) = writer.map(|writer| (writer, &writer.granted[place])).unwrap();
        let start = writer.world.start(permit.request).unwrap_or(self.now);
        let shortest = self.spec.limits.iter().map(|limit| limit.period).min().unwrap();
        permit.renewed.unwrap_or(start).max(start) + shortest
    }

    fn tell_all_but(&mut self, number: usize, id: &str, cost: [u64; 3], client: usize) {
        self.tell(number, id, &used(cost, has_quotas(&self.judged)), cost, client);
    }

    fn tell(&mut self, all_but: usize, id: &str, outcome: &Outcome, cost: [u64; 3], client: usize) {
        for writer in self.writers.iter_mut().flatten().filter(|writer| writer.number != all_but) {
            if let Ok(bill) = writer.world.bill(&wish_of(Mode::Wait, cost, client)) {
                writer.world.settle_call(self.now, id, outcome.clone(), bill);
            }
        }
    }

    /// The leader counts a call of another scheduler again, at any time and repeatedly, which must
    /// free no place. For the judge, the call ends when the scheduler that granted it says so. A
    /// former leader may not know the call, and may give its place away.
    fn count_anew(&mut self, of: &Index, which: &Index) {
        let Some((leader, before)) = self.writers.split_last_mut() else { return };
        let others: Vec<&Writer> =
            self.ended.iter().chain(before.iter().flatten()).filter(|writer| !writer.granted.is_empty()).collect();
        if let (Some(leader), false) = (leader, others.is_empty()) {
            let writer = others[of.index(others.len())];
            let Permit { request, cost, client, .. } = writer.granted[which.index(writer.granted.len())];
            let bill = leader.world.bill(&wish_of(Mode::Wait, cost, client)).expect("it was granted");
            leader.world.settle_call(self.now, &permit_id(writer.number, request), Outcome::Extend, bill);
        }
    }

    fn take_over(&mut self, known_for: Span, leader_dies: bool) {
        let (found, taken) = self.store.read();
        let then = taken.max(self.now - known_for);
        let resource = Resource::new(&self.spec).unwrap();
        let epoch = Epoch::new(self.writers.len() as u64 + 1);
        let mut successor = Scheduler::restore(resource, epoch, self.now, then, &found).fenced();
        if leader_dies && self.writers.iter().flatten().count() == 1 {
            successor.lead_alone();
        }
        let mut world = World::of(successor);
        let checkpoint = world.scheduler.checkpoint(self.now).unwrap();
        let writer = self.writers.len();
        self.store.write(&checkpoint, self.now, writer);
        let revision = self.store.revision;
        world.handle(self.now, Event::CheckpointStored(checkpoint.number));
        if leader_dies {
            self.ended.extend(self.writers.last_mut().unwrap().take());
        }
        self.writers.push(Some(Writer {
            number: writer,
            world,
            revision,
            writing: None,
            last: checkpoint,
            granted: Vec::new(),
        }));
    }

    /// All calls that a limit counts; with keys, those of one client.
    fn calls(&self, limit: usize, client: Option<usize>) -> Vec<Held> {
        let lasting = self.spec.limits[limit].period;
        let writers = self.ended.iter().chain(self.writers.iter().flatten());
        let permits = writers.flat_map(|writer| writer.granted.iter().map(|permit| (&writer.world, permit)));
        let used =
            permits.filter(|(_, permit)| !permit.given_back && client.is_none_or(|client| permit.client == client));
        used.filter_map(|(world, permit)| {
            let start = world.start(permit.request)?;
            // A call that is neither settled nor renewed in time holds nothing any more.
            let expiry = permit.renewed.unwrap_or(start).max(start) + lasting;
            let until = permit.over.map_or(expiry, |over| over.min(expiry));
            let cost = whole(permit.cost[limit]).micros();
            Some((start, until, Amount::from_micros(if permit.is_halved { cost / 2 } else { cost }).unwrap()))
        })
        .collect()
    }
}

impl Writer {
    fn ask(&mut self, now: Time, cost: [u64; 3], client: usize, mode: Mode) {
        let id = permit_id(self.number, self.world.asked);
        let request = self.world.ask(now, &wish_of(mode, cost, client).named(&id));
        self.granted.push(Permit {
            request,
            cost,
            client,
            given_back: false,
            is_halved: false,
            over: None,
            renewed: None,
        });
    }

    /// The time of the next event.
    fn next(&self) -> Time {
        let write = match &self.writing {
            Some((_, due, _)) => Some(*due),
            None => self.world.scheduler.next_checkpoint(),
        };
        let wakeup = self.world.scheduler.next_wakeup().map(|wakeup| wakeup.at);
        write.into_iter().chain(wakeup).min().unwrap_or(Time::NEVER)
    }
}

fn wish_of(mode: Mode, cost: [u64; 3], client: usize) -> Wish<'static> {
    let cost = [("a", cost[0] as f64), ("b", cost[1] as f64), ("c", cost[2] as f64)];
    wish(mode, &cost).labelled("client", CLIENTS[client])
}

/// Calls of quotas turn out to cost half of what they may.
fn used(cost: [u64; 3], halved: bool) -> Outcome {
    let units = ["a", "b", "c"].into_iter().zip(cost);
    let half = |(unit, cost): (&str, u64)| (unit.to_owned(), amount(cost as f64 / 2.0));
    Outcome::Used(if halved { units.map(half).collect() } else { Vec::new() })
}

fn has_quotas(spec: &ResourceSpec) -> bool {
    spec.limits.iter().any(|limit| matches!(limit.algorithm, Algorithm::Quota(_)))
}

/// Unique among all schedulers.
fn permit_id(writer: usize, request: usize) -> String {
    format!("s{writer}-p{request}")
}

fn whole(units: u64) -> Amount {
    Amount::from_micros(units * 1_000_000).unwrap()
}

/// Ten in a second, two hundred in fifty seconds, and for each client five in two seconds.
fn spec() -> ResourceSpec {
    let each = by("client", limit("c", 5.0, span(2_000)));
    resource(vec![limit("a", 10.0, span(1_000)), limit("b", 200.0, span(50_000)), each])
}

/// The same limits with these others, which delay no request.
fn spec_with(judged: &ResourceSpec, others: Others) -> ResourceSpec {
    let [a, b, c] = <[LimitSpec; 3]>::try_from(judged.limits.clone()).unwrap();
    let other = |name: &str| LimitSpec { name: crate::common::name(name), ..limit("a", 1_000.0, span(1)) };
    let keyed = by("client", other("keyed"));
    resource(match others {
        Others::Nothing => vec![a, b, c],
        Others::Before => vec![other("other"), a, b, c],
        Others::Among => vec![c, LimitSpec { shadow: true, ..other("shadow") }, keyed, b, a],
    })
}

const CLIENTS: [&str; 3] = ["x", "y", "z"];

fn step() -> impl Strategy<Value = (u64, Step)> {
    let pause = prop_oneof![3 => Just(0_u64), 4 => 0..40_u64, 3 => 0..2_500_u64, 1 => 0..20_000_u64];
    let mode = prop_oneof![2 => Just(Mode::Reserve), 1 => Just(Mode::Allow), 2 => Just(Mode::Wait)];
    let fate =
        prop_oneof![2 => Just(Fate::Done), 1 => Just(Fate::Unheard), 1 => Just(Fate::Lost), 1 => Just(Fate::Witnessed)];
    // The shared limits then cost nothing, so that the limit of the key decides how far starts are.
    let shared = prop_oneof![1 => (0..=10_u64, 0..=40_u64), 1 => Just((0, 0))];
    let cost = (shared, 0..=5_u64).prop_map(|((a, b), c)| [a, b, c]);
    let ask = (any::<Index>(), cost, 0..CLIENTS.len(), mode).prop_map(|(of, cost, client, mode)| Step::Ask {
        of,
        cost,
        client,
        mode,
    });
    let take_over =
        (0..3_000_u64, any::<bool>()).prop_map(|(known_for, leader_dies)| Step::TakeOver { known_for, leader_dies });
    let others = prop_oneof![Just(Others::Nothing), Just(Others::Before), Just(Others::Among)];
    let what = prop_oneof![
        12 => ask,
        2 => any::<Index>().prop_map(|which| Step::GiveBack { which }),
        2 => (any::<Index>(), any::<Index>(), any::<bool>()).prop_map(|(of, which, over)| Step::Settle { of, which, over }),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(of, which)| Step::CountAnew { of, which }),
        2 => take_over,
        1 => Just(Step::Doubt),
        2 => fate.prop_map(Step::Writes),
        2 => others.prop_map(Step::Limits),
        1 => Just(Step::Crowd),
    ];
    (pause, what)
}

/// The same sizes for limits that do not count tokens.
fn counting() -> impl Strategy<Value = ResourceSpec> {
    let algorithm = || {
        prop_oneof![
            Just(Algorithm::FixedWindow(Alignment::Epoch)),
            Just(Algorithm::FixedWindow(Alignment::FirstUse)),
            Just(Algorithm::SlidingWindow),
            Just(Algorithm::Concurrency),
        ]
    };
    (algorithm(), algorithm(), algorithm()).prop_map(|(a, b, c)| {
        let mut spec = spec();
        spec.limits.iter_mut().zip([a, b, c]).for_each(|(limit, algorithm)| limit.algorithm = algorithm);
        spec.limits[1] = LimitSpec { capacity: whole(60), period: span(5_000), ..spec.limits[1].clone() };
        spec
    })
}

/// Sixty in all, and twenty for each client, in an hour or for ever.
fn quotas() -> impl Strategy<Value = ResourceSpec> {
    let reset = || prop_oneof![Just(None), Just(Some(Alignment::Epoch))];
    (reset(), reset()).prop_map(|(b, c)| {
        let mut spec = spec();
        for (index, (capacity, reset)) in [(60, b), (20, c)].into_iter().enumerate() {
            let limit = &mut spec.limits[1 + index];
            (limit.algorithm, limit.capacity, limit.period) = (Algorithm::Quota(reset), whole(capacity), HOUR);
        }
        spec
    })
}

/// The same, with a limit by key so long that checkpoints list its keys.
fn listing() -> impl Strategy<Value = ResourceSpec> {
    let algorithm = prop_oneof![
        Just(Algorithm::TokenBucket),
        Just(Algorithm::FixedWindow(Alignment::Epoch)),
        Just(Algorithm::FixedWindow(Alignment::FirstUse)),
        Just(Algorithm::SlidingWindow),
    ];
    // One of twelve is too much for an unlisted key.
    (algorithm, prop_oneof![Just(12), Just(24)]).prop_map(|(algorithm, capacity)| by_the_hour(algorithm, capacity))
}

/// `capacity` in an hour for each client.
fn by_the_hour(algorithm: Algorithm, capacity: u64) -> ResourceSpec {
    let mut spec = spec();
    spec.limits[2] = LimitSpec { algorithm, capacity: whole(capacity), period: HOUR, ..spec.limits[2].clone() };
    spec
}

const HOUR: Span = Span::from_secs(3600);

fn lowest(limit: &LimitSpec, calls: &[Held]) -> i128 {
    if limit.algorithm == Algorithm::TokenBucket {
        let calls: Vec<(Time, Amount)> = calls.iter().map(|(at, _, cost)| (*at, *cost)).collect();
        return Judge::new(limit).lowest(&calls) / i128::from(limit.period.nanos());
    }
    Counter::new(limit).lowest(calls)
}

fn check(spec: &ResourceSpec, steps: &[(u64, Step)]) -> Result<(), TestCaseError> {
    let mut play = Play::new(spec.clone());
    steps.iter().for_each(|(pause, step)| play.step(*pause, step));
    play.pass(Span::from_secs(60));
    for (index, limit) in spec.limits.iter().enumerate() {
        let clients = if limit.applies.is_keyed() { (0..CLIENTS.len()).map(Some).collect() } else { vec![None] };
        for client in clients {
            let lowest = lowest(limit, &play.calls(index, client));
            let calls = play.calls(index, client);
            prop_assert!(
                lowest >= 0,
                "{}, {:?}: {} millionths below zero: {calls:?}",
                limit.name,
                limit.algorithm,
                -lowest
            );
        }
    }
    Ok(())
}

/// The number of plays of each test.
fn plays() -> u32 {
    std::env::var("RAMPMETER_FENCE_PLAYS")
        .map_or(300, |plays| plays.parse().expect("RAMPMETER_FENCE_PLAYS is a number"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: plays(), ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_admitted_twice(steps in prop::collection::vec(step(), 1..60)) {
        let steps: Vec<_> = steps.into_iter().filter(|(_, step)| !matches!(step, Step::Crowd)).collect();
        check(&spec(), &steps)?;
    }

    #[test]
    fn nothing_is_admitted_twice_to_listed_keys(spec in listing(), steps in prop::collection::vec(step(), 1..60)) {
        check(&spec, &steps)?;
    }

    #[test]
    fn nothing_is_admitted_twice_to_counted_limits(spec in counting(), steps in prop::collection::vec(step(), 1..60)) {
        // The other limits are judged only if they are token buckets.
        let steps: Vec<_> = steps.into_iter().filter(|(_, step)| !matches!(step, Step::Limits(_) | Step::Crowd)).collect();
        check(&spec, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: plays(), ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_given_back_twice_to_quotas(spec in quotas(), steps in prop::collection::vec(step(), 1..60)) {
        let steps: Vec<_> = steps.into_iter().filter(|(_, step)| !matches!(step, Step::Limits(_) | Step::Crowd)).collect();
        check(&spec, &steps)?;
    }
}

/// A crash costs a budget of dollars no whole one, only about what its latest calls cost.
#[test]
fn a_crash_leaves_a_budget_at_rest_what_it_has() {
    let mut spec = spec();
    let budget = limit("b", 10.0, HOUR);
    spec.limits[1] = LimitSpec { algorithm: Algorithm::Quota(None), ..budget };
    let mut play = Play::new(spec);
    let gets = |play: &mut Play, dollars: f64| {
        let now = play.now;
        let request = play.leader().world.ask(now, &wish(Mode::Allow, &[("b", dollars)]).labelled("client", "x"));
        play.pass(span(300));
        play.leader().world.start(request).is_some()
    };
    assert!(gets(&mut play, 0.5));
    for _ in 0..3 {
        play.pass(span(200_000));
        play.take_over(Span::ZERO, true);
    }
    assert!(!gets(&mut play, 9.6) && gets(&mut play, 9.4));
}

/// More keys than a checkpoint lists.
const CROWD: usize = 700;

fn clients(count: usize) -> impl Iterator<Item = &'static str> {
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..3000).map(|number| format!("client-{number}")).collect());
    NAMES[..count].iter().map(String::as_str)
}

/// Two in flight, each for a second unless it is renewed.
fn two_in_flight() -> ResourceSpec {
    let mut spec = spec();
    spec.limits[0] = LimitSpec {
        algorithm: Algorithm::Concurrency,
        capacity: whole(2),
        period: span(1_000),
        ..spec.limits[0].clone()
    };
    spec
}

fn at_most_two(play: &Play) {
    let lowest = lowest(&play.judged.limits[0], &play.calls(0, None));
    assert!(lowest >= 0, "{lowest}: {:?}", play.calls(0, None));
}
