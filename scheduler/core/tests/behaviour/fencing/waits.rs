//! What waits for the store, and what a checkpoint frees.

use super::*;

/// A call whose lease had ended before a checkpoint frees no place under that checkpoint.
#[test]
fn a_finished_call_frees_no_place_of_a_checkpoint_that_never_counted_it() {
    let mut play = Play::new(two_in_flight());
    let ask = |play: &mut Play| {
        let now = play.now;
        play.leader().ask(now, [1, 0, 0], 0, Mode::Allow);
    };
    ask(&mut play);
    play.pass(span(1_500));
    while play.now.since(play.store.taken) > span(20) {
        play.pass(span(5));
    }
    let now = play.now;
    assert_eq!(play.leader().world.settle(now, &permit_id(0, 0), Outcome::Used(Vec::new())), SentAnswer::Settled);
    (0..2).for_each(|_| ask(&mut play));
    play.take_over(Span::ZERO, true);
    (0..2).for_each(|_| ask(&mut play));
    at_most_two(&play);
}

/// A call that is renewed after its lease takes a place that earlier checkpoints did not count.
#[test]
fn a_lease_renewed_late_is_charged_to_checkpoints_without_it() {
    let mut world = World::fenced(&two_in_flight(), Time::ORIGIN);
    let ask = |world: &mut World, now: Time| {
        let request = world.ask(now, &wish(Mode::Allow, &[("a", 1.0)]).named(&format!("p{}", world.asked)));
        world.start(request).is_some()
    };
    let [start, late] = [0, 1_500].map(|at| Time::ORIGIN + span(at));
    world.checkpointed(start);
    assert!(ask(&mut world, start));
    world.run_until(late);
    world.checkpointed(late);
    world.settle(late, "p0", Outcome::Extend);
    world.settle(late, "p0", Outcome::Used(Vec::new()));
    let granted = (0..3).filter(|_| ask(&mut world, late)).count();
    assert_eq!(granted, 1, "the checkpoint has room for one call beside those that it counts");
}

/// A far start is told once the store has it. If that takes too long, the start is withdrawn,
/// however late the delay is noticed.
#[test]
fn a_far_start_waits_for_the_store() {
    let at = |millis: u64| Time::ORIGIN + span(100_000 + millis);
    for (noticed, granted) in [(100, true), (600, false), (60_000, false)] {
        for stored in [true, false] {
            let mut world = World::fenced(&spec(), at(0));
            world.checkpointed(at(0));
            let near = world.ask(at(0), &wish_of(Mode::Reserve, [0, 200, 0], 0).named("near"));
            world.checkpointed(at(0));
            assert_eq!(world.start(near), Some(at(0)));
            let before = world.scheduler.checkpoint(at(0)).unwrap();
            let far = world.ask(at(0), &wish_of(Mode::Reserve, [0, 20, 0], 0).named("far"));
            world.handle(at(0), Event::CheckpointStored(before.number));
            assert_eq!(world.start(far), None, "the store knows nothing of it");
            let second = world.scheduler.checkpoint(at(50)).unwrap();
            let what = if stored { Event::CheckpointStored(second.number) } else { Event::Wake };
            world.handle(at(noticed), what);
            match world.start(far) {
                Some(start) => assert!(stored && granted && start == at(5_000), "{start} at {noticed}"),
                None => assert!(!stored || !granted, "not told at {noticed}"),
            }
            world.handle(at(120_000), Event::HandOver);
        }
    }
}

/// The store's confirmation dispatches the requests that wait for a checkpoint. Until then no
/// dispatch is due, whatever the horizon is.
#[test]
fn a_request_that_waits_for_the_store_is_dispatched_when_the_store_has_answered() {
    let at = |millis: u64| Time::ORIGIN + span(100_000 + millis);
    for horizon in [0, 50] {
        let spec = ResourceSpec { horizon: span(horizon), ..spec() };
        let mut world = World::fenced(&spec, at(0));
        let waiting = world.ask(at(0), &wish_of(Mode::Wait, [1, 0, 0], 0));
        let next = world.scheduler.next_wakeup().filter(|next| next.at < at(100));
        assert_eq!(next, None, "horizon of {horizon} ms");
        let checkpoint = world.scheduler.checkpoint(at(1)).unwrap();
        world.handle(at(6), Event::CheckpointStored(checkpoint.number));
        assert_eq!(world.start(waiting), Some(at(6)));
    }
}

/// A request without a covering checkpoint is judged again with each one, and waits for half a
/// second in all.
#[test]
fn a_request_that_is_judged_again_waits_no_longer() {
    let at = |millis: u64| Time::ORIGIN + span(100_000 + millis);
    let mut world = World::fenced(&spec(), at(0));
    world.checkpointed(at(0));
    let before = world.scheduler.checkpoint(at(0)).unwrap();
    let held = world.ask(at(0), &wish_of(Mode::Reserve, [0, 200, 0], 0));
    world.handle(at(300), Event::CheckpointStored(before.number));
    assert!(world.answers.is_empty(), "{:?}", world.answers);
    world.handle(at(550), Event::Wake);
    assert_eq!(world.answers, [(at(550), held, SentAnswer::Refused(Refusal::StoreSilent))]);
}

/// A request whose answer waits for the store can be cancelled, and repeated.
#[test]
fn a_request_that_waits_for_a_checkpoint_is_cancelled_and_repeated() {
    let at = |millis: u64| Time::ORIGIN + span(100_000 + millis);
    for cancelled in [true, false] {
        let mut world = World::fenced(&spec(), at(0));
        let held = world.ask(at(0), &wish_of(Mode::Reserve, [0, 200, 0], 0).named("p"));
        assert_eq!(world.settle(at(1), "p", Outcome::Used(Vec::new())), SentAnswer::Refused(Refusal::StillWaiting));
        let repeated = world.ask(at(1), &wish_of(Mode::Reserve, [0, 200, 0], 0).named("p"));
        if cancelled {
            assert_eq!(world.settle(at(2), "p", Outcome::Unused), SentAnswer::Settled);
            let refused = (at(2), repeated, SentAnswer::Refused(Refusal::UnknownPermit));
            assert!(world.answers.contains(&refused), "{:?}", world.answers);
        }
        (0..2).for_each(|_| drop(world.checkpointed(at(3))));
        assert_eq!(world.start(held), None, "the repetition is answered");
        assert_eq!(world.start(repeated), (!cancelled).then_some(at(3)));
    }
}

/// Other calls may use the unused budget of a checkpoint.
#[test]
fn a_returned_charge_may_be_granted_again_under_the_same_checkpoint() {
    for spec in [spec(), by_the_hour(Algorithm::TokenBucket, 24), two_in_flight()] {
        let mut world = World::fenced(&spec, Time::ORIGIN);
        world.checkpointed(Time::ORIGIN);
        for round in 0..100 {
            let id = format!("p{round}");
            let mode = if round % 2 == 0 { Mode::Allow } else { Mode::Wait };
            let request = world.ask(Time::ORIGIN, &wish_of(mode, [1, 1, 1], 0).named(&id));
            assert!(world.start(request).is_some(), "{round}");
            assert_eq!(world.settle(Time::ORIGIN, &id, Outcome::Unused), SentAnswer::Settled);
        }
    }
}

/// The first call of a key needs no checkpoint. The next ones wait for one, and no stock is missing.
#[test]
fn a_wait_for_the_store_is_not_told_as_a_wait_for_stock() {
    let at = |millis: u64| Time::ORIGIN + span(100_000 + millis);
    let mut world = World::fenced(&by_the_hour(Algorithm::TokenBucket, 100), at(0));
    world.checkpointed(at(0));
    let mut wait = wish_of(Mode::Wait, [0, 0, 1], 0);
    wait.max_wait = Some(span(100));
    let granted = world.ask(at(1), &wait);
    assert_eq!(world.start(granted), Some(at(1)));
    let held = world.ask(at(2), &wait);
    world.run_until(at(200));
    let silent = Some(SentAnswer::Refused(Refusal::StoreSilent));
    assert_eq!(world.last_answer(held), silent, "the store has not answered within the bound");
}
