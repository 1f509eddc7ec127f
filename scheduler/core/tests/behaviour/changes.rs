//! Changes of limits, and hand-overs, that take several steps because many requests wait.

use crate::prelude::*;
use rampmeter_scheduler_core::scheduler::queue_cursor::QueueCursor;
use rampmeter_scheduler_core::scheduler::queue_cursor::Selection;

/// Waiting requests that no single event charges again.
const MANY: usize = 300;

/// Later than answers may wait for the store.
fn at(millis: u64) -> Time {
    Time::ORIGIN + span(1_000 + millis)
}

fn per_second(requests: f64) -> ResourceSpec {
    resource(vec![limit("requests", requests, span(1000))])
}

fn id(number: usize) -> PermitId {
    PermitId::new(&format!("w{number}")).unwrap()
}

/// A world whose bucket is empty, and the `MANY` requests that wait in it: `w0` and later ones.
fn crowd(spec: &ResourceSpec, wish_of: impl Fn(usize) -> Wish<'static>) -> (World, Vec<usize>) {
    let mut world = World::new(spec);
    world.ask(at(0), &wish(Mode::Reserve, &[("requests", 10.0)]));
    let ask = |number: usize| world.ask(at(0), &wish_of(number).named(&format!("w{number}")));
    let asked = (0..MANY).map(ask).collect();
    assert_eq!(world.scheduler.waiting(), MANY);
    (world, asked)
}

fn plain(_: usize) -> Wish<'static> {
    wish(Mode::Wait, &[])
}

fn change(world: &mut World, spec: &ResourceSpec) {
    world.handle(at(0), Event::Limits(Box::new(Resource::new(spec).unwrap())));
}

/// Whether a change is under way: its next step is due at once.
fn is_changing(world: &World) -> bool {
    world.scheduler.next_wakeup().is_some_and(|wakeup| wakeup.at == at(0))
}

/// Takes all steps at the time of the change. Returns the number of wake-ups.
fn finish(world: &mut World) -> usize {
    let mut steps = 0;
    while is_changing(world) {
        world.handle(at(0), Event::Wake);
        steps += 1;
    }
    steps
}

/// The starts of requests in milliseconds.
fn starts(world: &mut World, asked: &[usize]) -> Vec<f64> {
    world.run_until(at(100_000));
    let start = |asked: &usize| world.start(*asked).expect("it starts").since(at(0)).millis();
    asked.iter().map(start).collect()
}

/// `count` times at intervals of `pace` milliseconds, from the first interval on.
fn paced(pace: f64, count: usize) -> Vec<f64> {
    (1..=count).map(|number| number as f64 * pace).collect()
}

#[test]
fn requests_keep_their_order_through_the_steps_of_a_change() {
    let (mut world, asked) = crowd(&per_second(10.0), plain);
    change(&mut world, &per_second(20.0));
    assert!(finish(&mut world) > 2, "one event does not charge them all");
    assert_eq!(world.scheduler.waiting(), MANY - 1, "the first starts soon");
    assert_eq!(starts(&mut world, &asked), paced(50.0, MANY));
}

/// Neither class nor mode lets a new request pass those that waited before.
#[test]
fn no_request_that_comes_meanwhile_passes() {
    let (mut world, mut asked) = crowd(&per_second(10.0), plain);
    change(&mut world, &per_second(20.0));
    let waits = world.ask(at(0), &wish(Mode::Wait, &[]));
    let reserves = world.ask(at(0), &wish(Mode::Reserve, &[]));
    let allowed = world.ask(at(0), &wish(Mode::Allow, &[]));
    assert_eq!([reserves, allowed, waits].map(|asked| world.last_answer(asked)), [None, None, None]);
    finish(&mut world);
    let refused = world.last_answer(allowed);
    assert!(matches!(refused, Some(SentAnswer::Refused(Refusal::NotInTime { .. }))), "{refused:?}");
    asked.extend([waits, reserves]);
    assert_eq!(starts(&mut world, &asked), paced(50.0, MANY + 2));
}

/// Requests of one client are in order, and the other client has its share, as without the change.
#[test]
fn clients_share_fairly_after_the_steps() {
    let of = |client| Wish { client: Some(client), ..wish(Mode::Wait, &[]) };
    let spec = |requests| shared(per_second(requests), &[]);
    let (mut world, mut asked) = crowd(&spec(10.0), |number| of(if number + 2 < MANY { "x" } else { "y" }));
    change(&mut world, &spec(20.0));
    let late = world.ask(at(0), &of("x"));
    world.handle(at(0), Event::Wake);
    asked.push(world.ask(at(0), &of("y")));
    finish(&mut world);
    let starts = starts(&mut world, &asked);
    assert_eq!(starts[..4], [50.0, 150.0, 250.0, 350.0], "x has every other turn");
    assert_eq!(starts[MANY - 2..], [100.0, 200.0, 300.0], "y has the turns between");
    assert_eq!(world.start(late), Some(at(50 * (MANY as u64 + 2))));
}

/// Requests that no step has reached yet can leave in every way, and can be repeated.
#[test]
fn requests_leave_and_are_repeated_before_their_step() {
    let (mut world, asked) = crowd(&per_second(10.0), plain);
    change(&mut world, &per_second(20.0));
    let last = |back: usize| MANY - back;
    assert_eq!(world.settle(at(0), &format!("w{}", last(1)), Outcome::Unused), SentAnswer::Settled);
    world.handle(at(0), Event::Undelivered { id: id(last(2)), is_grant: false });
    let again = world.ask(at(0), &plain(0).named(&format!("w{}", last(3))));
    let refused = world.ask(at(0), &wish(Mode::Reserve, &[]).named(&format!("w{}", last(4))));
    assert_eq!(world.last_answer(refused), Some(SentAnswer::Refused(Refusal::RepeatCannotWait)));
    assert_eq!(
        world.settle(at(0), &format!("w{}", last(4)), Outcome::Extend),
        SentAnswer::Refused(Refusal::StillWaiting)
    );
    assert_eq!(world.scheduler.waiting(), MANY - 2);
    assert!(is_changing(&world));
    finish(&mut world);
    let left: Vec<usize> = asked[..last(3)].iter().copied().chain([again]).collect();
    assert_eq!(starts(&mut world, &left), paced(50.0, MANY - 2));
}

/// Reaches `MAX_CHANGES`.
#[test]
fn the_last_of_many_changes_counts_in_the_end() {
    let (mut world, asked) = crowd(&per_second(10.0), plain);
    (1..=40).for_each(|requests| change(&mut world, &per_second(f64::from(requests))));
    let capacity = |world: &World| world.scheduler.resource().spec().limits[0].capacity.units();
    assert_eq!(capacity(&world), 16.0, "later changes wait until these have ended");
    finish(&mut world);
    assert_eq!(capacity(&world), 40.0);
    assert_eq!(starts(&mut world, &asked), paced(25.0, MANY));
}

#[test]
fn what_is_left_of_a_new_limit_counts_after_many_changes() {
    let (mut world, _) = crowd(&per_second(10.0), plain);
    (1..=16).for_each(|requests| change(&mut world, &per_second(f64::from(requests))));
    let with = |units: &[&str]| {
        let more = units.iter().map(|unit| limit(unit, 9.0, span(9000)));
        Box::new(Resource::new(&resource(per_second(10.0).limits.into_iter().chain(more).collect())).unwrap())
    };
    for units in [&["first"][..], &["first", "second"]] {
        let left = vec![(name(units[units.len() - 1]), amount(2.0))];
        world.handle(at(0), Event::Discovered { resource: with(units), left });
    }
    assert_eq!(world.scheduler.resource().limits().len(), 1, "they wait until the changes have ended");
    finish(&mut world);
    let levels = |world: &mut World| world.scheduler.limit_status(at(0))[1..].iter().map(|limit| limit.level).collect();
    let levels: Vec<f64> = levels(&mut world);
    assert_eq!(levels, [2.0, 2.0]);
}

#[test]
fn a_purge_ends_waits_before_their_step() {
    let (mut world, _) = crowd(&per_second(10.0), plain);
    change(&mut world, &per_second(20.0));
    let (mut ended, mut walk) = (0, Some(QueueCursor::default()));
    while let Some(from) = walk {
        let (more, next) = world.scheduler.purge(from, &Selection::default());
        (ended, walk) = (ended + more, next);
    }
    assert_eq!((ended, world.scheduler.waiting()), (MANY, 0));
    world.handle(at(0), Event::Wake);
    let next = world.ask(at(0), &wish(Mode::Wait, &[]));
    assert_eq!(starts(&mut world, &[next]), [50.0]);
}

#[test]
fn no_request_loses_its_place_to_a_new_one() {
    let with_bound = |requests| {
        let mut spec = per_second(requests);
        spec.bounds.max_waiting = MANY;
        spec
    };
    let (mut world, asked) = crowd(&with_bound(10.0), plain);
    change(&mut world, &with_bound(20.0));
    let more = world.ask(at(0), &wish(Mode::Wait, &[]));
    assert!(matches!(world.last_answer(more), Some(SentAnswer::Refused(Refusal::BoundReached { .. }))));
    assert_eq!(starts(&mut world, &asked), paced(50.0, MANY));
}

/// A limit of half the rate serves half of the requests in time.
#[test]
fn deadlines_hold_after_the_steps() {
    let within = |number: usize| Wish { max_wait: Some(span(100 * (number as u64 + 1))), ..plain(number) };
    let (mut world, asked) = crowd(&per_second(10.0), within);
    change(&mut world, &per_second(5.0));
    finish(&mut world);
    world.run_until(at(100_000));
    let in_time = |asked: &&usize| world.start(**asked).is_some();
    let late =
        |asked: &&usize| matches!(world.last_answer(**asked), Some(SentAnswer::Refused(Refusal::NotInTime { .. })));
    let (in_time, late) = (asked.iter().filter(in_time).count(), asked.iter().filter(late).count());
    assert_eq!(in_time + late, MANY);
    assert!(late > MANY / 3 && in_time > MANY / 3, "{in_time} in time, {late} late");
}

/// The second change meets three kinds of requests: those charged again, those not yet charged
/// again, and new ones.
#[test]
fn a_change_during_a_change_charges_every_request_by_the_last_limits() {
    let other = |requests| {
        let slow = LimitSpec { name: name("other"), ..limit("requests", requests, span(1000)) };
        resource(vec![limit("units", 1000.0, span(1)), slow])
    };
    let (mut world, mut asked) = crowd(&per_second(10.0), plain);
    change(&mut world, &other(40.0));
    world.handle(at(0), Event::Wake);
    asked.push(world.ask(at(0), &wish(Mode::Wait, &[])));
    assert!(is_changing(&world));
    change(&mut world, &other(20.0));
    asked.push(world.ask(at(0), &wish(Mode::Wait, &[])));
    finish(&mut world);
    // The other limit begins full, with 20 of them.
    let starts = starts(&mut world, &asked);
    assert_eq!(starts[..20], [0.0; 20]);
    assert_eq!(starts[20..], paced(50.0, MANY + 2 - 20));
}

/// A request whose call is not stored is charged by the cost that its bill implies, by limits of
/// other names, too.
#[test]
fn a_cost_survives_changes_that_rename_its_limit() {
    let called = |called: &str| resource(vec![LimitSpec { name: name(called), ..limit("requests", 30.0, span(1000)) }]);
    let (mut world, asked) = crowd(&per_second(10.0), |_| wish(Mode::Wait, &[("requests", 3.0)]));
    change(&mut world, &called("second"));
    world.handle(at(0), Event::Wake);
    change(&mut world, &called("third"));
    finish(&mut world);
    let starts = starts(&mut world, &asked);
    assert_eq!(starts[..10], [0.0; 10]);
    assert_eq!(starts[10..], paced(100.0, MANY - 10));
}

#[test]
fn a_hand_over_during_a_change_reaches_every_request() {
    let (mut world, mut asked) = crowd(&per_second(10.0), plain);
    change(&mut world, &per_second(20.0));
    world.handle(at(0), Event::Wake);
    asked.extend([Mode::Wait, Mode::Reserve].map(|mode| world.ask(at(0), &wish(mode, &[]))));
    world.handle(at(0), Event::HandOver);
    finish(&mut world);
    assert_eq!(world.scheduler.waiting(), 0);
    for request in asked {
        let answers: Vec<_> =
            world.answers.iter().filter(|(_, to, _)| *to == request).map(|(.., answer)| answer).collect();
        assert_eq!(answers, [&SentAnswer::Refused(Refusal::HandingOver)]);
    }
}

/// Under a checkpoint from the middle of a change, no waiting request is granted before all are
/// charged. A successor can go on from that checkpoint.
#[test]
fn a_checkpoint_of_the_middle_of_a_change_counts() {
    let mut world = World::of(Scheduler::new(Resource::new(&per_second(10.0)).unwrap(), Epoch::FIRST, at(0)).fenced());
    let store = |world: &mut World| {
        let checkpoint = world.scheduler.checkpoint(at(0)).unwrap();
        world.handle(at(0), Event::CheckpointStored(checkpoint.number));
        checkpoint
    };
    store(&mut world);
    let asked: Vec<usize> =
        (0..MANY).map(|number| world.ask(at(0), &plain(number).named(&format!("w{number}")))).collect();
    store(&mut world);
    let granted = asked.iter().filter(|asked| world.start(**asked).is_some()).count();
    change(&mut world, &per_second(20.0));
    let middle = store(&mut world);
    assert!(is_changing(&world));
    assert_eq!(asked.iter().filter(|asked| world.start(**asked).is_some()).count(), granted);
    let resource = Resource::new(&per_second(20.0)).unwrap();
    let mut successor = World::of(Scheduler::restore(resource, Epoch::new(2), at(0), at(0), &middle.state));
    let again: Vec<usize> = (granted..MANY).map(|number| successor.ask(at(0), &plain(number))).collect();
    for (world, asked) in [(&mut world, &asked[granted..]), (&mut successor, &again[..])] {
        finish(world);
        for millis in (0..MANY as u64 * 50).step_by(50) {
            world.run_until(at(millis));
            if let Some(checkpoint) = world.scheduler.checkpoint(at(millis)) {
                world.handle(at(millis), Event::CheckpointStored(checkpoint.number));
            }
        }
        let starts: Vec<Time> = asked.iter().filter_map(|asked| world.start(*asked)).collect();
        assert!(starts.len() > MANY / 2, "{} of {MANY}", starts.len());
        assert!(starts.is_sorted());
        // The bucket held ten, which the former leader has granted.
        assert!(starts.iter().zip(paced(50.0, MANY)).all(|(start, least)| start.since(at(0)).millis() >= least));
    }
}

/// Requests in the queues of keys keep their order, and the buckets of keys are forgotten later.
#[test]
fn requests_that_wait_for_keys_are_charged_anew() {
    let by = |label: &str, called: &str, requests| {
        let applies = Applies { key: vec![label.to_owned()], ..Applies::default() };
        LimitSpec { applies, name: name(called), ..limit("requests", requests, span(1000)) }
    };
    let both = resource(vec![by("client", "each", 10.0), by("route", "routes", 1000.0)]);
    let faster = resource(vec![by("route", "routes", 1000.0), by("client", "each", 20.0)]);
    let mut world = World::new(&both);
    let clients = ["x", "y", "z"];
    let of = |client: &'static str| {
        let labels = vec![("client", client), ("route", client)];
        Wish { labels, client: Some(client), ..wish(Mode::Wait, &[]) }
    };
    for client in clients {
        world.ask(at(0), &Wish { cost: vec![("requests", 10.0)], ..of(client) });
    }
    let asked: Vec<[usize; 3]> = (0..MANY).map(|_| clients.map(|client| world.ask(at(0), &of(client)))).collect();
    change(&mut world, &faster);
    assert!(is_changing(&world));
    change(&mut world, &both);
    world.handle(at(0), Event::Wake);
    change(&mut world, &faster);
    finish(&mut world);
    for place in 0..clients.len() {
        let of_client: Vec<usize> = asked.iter().map(|asked| asked[place]).collect();
        assert_eq!(starts(&mut world, &of_client), paced(50.0, MANY));
    }
    (0..100).for_each(|later| world.handle(at(200_000 + later), Event::Wake));
    assert_eq!(world.scheduler.limit_status(at(201_000)).iter().map(|limit| limit.keys).sum::<u64>(), 0);
}

/// Explanations show requests that no step has reached yet, with the charges of the former limits.
#[test]
fn requests_are_explained_before_their_step() {
    let both = resource(vec![limit("units", 1000.0, span(1)), limit("requests", 10.0, span(1000))]);
    let (mut world, _) = crowd(&both, |_| wish(Mode::Wait, &[]));
    change(&mut world, &per_second(20.0));
    let last = Some(id(MANY - 1));
    let explained = world.scheduler.explain(at(0), &Question { id: last.clone(), after: None }).unwrap();
    assert_eq!(explained.request.unwrap().takes, [(name("requests"), 1.0)].into());
    assert!(world.scheduler.left(at(0), &id(MANY - 1)).is_empty());
    for after in [None, last] {
        let explained = world.scheduler.explain(at(0), &Question { id: None, after }).unwrap();
        assert_eq!(explained.waiting, MANY as u64);
    }
    let [class] = &world.scheduler.class_status(at(5))[..] else { panic!("one class") };
    assert_eq!((class.queued, class.oldest_ms), (MANY as u64, 5.0));
}

/// Before all requests are charged, none hears how it stands. Reaches `queue_updates::MAX_PAUSE`.
#[test]
fn requests_hear_how_they_stand_after_the_steps() {
    let (mut world, asked) = crowd(&per_second(10.0), |_| Wish { progress: true, ..wish(Mode::Wait, &[]) });
    change(&mut world, &per_second(20.0));
    let updates_sent = |world: &World, from: usize| {
        world.answers[from..].iter().filter(|(.., answer)| matches!(answer, SentAnswer::Queued(..))).count()
    };
    let before = world.answers.len();
    let again = world.ask(at(0), &wish(Mode::Wait, &[]).named(&format!("w{}", MANY - 1)));
    assert_eq!((updates_sent(&world, before), world.last_answer(again)), (0, None));
    world.run_until(at(40));
    assert_eq!(world.last_answer(asked[0]), Some(SentAnswer::Granted(span(50))));
    assert_eq!(updates_sent(&world, before), 0);
    world.run_until(at(3_500));
    let (told, granted) = (updates_sent(&world, before), MANY - world.scheduler.waiting());
    assert!((MANY - granted - 1..MANY - 1).contains(&told), "{told} told, {granted} granted, and one asked for none");
}
