//! Pauses that an operator orders.

use crate::common::{World, limit, ms, play, play_on, resource, span, ten_per_second};
use rampmeter_protocol::reason::PauseCause;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::{Algorithm, LimitSpec, ResourceSpec};
use rampmeter_scheduler_core::scheduler::Scheduler;

fn two_limits() -> ResourceSpec {
    resource(vec![limit("requests", 10.0, span(1000)), limit("units", 100.0, span(10_000))])
}

/// How long each limit stays frozen, and by what, at this time.
fn pauses(world: &mut World, now: u64) -> Vec<(f64, Option<PauseCause>)> {
    let limits = world.scheduler.limit_status(ms(now));
    limits.into_iter().map(|limit| (limit.frozen_ms, limit.paused_by)).collect()
}

#[test]
fn no_call_that_takes_from_a_frozen_limit_starts() {
    let mut world = play(
        &two_limits(),
        "
        0    wait a                    -> a@0
        0    freeze requests 500       ->
        0    wait b                    ->
        0    why next                  -> requests:frozen+500
        0    wait c requests=0 units=1 -> c@0
        499                            ->
        # One call goes first, as after each pause.
        500                            -> b@500
        500  wait d                    ->
        600  answered b 200            -> d@600 b:settled
        ",
    );
    assert_eq!(pauses(&mut world, 600), [(0.0, None), (0.0, None)]);
}

#[test]
fn promised_starts_within_an_ordered_freeze_are_void() {
    play(
        &ten_per_second(),
        "
        0    reserve a requests=10     -> a@0
        0    reserve b                 -> b@100
        0    freeze requests 500       -> frozen+500
        0    unused b                  -> b:settled
        0    reserve b2                -> b2@500
        ",
    );
}

#[test]
fn the_later_end_of_two_pauses_counts_with_its_cause() {
    let mut world = play(
        &ten_per_second(),
        "
        0    wait a                    -> a@0
        0    freeze requests 500       ->
        0    freeze requests 300       ->
        ",
    );
    assert_eq!(pauses(&mut world, 0), [(500.0, Some(PauseCause::Operator))]);
    world = play_on(world, "100 answered a 429 after=900 -> a:settled");
    assert_eq!(pauses(&mut world, 100), [(900.0, Some(PauseCause::Upstream))]);
    world = play_on(world, "100 freeze requests 2000 ->\n 100 thaw requests ->\n 100 wait b -> b@100");
    assert_eq!(pauses(&mut world, 100), [(0.0, None)]);
}

#[test]
fn the_upstream_s_word_on_a_quota_is_a_pause_of_its_own_kind() {
    let quota = LimitSpec { algorithm: Algorithm::Quota(None), ..limit("requests", 10.0, span(1000)) };
    let mut world =
        play(&resource(vec![quota]), "0 wait a -> a@0\n 0 answered a 403 after=30000 -> a:settled\n 0 levels -> requests=9");
    assert_eq!(pauses(&mut world, 0)[0].1, Some(PauseCause::Quota));
}

#[test]
fn an_ordered_freeze_and_its_cause_survive_a_hand_over() {
    let window = LimitSpec { algorithm: Algorithm::SlidingWindow, ..limit("requests", 10.0, span(1000)) };
    for spec in [ten_per_second(), resource(vec![window])] {
        let mut before = play(&spec, "0 wait a -> a@0\n 0 freeze requests 9000 ->");
        let snapshot = before.scheduler.snapshot(ms(100), usize::MAX);
        let successor = Scheduler::restore(Resource::new(&spec).unwrap(), 2, ms(5_000), ms(100), &snapshot);
        let mut after = World::of(successor);
        assert_eq!(pauses(&mut after, 5_000), [(4_000.0, Some(PauseCause::Operator))], "{spec:?}");
        play_on(after, "5000 wait b ->\n 9000 -> b@9000");
    }
}
