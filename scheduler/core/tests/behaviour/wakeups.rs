//! When the scheduler wants to be woken, and why.

use crate::prelude::*;
use rampmeter_scheduler_core::scheduler::WakeupReason;

/// Why the scheduler wakes up within ten minutes.
fn reasons(mut world: World) -> BTreeSet<WakeupReason> {
    let mut reasons = BTreeSet::new();
    while let Some(wakeup) = world.scheduler.next_wakeup().filter(|wakeup| wakeup.at <= ms(600_000)) {
        reasons.insert(wakeup.reason);
        world.handle(wakeup.at, Event::Wake);
    }
    reasons
}

/// A world in which five requests wait.
fn waiting(mut world: World) -> World {
    for _ in 0..6 {
        world.ask(Time::ORIGIN, &Wish { progress: true, ..wish(Mode::Wait, &[("requests", 10.0)]) });
    }
    assert_eq!(world.scheduler.waiting(), 5);
    world
}

#[test]
fn a_wakeup_tells_its_reason() {
    let plain = reasons(waiting(World::new(&ten_per_second())));
    assert_eq!(plain, [WakeupReason::Dispatch, WakeupReason::Progress, WakeupReason::Expiry].into());
    let scheduler = Scheduler::new(Resource::new(&ten_per_second()).unwrap(), Epoch::FIRST, Time::ORIGIN).fenced();
    let mut without_store = World::of(scheduler);
    without_store.ask(Time::ORIGIN, &wish(Mode::Reserve, &[]));
    assert_eq!(reasons(without_store), [WakeupReason::PendingAnswers].into());
}
