//! Pauses that an operator orders.

use crate::prelude::*;
use rampmeter_protocol::reason::PauseCause;

/// How long each limit stays frozen at this time, and the cause.
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
        400                            ->
        # One call goes first, as after each pause.
        500                            -> b@500
        500  wait d                    ->
        600  answered b 200            -> b:settled d@600
        ",
    );
    assert_eq!(pauses(&mut world, 600), [(0.0, None), (0.0, None)]);
}

scripts! {
    promised_starts_within_an_ordered_freeze_are_void(ten_per_second()): "
        0    reserve a requests=10     -> a@0
        0    reserve b                 -> b@100
        0    freeze requests 500       -> frozen+500
        0    unused b                  -> b:settled
        0    reserve b2                -> b2@500
    "
}

#[test]
fn the_later_end_of_two_pauses_counts_with_its_cause() {
    let (ordered, demanded) = (PauseCause::Operator, PauseCause::Upstream);
    #[rustfmt::skip]
    let table = [
        ("freeze requests 500",             "freeze requests 300",              (500.0, Some(ordered))),
        ("freeze requests 500",             "answered a 429 after=900 others",  (900.0, Some(demanded))),
        ("answered a 429 after=900 others", "freeze requests 2000",             (2000.0, Some(ordered))),
        ("answered a 429 after=900 others", "freeze requests 300",              (900.0, Some(demanded))),
        ("freeze requests 500",             "thaw requests",                    (0.0, None)),
    ];
    let settled = |action: &str| if action.starts_with("answered") { "a:settled" } else { "" };
    for (first, second, expected) in table {
        let script = format!("0 wait a -> a@0\n0 {first} -> {}\n0 {second} -> {}", settled(first), settled(second));
        assert_eq!(pauses(&mut play(&ten_per_second(), &script), 0), [expected], "{first}, {second}");
    }
}

#[test]
fn a_quota_that_is_said_to_be_spent_has_a_cause_of_its_own() {
    // More than a minute, on one client's word, ends with a probe call.
    for after in [30_000, 90_000] {
        let script = format!("0 wait a -> a@0\n0 answered a 403 after={after} -> a:settled");
        let mut world = play(&ten(Algorithm::Quota(None)), &script);
        assert_eq!(pauses(&mut world, 0)[0].1, Some(PauseCause::Quota), "{after}");
        world = play_on(world, "0 thaw requests ->");
        assert_eq!(pauses(&mut world, 0)[0].1, None, "{after}");
    }
}

#[test]
fn an_ordered_freeze_and_its_cause_survive_a_hand_over() {
    for spec in [ten_per_second(), ten(Algorithm::SlidingWindow)] {
        let mut after = play(&spec, "0 wait a -> a@0\n 0 freeze requests 9000 ->\n 100 restart after=4900 ->");
        assert_eq!(pauses(&mut after, 5_000), [(4_000.0, Some(PauseCause::Operator))], "{spec:?}");
        play_on(after, "5000 wait b ->\n 9000 -> b@9000");
    }
}

/// A client compares both, and keeps the starts that a freeze does not concern.
#[test]
fn a_freeze_names_its_key_and_a_start_ahead_its_buckets() {
    let world = play(
        &resource(vec![limit("requests", 10.0, span(1000)), keyed("each", 10.0, 1000, &["guild"])]),
        "
        0  reserve a guild:x requests=10             -> a@0
        0  reserve b guild:x                         -> b@100
        0  answered a 429 after=5000 limit=each      -> frozen=x+5000 a:settled
        ",
    );
    let id = |name: &str| world.scheduler.resource().limit(name).unwrap();
    assert_eq!(world.charged.get(&0), None, "its start cannot be called back");
    assert_eq!(world.charged[&1], [(id("requests"), None), (id("each"), Some("x".into()))]);
}
