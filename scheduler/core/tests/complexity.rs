//! The time of an event if there are very many waiting requests, reservations, keys or calls in
//! flight.
//!
//! Tests can't count most steps from outside, so they compare times. A hundred times as many items
//! may make an event a few times as slow (deeper trees, colder caches), but not a hundred times.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]
#![expect(clippy::print_stdout, reason = "figures, shown with --nocapture")]

mod common;

use common::{Wish, World, by, counted, limit, resource, shared, span, wish, with_bulk};
use rampmeter_policy::spec::{Algorithm, Alignment, ResourceSpec};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::splitmix::scatter;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::event::{Event, Outcome};

const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// Work in proportion to size would cost a hundred times as much.
const MOST: f64 = 20.0;
const EVENTS: usize = 500;
/// The number of tries, of which the fastest counts, because other load of the machine only slows
/// an event.
const TRIES: usize = 5;
/// The most tries beside [`MANY`]: a busy machine slows some of them, work in proportion to size all.
const MOST_TRIES: usize = 40;
/// Longer than any try.
const LONGEST: Span = Span::from_secs(3600);

/// Compares the time of [`EVENTS`] events in the presence of [`FEW`] and of [`MANY`].
fn check<State>(build: impl Fn(usize) -> State, mut event: impl FnMut(&mut State, usize)) {
    let mut fastest = |count: usize, enough: Span| {
        let (mut state, mut fastest) = (build(count), LONGEST);
        let clock = Clock::start();
        for attempt in 0..MOST_TRIES {
            let before = clock.now();
            (0..EVENTS).for_each(|number| event(&mut state, attempt * EVENTS + number));
            fastest = fastest.min(clock.now().since(before));
            if attempt + 1 >= TRIES && fastest <= enough {
                break;
            }
        }
        fastest
    };
    let few = fastest(FEW, LONGEST);
    let many = fastest(MANY, Span::from_nanos((few.secs() * MOST * 1e9) as u64));
    let ratio = many.secs() / few.secs();
    println!("{EVENTS} events take {few} beside {FEW} and {many} beside {MANY}: {ratio:.1} times as long");
    assert!(ratio <= MOST, "{few} beside {FEW}, but {many} beside {MANY}");
}

/// Three limits that take turns in being the narrowest, so fast that no queue updates fall due
/// meanwhile.
fn three_limits() -> ResourceSpec {
    let limits = vec![
        limit("requests", 10_000.0, span(1000)),
        limit("units", 40_000.0, span(1000)),
        limit("tokens", 1_000_000.0, span(10_000)),
    ];
    with_bulk(resource(limits), 0.1)
}

/// Costs that fill a different limit each time.
fn mixed(number: usize) -> [(&'static str, f64); 3] {
    let scattered = (number * 7919) % 101;
    [
        ("requests", 1.0 + (scattered % 3) as f64),
        ("units", ((scattered * 13) % 37) as f64),
        ("tokens", ((scattered * 29) % 211) as f64 / 2.0),
    ]
}

/// A world with `count` waiting requests or reservations, of mixed costs, classes and clients.
fn crowd(count: usize, mode: Mode) -> World {
    let mut world = World::new(&shared(three_limits(), &[]));
    world.ask(Time::ORIGIN, &wish(Mode::Reserve, &[("requests", 10_000.0)]));
    (0..count).for_each(|number| one_more(&mut world, Time::ORIGIN, number, mode));
    world
}

fn one_more(world: &mut World, now: Time, number: usize, mode: Mode) {
    let (class, client) = (["urgent", "bulk"][number % 2], format!("client-{}", number * 7919 % 10_007));
    let asked = Wish { client: Some(&client), ..wish(mode, &mixed(number)) };
    world.ask(now, &asked.of_class(class));
}

/// A very short time that passes.
fn moment(number: usize) -> Time {
    Time::from_nanos(number as u64)
}

#[test]
fn one_more_waits() {
    check(|count| crowd(count, Mode::Wait), |world, number| one_more(world, moment(number), number, Mode::Wait));
}

#[test]
fn one_more_waits_and_wants_to_know() {
    check(
        |count| crowd(count, Mode::Wait),
        |world, number| {
            let subscriber = Wish { progress: true, ..wish(Mode::Wait, &mixed(number)) };
            world.ask(moment(number), &subscriber.of_class("bulk"));
        },
    );
}

/// The ages put the waiting requests into the order of a hash of their serial numbers, which once
/// was their priority in a treap.
#[test]
fn one_more_waits_beside_requests_with_chosen_ages() {
    let now = Time::ORIGIN + Span::from_secs(1);
    let build = |count: usize| {
        let mut world = World::new(&resource(vec![limit("requests", 10.0, span(3_600_000))]));
        world.ask(now, &wish(Mode::Reserve, &[("requests", 10.0)]));
        let mut chosen: Vec<u64> = (0..count as u64).collect();
        chosen.sort_unstable_by_key(|number| scatter(2 + number));
        let mut ages = vec![0; count];
        chosen.iter().enumerate().for_each(|(rank, number)| ages[*number as usize] = (count - rank) as u64);
        for age in ages {
            world.ask(now, &Wish { age: Span::from_nanos(age), ..wish(Mode::Wait, &[]) });
        }
        world
    };
    check(build, |world, _| {
        world.ask(now, &wish(Mode::Wait, &[]));
    });
}

#[test]
fn some_waiting_requests_start_and_others_come() {
    check(
        |count| crowd(count, Mode::Wait),
        |world, number| {
            let waiting = world.scheduler.waiting();
            let wakeup = world.scheduler.next_wakeup().expect("a request always waits");
            world.handle(wakeup.at, Event::Wake);
            while world.scheduler.waiting() < waiting {
                world.ask(wakeup.at, &wish(Mode::Wait, &mixed(number)).of_class("bulk"));
            }
        },
    );
}

#[test]
fn a_request_in_the_middle_of_the_queue_cancels() {
    check(
        |count| crowd(count, Mode::Wait),
        |world, number| {
            let id = format!("a{number}");
            let old = Wish { age: Span::from_nanos(number as u64), ..wish(Mode::Wait, &mixed(number)) };
            world.ask(moment(number), &old.named(&id));
            world.settle(moment(number), &id, Outcome::Unused);
        },
    );
}

#[test]
fn one_more_reserves() {
    check(|count| crowd(count, Mode::Reserve), |world, number| one_more(world, moment(number), number, Mode::Reserve));
}

#[test]
fn one_reserves_what_fits_between_and_gives_it_back() {
    check(
        |count| crowd(count, Mode::Reserve),
        |world, number| {
            let id = format!("a{number}");
            let cost = mixed(number).map(|(unit, units)| (unit, units / 4.0));
            world.ask(moment(number), &wish(Mode::Reserve, &cost).named(&id));
            world.settle(moment(number), &id, Outcome::Unused);
        },
    );
}

/// Reservations in `count` / 10 windows, each of which keeps a rest that is too small for a larger
/// request.
fn windows(count: usize) -> World {
    let algorithm = Algorithm::FixedWindow(Alignment::Epoch);
    let mut world = World::new(&resource(vec![counted(algorithm, limit("requests", 10.0, span(1000)))]));
    for _ in 0..count / 10 {
        world.ask(Time::ORIGIN, &wish(Mode::Reserve, &[("requests", 6.0)]));
    }
    world
}

#[test]
fn one_reserves_behind_ten_thousand_windows_and_gives_it_back() {
    check(windows, |world, number| {
        let id = format!("a{number}");
        world.ask(moment(number), &wish(Mode::Reserve, &[("requests", 5.0)]).named(&id));
        world.settle(moment(number), &id, Outcome::Unused);
        assert!(world.scheduler.limit_status(moment(number))[0].level < 0.0);
    });
}

/// `count` keys in use, each with a bucket of its own.
fn keys(count: usize) -> World {
    let mut world = World::new(&resource(vec![by("guild", limit("requests", 10.0, span(1_000_000)))]));
    (0..count).for_each(|number| ask_for_key(&mut world, Time::ORIGIN, number, Mode::Allow, None));
    world
}

fn ask_for_key(world: &mut World, now: Time, number: usize, mode: Mode, id: Option<&str>) {
    let guild = format!("guild-{number}");
    world.ask(now, &Wish { id, labels: vec![("guild", &guild)], ..wish(mode, &[]) });
}

#[test]
fn one_of_many_keys_is_used_and_given_back() {
    check(keys, |world, number| {
        let (id, key) = (format!("a{number}"), number * 7919 % FEW);
        ask_for_key(world, moment(number), key, Mode::Reserve, Some(&id));
        world.settle(moment(number), &id, Outcome::Unused);
    });
}

#[test]
fn one_waits_for_one_of_many_keys_and_cancels() {
    let build = |count| {
        let mut world = keys(count);
        (0..FEW * 12).for_each(|number| ask_for_key(&mut world, Time::ORIGIN, number % FEW, Mode::Wait, None));
        assert!(world.scheduler.waiting() >= FEW, "the keys are used up");
        world
    };
    check(build, |world, number| {
        let (id, key) = (format!("a{number}"), number * 7919 % FEW);
        ask_for_key(world, moment(number), key, Mode::Wait, Some(&id));
        world.settle(moment(number), &id, Outcome::Unused);
    });
}

/// `count` calls in flight.
fn in_flight(count: usize) -> World {
    let limit = counted(Algorithm::Concurrency, limit("requests", 2.0 * MANY as f64, span(60_000)));
    let mut world = World::new(&resource(vec![limit]));
    (0..count).for_each(|number| {
        world.ask(moment(number), &wish(Mode::Allow, &[]).named(&format!("b{number}")));
    });
    world
}

#[test]
fn one_more_call_is_in_flight_is_renewed_and_ends() {
    check(in_flight, |world, number| {
        let (id, now) = (format!("a{number}"), moment(MANY + number));
        world.ask(now, &wish(Mode::Allow, &[]).named(&id));
        world.settle(now, &id, Outcome::Extend);
        world.settle(now, &format!("b{}", number * 7919 % FEW), Outcome::Extend);
        world.settle(now, &id, Outcome::Used(Vec::new()));
        assert!(world.scheduler.limit_status(now)[0].level > 0.0);
    });
}

/// `count` clients, each with a far promise, or only with a past one.
fn clients(count: usize, period: Span, far: bool) -> World {
    let spec = resource(vec![by("client", limit("requests", 40.0, period))]);
    let mut world = World::fenced(&spec, Time::ORIGIN);
    for number in 0..count {
        if number % 250 == 0 {
            world.checkpointed(moment(number));
        }
        let client = format!("client-{number:0>9}");
        let ask = |cost| Wish { labels: vec![("client", &*client)], ..wish(Mode::Reserve, &[("requests", cost)]) };
        for cost in if far { &[1.0, 30.0, 30.0][..] } else { &[1.0] } {
            world.ask(moment(number), &ask(*cost));
        }
        world.answers.clear();
    }
    world.checkpointed(moment(count));
    world
}

fn one_more_checkpoint(world: &mut World, number: usize) {
    world.checkpointed(moment(MANY + number));
}

/// A checkpoint lists hundreds of far promises, however many there are.
#[test]
fn a_checkpoint_is_taken_while_keys_have_far_promises() {
    check(|count| clients(count, span(500_000), true), one_more_checkpoint);
}

/// Keys at rest are on pages, which checkpoints only name.
#[test]
fn a_checkpoint_is_taken_beside_keys_of_a_long_limit() {
    for far in [false, true] {
        check(|count| clients(count, span(3_600_000), far), one_more_checkpoint);
    }
}
