//! `pace` spreads a window over its time: a tenth at its beginning, and the rest evenly.
//!
//! The judge of this file has arithmetic of its own. It adds up what has started in a window, and
//! compares the sum with what the pace has given out (the line).

use crate::prelude::*;
use proptest::prelude::*;
use rampmeter_protocol::reason::Reason;

/// The length of a window.
const WINDOW: Span = Span::from_secs(1000);

fn paced(algorithm: Algorithm, capacity: f64) -> ResourceSpec {
    resource(vec![LimitSpec { algorithm, pace: true, ..limit("requests", capacity, WINDOW) }])
}

fn quota(capacity: f64) -> ResourceSpec {
    paced(Algorithm::Quota(Some(Alignment::Epoch)), capacity)
}

/// When a window of 100 units that begins at the origin of time has given out `units`.
fn given_at(units: u128) -> Time {
    let length = u128::from(WINDOW.nanos()) - 1;
    Time::from_nanos((units.saturating_sub(10) * length).div_ceil(90) as u64)
}

#[test]
fn a_tenth_starts_at_once_and_the_rest_evenly() {
    for algorithm in [Algorithm::Quota(Some(Alignment::Epoch)), Algorithm::FixedWindow(Alignment::Epoch)] {
        for mode in [Mode::Wait, Mode::Reserve] {
            let mut world = World::new(&paced(algorithm.clone(), 100.0));
            let asked: Vec<usize> = (0..100).map(|_| world.ask(ms(0), &wish(mode, &[]))).collect();
            world.run_until(ms(1_000_000));
            for (number, request) in asked.into_iter().enumerate() {
                let expected = given_at(number as u128 + 1);
                assert_eq!(world.start(request), Some(expected), "{algorithm:?} {mode:?} number {number}");
            }
        }
    }
}

#[test]
fn unused_capacity_of_a_window_is_lost() {
    let mut world = World::new(&quota(100.0));
    let late = ms(999_000);
    let first = world.ask(late, &wish(Mode::Reserve, &[("requests", 95.0)]));
    assert_eq!(world.start(first), Some(late));
    let second = world.ask(late, &wish(Mode::Reserve, &[("requests", 4.0)]));
    assert_eq!(world.start(second), Some(late));
    world.run_until(ms(1_000_000));
    let third = world.ask(ms(1_000_000), &wish(Mode::Reserve, &[("requests", 28.0)]));
    assert_eq!(world.start(third), Some(given_at(28) + WINDOW));
}

#[test]
fn a_cost_of_the_whole_capacity_starts_at_the_end() {
    let mut world = World::new(&quota(100.0));
    let all = world.ask(ms(0), &wish(Mode::Reserve, &[("requests", 100.0)]));
    assert_eq!(world.start(all), Some(Time::from_nanos(WINDOW.nanos() - 1)));
}

#[test]
fn a_less_urgent_class_leaves_a_part_of_what_is_free() {
    let mut world = World::new(&with_bulk(quota(100.0), 0.5));
    let bulk: Vec<usize> =
        (0..6).map(|_| world.ask(ms(0), &wish(Mode::Reserve, &[("requests", 1.0)]).of_class("bulk"))).collect();
    let at_once = bulk.iter().filter(|request| world.start(**request) == Some(ms(0))).count();
    assert_eq!(at_once, 5, "half of the tenth");
    let urgent = world.ask(ms(0), &wish(Mode::Reserve, &[("requests", 4.0)]));
    assert_eq!(world.start(urgent), Some(ms(0)));
    // After the part x of the window, the pace has released 10 + 90 x requests. The headroom has
    // shrunk to 5 (1 - x). Six requests fit above it if 6 + 5 (1 - x) = 10 + 90 x.
    let waiting = world.ask(ms(0), &wish(Mode::Wait, &[("requests", 1.0)]).of_class("bulk"));
    world.run_until(ms(1_000_000));
    let late = world.start(bulk[5]).unwrap().nanos() as f64 / WINDOW.nanos() as f64;
    assert!((late - 1.0 / 95.0).abs() < 1e-6, "{late}");
    assert!(world.start(waiting).unwrap() > world.start(bulk[5]).unwrap());
}

#[test]
fn status_and_explanations_tell_of_the_pace() {
    let mut world = World::new(&quota(100.0));
    let first = world.ask(ms(0), &wish(Mode::Wait, &[("requests", 8.0)]).named("first"));
    assert_eq!(world.start(first), Some(ms(0)));
    world.ask(ms(0), &wish(Mode::Wait, &[("requests", 4.0)]).named("second"));
    let status = world.scheduler.limit_status(ms(0)).remove(0);
    assert_eq!((status.level, status.free_now, status.resets_ms), (92.0, Some(2.0), Some(1_000_000.0)));
    let explained = world.scheduler.explain(ms(0), &Question::default()).unwrap();
    assert_eq!(explained.first[0].reason, Some(Reason::Pace));
    let pays_in = explained.first[0].held_by.as_ref().and_then(|holder| holder.pays_in_ms).unwrap();
    assert!((pays_in - 22_222.222_2).abs() < 1e-3, "{pays_in}");
    // A spent quota is refused, whatever its pace.
    world.settle(ms(0), "first", Outcome::Used(vec![("requests".to_owned(), amount(97.0))]));
    let refused = world.ask(ms(0), &wish(Mode::Wait, &[("requests", 4.0)]));
    assert!(
        matches!(world.last_answer(refused), Some(SentAnswer::Refused(Refusal::QuotaSpent { .. }))),
        "{:?}",
        world.last_answer(refused)
    );
    assert_eq!(world.scheduler.limit_status(ms(0))[0].free_now, Some(0.0));
}

#[test]
fn a_window_that_is_used_up_is_no_matter_of_pace() {
    let mut world = World::new(&paced(Algorithm::FixedWindow(Alignment::Epoch), 100.0));
    world.ask(ms(0), &wish(Mode::Wait, &[("requests", 8.0)]).named("first"));
    world.ask(ms(0), &wish(Mode::Wait, &[("requests", 4.0)]));
    let reason = |world: &mut World| world.scheduler.explain(ms(0), &Question::default()).unwrap().first[0].reason;
    assert_eq!(reason(&mut world), Some(Reason::Pace));
    world.settle(ms(0), "first", Outcome::Used(vec![("requests".to_owned(), amount(97.0))]));
    assert_eq!(reason(&mut world), Some(Reason::Stock));
}

#[test]
fn a_limit_without_such_windows_has_no_pace() {
    let refused = [
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::SlidingWindow,
        Algorithm::Concurrency,
        Algorithm::FixedWindow(Alignment::FirstUse),
        Algorithm::Quota(Some(Alignment::FirstUse)),
        Algorithm::Quota(None),
    ];
    for algorithm in refused {
        let faults = Resource::new(&paced(algorithm.clone(), 100.0)).unwrap_err();
        assert!(format!("{faults:?}").contains("`pace` spreads a window"), "{algorithm:?}: {faults:?}");
    }
}

/// A step of a random play: a request after some seconds, a settle, or a hand-over.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask { after: u64, units: u32, mode: Mode },
    Unused { call: usize },
    Used { call: usize, units: u32 },
    HandOver,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let mode = prop_oneof![Just(Mode::Wait), Just(Mode::Reserve), Just(Mode::Allow)];
    let ask = (0..120_000_u64, 1..30_u32, mode).prop_map(|(after, units, mode)| Step::Ask { after, units, mode });
    let unused = (0..64_usize).prop_map(|call| Step::Unused { call });
    let used = (0..64_usize, 0..30_u32).prop_map(|(call, units)| Step::Used { call, units });
    proptest::collection::vec(prop_oneof![6 => ask, 1 => unused, 1 => used, 1 => Just(Step::HandOver)], 1..60)
}

/// A call that was granted: when it starts, and what it counts for.
struct Call {
    id: String,
    request: usize,
    units: u32,
    is_open: bool,
}

/// Whether every start finds its window's line above what has started until then.
fn judge(world: &World, calls: &[Call]) -> Result<(), String> {
    let mut starts: Vec<(u64, u32)> = Vec::new();
    for call in calls {
        starts.extend(world.start(call.request).map(|at| (at.nanos(), call.units)));
    }
    starts.sort_unstable();
    for (at, _) in &starts {
        let begins = at / WINDOW.nanos() * WINDOW.nanos();
        let used: u64 =
            starts.iter().filter(|(other, _)| (begins..=*at).contains(other)).map(|(_, units)| u64::from(*units)).sum();
        let come = 90_000_000 * u128::from(at - begins) / u128::from(WINDOW.nanos() - 1);
        if u128::from(used) * 1_000_000 > 10_000_000 + come {
            return Err(format!("{used} have started by {at} of the window at {begins}"));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_start_is_ahead_of_the_pace(steps in steps()) {
        let mut world = World::new(&quota(100.0));
        let (mut now, mut calls) = (ms(0), Vec::<Call>::new());
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Step::Ask { after, units, mode } => {
                    now += span(after);
                    world.run_until(now);
                    let id = format!("id-{number}");
                    let request = world.ask(now, &Wish { id: Some(&id), ..wish(mode, &[("requests", f64::from(units))]) });
                    calls.push(Call { id, request, units, is_open: true });
                }
                Step::Unused { call } => if calls.get(call).is_some_and(|call| call.is_open) {
                    let call = calls.remove(call);
                    world.settle(now, &call.id, Outcome::Unused);
                },
                // What costs less than was charged leaves more; the line holds for the rest.
                Step::Used { call, units } => if let Some(call) = calls.get_mut(call)
                    && call.is_open && units <= call.units && world.start(call.request).is_some_and(|at| at <= now) {
                    world.settle(now, &call.id, Outcome::Used(vec![("requests".to_owned(), amount(f64::from(units)))]));
                    (call.units, call.is_open) = (units, false);
                },
                Step::HandOver => {
                    let (resource, epoch) = (world.scheduler.resource().clone(), world.scheduler.epoch().next());
                    let snapshot = world.scheduler.snapshot(now, 1000);
                    world.scheduler = Scheduler::restore(resource, epoch, now, now, &snapshot);
                    let first = world.scheduler.checkpoint(now).map(|checkpoint| checkpoint.number);
                    first.into_iter().for_each(|number| world.handle(now, Event::CheckpointStored(number)));
                }
            }
            world.run_until(now);
        }
        prop_assert_eq!(judge(&world, &calls), Ok(()));
    }
}
