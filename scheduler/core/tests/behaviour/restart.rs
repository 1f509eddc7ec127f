//! A successor continues from a snapshot without any difference.

use crate::prelude::*;
use proptest::prelude::*;
use rampmeter_scheduler_core::durability::snapshot::{Fate, PermitSnapshot};
use std::cmp::Reverse;

/// A successor at `now` of a world whose last event was at `then`.
fn succeed(world: &mut World, spec: &ResourceSpec, then: Time, now: Time) -> World {
    let snapshot = world.scheduler.snapshot(then, usize::MAX);
    World::restored(spec, now, then, &snapshot)
}

fn sliding(period: u64) -> ResourceSpec {
    resource(vec![counted(Algorithm::SlidingWindow, limit("requests", 10.0, span(period)))])
}

scripts! {
    a_unit_without_an_estimate_is_charged_after_a_restart_too(
        resource(vec![limit("requests", 10.0, span(100_000)), limit("units", 100.0, span(100_000_000))])
    ): "
        0  allow a         -> a@0
        0  restart         ->
        0  used a units=5  -> a:settled
        0  levels          -> requests=9 units=95
    "

    a_promise_that_is_restored_under_a_longer_window_returns_what_it_holds_there(
        sliding(1000), "longer": sliding(1500)
    ): "
        0    reserve a requests=10  -> a@0
        0    reserve b requests=6   -> b@1000
        0    reserve c requests=4   -> c@1000
        10   restart limits=longer  ->
        10   unused b               -> b:settled
        10   reserve d requests=6   -> d@1000
        # It holds all until 2.5 s, and the rest of it is c.
        10   reserve e requests=1   -> e@2500
    "

    /// A refund is worth the room that the bucket has had ever since the start.
    a_call_in_flight_is_refunded_by_the_successor(ten_per_second()): "
        0    allow a requests=8     -> a@0
        100  restart after=100      ->
        200  used a requests=3      -> a:settled
        200  levels                 -> requests=9
    "

    a_bucket_that_was_full_in_between_is_refunded_less_by_the_successor(ten_per_second()): "
        0    allow a requests=8     -> a@0
        1000 allow b requests=9     -> b@1000
        1100 restart                ->
        1100 used a requests=3      -> a:settled
        1100 levels                 -> requests=2
    "

    /// Refill beyond a full bucket before the snapshot is lost at the upstream, whatever a record
    /// remembers.
    a_successor_returns_nothing_that_was_lost_before_it_came(ten_per_second()): "
        0     reserve a requests=5               -> a@0
        1000  reserve b requests=10              -> b@1000
        1050  restart after=50                   ->
        1100  levels                             -> requests=1
        1100  unused a                           -> a:settled
        1100  levels                             -> requests=1
    "

    lost_state_starts_empty(
        World::of(Scheduler::cautious(Resource::new(&ten_per_second()).unwrap(), Epoch::new(2), ms(1000)))
    ): "
        1000  levels                             -> requests=0
        1000  allow a                            -> a:not_in_time+100
        2000  levels                             -> requests=10
    "

    a_successor_returns_what_was_not_needed_after_it_came(ten_per_second()): "
        0     reserve a requests=10              -> a@0
        0     reserve b requests=5               -> b@500
        100   restart after=100                  ->
        600   levels                             -> requests=1
        600   used b requests=2                  -> b:settled
        600   levels                             -> requests=4
    "

    /// Its call was made before its start, so that all that it took is in the levels.
    a_call_that_was_settled_before_its_start_is_not_promised_again(
        resource(vec![
            limit("requests", 10.0, span(1000)),
            counted(Algorithm::Concurrency, limit("places", 1.0, span(60_000))),
        ])
    ): "
        0    reserve a requests=10           -> a@0
        0    reserve b requests=5 places=1   -> b@500
        100  used b                          -> b:settled
        100  levels                          -> requests=-4 places=1
        100  restart                         ->
        100  levels                          -> requests=-4 places=1
        100  reserve c requests=0 places=1   -> c@100
    "

    /// A settled permit only lets a repeated request be refused. An open one has a place to give back.
    open_calls_come_before_settled_ones_in_a_snapshot(
        resource(vec![counted(Algorithm::Concurrency, limit("requests", 3.0, span(60_000)))])
    ): "
        0    reserve a                       -> a@0
        100  reserve b                       -> b@100
        100  reserve c                       -> c@100
        100  used b                          -> b:settled
        100  used c                          -> c:settled
        200  restart permits=2               ->
        200  used a                          -> a:settled
        200  levels                          -> requests=3
    "

    an_unknown_class_becomes_the_default(with_bulk(ten_per_second(), 0.2), "plain": ten_per_second()): "
        0    reserve a class=bulk requests=9     -> a@0
        0    reserve b class=bulk                -> b@200
        0    restart limits=plain                ->
        0    unused b                            -> b:settled
        0    levels                              -> requests=1
    "
}

#[test]
fn returned_permits_push_no_others_off_a_snapshot() {
    let mut world = play(
        &ten_per_second(),
        "
        5    reserve real           -> real@5
        6    reserve unheard        -> unheard@6
        6    undelivered unheard    ->
        6    reserve free requests=0  -> free@6
        6    undelivered free       ->
        6    reserve back           -> back@6
        6    unused back            -> back:settled
        ",
    );
    let mut listed = |most| -> Vec<String> {
        world.scheduler.snapshot(ms(7), most).permits.iter().map(|permit| permit.id.to_string()).collect()
    };
    assert_eq!((listed(1), listed(9)), (vec!["real".to_owned()], vec!["real".to_owned(), "back".to_owned()]));
}

const BUSY: &str = "
    0    reserve a requests=10               -> a@0
    0    reserve b requests=10               -> b@1000
    0    reserve c                           -> c@1100
    0    reserve d                           -> d@1200
    100  unused d                            -> d:settled
    100  used a requests=12                  -> a:settled
    100  wait e                              ->
";

/// Plays [`BUSY`], and then this.
fn check_busy(script: &str) {
    play(&ten_per_second(), &format!("{BUSY}{script}"));
}

#[test]
fn levels_debts_promises_and_ids_survive() {
    check_busy(
        "
        100  restart                             ->
        100  levels                              -> requests=-12
        100  reserve a                           -> a:already_settled
        100  reserve c                           -> c@1100
        100  reserve d                           -> d:unknown_permit
        100  used a requests=20                  -> a:settled
        # A settled call is not settled again, and a promise can be given back.
        100  levels                              -> requests=-12
        100  unused b                            -> b:settled
        100  levels                              -> requests=-2
        # A waiting request is asked again.
        100  wait e                              ->
        250                                      -> e@300
        ",
    );
}

#[test]
fn time_without_a_scheduler_refills() {
    for (away, levels) in [(700, -5), (1000, -2), (99_900, 10)] {
        check_busy(&format!("100 restart after={away} ->\n {} levels -> requests={levels}", 100 + away));
    }
    check_busy(
        "
        100    restart after=300900              ->
        # The first call started 301 s ago and is forgotten. The third has not been heard of since.
        301000 unused a                          -> a:unknown_permit
        301000 reserve c                         -> c:lapsed
        301000 levels                            -> requests=10
        ",
    );
}

/// The cost of an unlisted promise does not refill before its start. Until then a full bucket holds
/// that much less.
#[test]
fn promises_that_are_not_listed_stay_promised() {
    let spec = resource(vec![limit("units", 10.0, span(10_000)), limit("slow", 1.0, span(100_000))]);
    // Unlisted promises are told in steps.
    for (listed, later) in [(0, "d@206000"), (1, "d@111250"), (2, "d@110000"), (3, "d@110000")] {
        let script = format!(
            "
            0     reserve a units=4 slow=1           -> a@0
            0     reserve b units=10 slow=1          -> b@100000
            0     reserve c units=6 slow=1           -> c@200000
            0     restart permits={listed}           ->
            95000 reserve d units=10                 -> {later}
            "
        );
        play(&spec, &script);
    }
}

#[test]
fn a_limit_that_the_snapshot_does_not_know_starts_as_the_resource_says() {
    let mut more = ten_per_second();
    more.limits.push(limit("units", 100.0, span(1000)));
    for (start, units) in [(StartPolicy::Full, 100), (StartPolicy::Empty, 0)] {
        let changed = ResourceSpec { start, ..more.clone() };
        let script = format!("{BUSY} 100 restart limits=changed ->\n 100 levels -> requests=-12 units={units}");
        play_under(&ten_per_second(), &[("changed", changed)], &script);
    }
    // A limit that only the snapshot knows is ignored.
    play_under(
        &more,
        &[("fewer", ten_per_second())],
        "
        0    reserve a requests=10 units=60      -> a@0
        0    reserve b requests=5 units=60       -> b@500
        100  restart limits=fewer                ->
        100  levels                              -> requests=-4
        100  unused b                            -> b:settled
        100  levels                              -> requests=1
        ",
    );
}

#[test]
fn a_changed_capacity_caps() {
    let capacity = |capacity: u64| resource(vec![limit("requests", capacity as f64, span(100 * capacity))]);
    let one = "0 reserve a -> a@0\n";
    for (before, now, changed, level) in [(one, 0, 4, 4), (one, 0, 20, 9), (BUSY, 100, 4, -12)] {
        let script = format!("{before} {now} restart limits=changed ->\n {now} levels -> requests={level}");
        play_under(&ten_per_second(), &[("changed", capacity(changed))], &script);
    }
}

#[test]
fn a_shortened_list_of_permits_is_still_safe() {
    let mut world = play(&ten_per_second(), BUSY);
    let mut snapshot = world.scheduler.snapshot(ms(100), usize::MAX);
    assert_eq!(snapshot.permits.len(), 4);
    let rank = |permit: &PermitSnapshot| (permit.fate == Fate::Returned, Reverse(permit.start));
    assert!(snapshot.permits.is_sorted_by_key(rank), "the latest first, and what was given back last");
    assert_eq!(world.scheduler.snapshot(ms(100), 2).permits, snapshot.permits[..2]);
    snapshot.permits.clear();
    play_on(
        World::restored(&ten_per_second(), ms(100), ms(100), &snapshot),
        "
        100  levels                              -> requests=-12
        100  unused b                            -> b:unknown_permit
        100  reserve f                           -> f@1400
        ",
    );
}

#[test]
fn levels_are_rounded_down() {
    // 7 tokens in a second: a nanosecond brings 0.007 millionths.
    let spec = resource(vec![limit("requests", 7.0, span(1000))]);
    let mut world = World::new(&spec);
    world.ask(ms(0), &wish(Mode::Allow, &[("requests", 7.0)]));
    let then = Time::from_nanos(1000);
    let mut successor = succeed(&mut world, &spec, then, then);
    let [kept, restored] = [&mut world, &mut successor].map(|world| {
        let asked = world.ask(then, &wish(Mode::Reserve, &[]));
        world.start(asked).unwrap()
    });
    assert!(restored >= kept && restored.since(kept) <= Span::from_nanos(143), "{kept} and {restored}");
}

/// An event of a world, after a pause in nanoseconds.
#[derive(Clone, Debug)]
enum Step {
    Ask {
        pause: u64,
        cost: [u64; 2],
        mode: Mode,
        bulk: bool,
    },
    /// The same id again.
    Repeat {
        pause: u64,
        which: prop::sample::Index,
    },
    /// A permit is returned, if its start has not come.
    GiveBack {
        pause: u64,
        which: prop::sample::Index,
    },
}

/// Tokens come every microsecond; capacities are 8 and 20.
fn small() -> ResourceSpec {
    let limits = vec![limit("a", 8.0, Span::from_nanos(8_000)), limit("b", 20.0, Span::from_nanos(20_000))];
    with_bulk(resource(limits), 0.25)
}

fn step() -> impl Strategy<Value = Step> {
    let pause = || prop_oneof![Just(0_u64), 0..4_000_u64, 0..30_000_u64];
    let mode = prop_oneof![3 => Just(Mode::Reserve), 1 => Just(Mode::Allow)];
    let which = any::<prop::sample::Index>;
    prop_oneof![
        6 => (pause(), (0..=8_u64, 0..=20_u64), mode, any::<bool>())
            .prop_map(|(pause, (a, b), mode, bulk)| Step::Ask { pause, cost: [a, b], mode, bulk }),
        1 => (pause(), which()).prop_map(|(pause, which)| Step::Repeat { pause, which }),
        2 => (pause(), which()).prop_map(|(pause, which)| Step::GiveBack { pause, which }),
    ]
}

/// One sequence of steps, played in one world.
struct Story {
    world: World,
    now: Time,
    asked: usize,
}

impl Story {
    fn tell(&mut self, step: &Step) -> Option<(Time, SentAnswer)> {
        match step {
            Step::Ask { pause, cost: [a, b], mode, bulk } => {
                self.asked += 1;
                let id = format!("p{}", self.asked);
                let class = if *bulk { "bulk" } else { "urgent" };
                self.ask(*pause, &wish(*mode, &[("a", *a as f64), ("b", *b as f64)]).named(&id).of_class(class))
            }
            Step::Repeat { pause, which } => {
                let id = self.id(which)?;
                self.ask(*pause, &wish(Mode::Reserve, &[]).named(&id))
            }
            Step::GiveBack { pause, which } => {
                let id = self.id(which)?;
                // A repetition first tells the start, because a started permit is not returned.
                let (now, answer) = self.ask(*pause, &wish(Mode::Allow, &[]).named(&id))?;
                let ahead = matches!(answer, SentAnswer::Granted(delay) if delay > Span::ZERO);
                ahead.then(|| (now, self.world.settle(now, &id, Outcome::Unused)))
            }
        }
    }

    fn ask(&mut self, pause: u64, wish: &Wish<'_>) -> Option<(Time, SentAnswer)> {
        self.now += Span::from_nanos(pause);
        let asked = self.world.ask(self.now, wish);
        Some((self.now, self.world.last_answer(asked)?))
    }

    fn id(&self, which: &prop::sample::Index) -> Option<String> {
        (self.asked > 0).then(|| format!("p{}", which.index(self.asked) + 1))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_successor_answers_as_its_predecessor_would_have(
        before in prop::collection::vec(step(), 0..30),
        after in prop::collection::vec(step(), 1..20),
        (to_snapshot, downtime) in (0..5_000_u64, prop_oneof![Just(0), 0..40_000_u64]),
    ) {
        let spec = small();
        let mut story = Story { world: World::new(&spec), now: Time::ORIGIN, asked: 0 };
        before.iter().for_each(|step| drop(story.tell(step)));
        let then = story.now + Span::from_nanos(to_snapshot);
        let now = then + Span::from_nanos(downtime);
        let world = succeed(&mut story.world, &spec, then, now);
        story.now = now;
        let mut successor = Story { world, now, asked: story.asked };
        for step in &after {
            prop_assert_eq!(successor.tell(step), story.tell(step), "{:?}", step);
            let levels = |world: &mut World| world.scheduler.snapshot(story.now, 0).levels;
        prop_assert_eq!(levels(&mut successor.world), levels(&mut story.world));
        }
    }
}

/// The records for a successor: a graceful stop at `then`, a checkpoint of that time, and a record
/// of the previous build.
fn records_after_stop_and_crash(spec: &ResourceSpec, before: &str, then: u64) -> [Snapshot; 3] {
    let mut stopped = play(spec, before);
    let whole = stopped.scheduler.snapshot(ms(then), usize::MAX);
    let mut crashed = play_on(World::fenced(spec, ms(0)), &format!("0 checkpoint ->\n {before}"));
    let checkpoint = crashed.scheduler.checkpoint(ms(then)).unwrap();
    let old = Snapshot { freezes: Vec::new(), ..whole.clone() };
    [whole, checkpoint.state, old]
}

/// The same limits, with a bucket for each value of the label `guild`.
fn by_key(spec: ResourceSpec) -> ResourceSpec {
    resource(spec.limits.into_iter().map(|limit| by("guild", limit)).collect())
}

#[test]
fn a_freeze_survives_a_hand_over_and_a_crash() {
    let window = Algorithm::FixedWindow(Alignment::Epoch);
    for algorithm in [Algorithm::TokenBucket, window, Algorithm::SlidingWindow, Algorithm::Concurrency] {
        let shared = ten(algorithm);
        for spec in [shared.clone(), by_key(shared)] {
            let before = "0 wait a guild:x -> a@0\n 0 answered a 429 after=9000 -> a:settled";
            for (number, snapshot) in records_after_stop_and_crash(&spec, before, 100).iter().enumerate() {
                let mut after = World::restored(&spec, ms(5_000), ms(100), snapshot);
                let wish = wish(Mode::Reserve, &[]).labelled("guild", "x");
                let asked = ["b", "c"].map(|id| after.ask(ms(5_000), &wish.clone().named(id)));
                let starts = asked.map(|request| after.start(request));
                // One probe starts at the end of the freeze, and another call two seconds later,
                // without a report.
                let frozen = [Some(ms(9_000)), Some(ms(11_000))];
                assert_eq!(starts == frozen, number < 2, "{number}: {starts:?} {spec:?}");
            }
        }
    }
}

#[test]
fn a_spent_quota_survives_a_hand_over_and_a_crash() {
    let spec = ten(Algorithm::Quota(None));
    let before = "0 wait a -> a@0\n 0 answered a 403 after=60000 -> a:settled";
    let [stopped, crashed, old] = records_after_stop_and_crash(&spec, before, 100);
    for snapshot in [stopped, crashed] {
        play_on(
            World::restored(&spec, ms(5_000), ms(100), &snapshot),
            "5000 reserve b -> b:quota_spent+55000\n 60000 reserve b -> b@60000",
        );
    }
    play_on(World::restored(&spec, ms(5_000), ms(100), &old), "5000 reserve b -> b@5000");
}

#[test]
fn a_freeze_is_in_a_checkpoint_within_a_fifth_of_a_second() {
    for answer in ["429 after=9000", "403 after=9000"] {
        let script = "0 checkpoint ->\n 0 allow a -> a@0\n 250 checkpoint ->\n 400 answered a";
        let world = play_on(World::fenced(&ten_per_second(), ms(0)), &format!("{script} {answer} -> a:settled"));
        assert!(
            world.scheduler.next_checkpoint() <= Some(ms(450)),
            "{answer}: {:?}",
            world.scheduler.next_checkpoint()
        );
    }
}

/// An unlisted promise keeps its part of a window through two stops.
#[test]
fn a_promise_in_a_later_window_of_a_key_survives_two_stops() {
    let algorithm = Algorithm::FixedWindow(Alignment::Epoch);
    let window = counted(algorithm, by("client", limit("c", 10.0, span(600_000))));
    let spec = resource(vec![window, limit("r", 1.0, span(1_500_000))]);
    let ask = |world: &mut World, now, cost: &[(&'static str, f64)]| {
        let request = world.ask(now, &Wish { labels: vec![("client", "g")], ..wish(Mode::Reserve, cost) });
        world.start(request).unwrap()
    };
    let mut world = World::new(&spec);
    ask(&mut world, ms(60_000), &[("c", 0.0), ("r", 1.0)]);
    let promised = ask(&mut world, ms(60_000), &[("c", 10.0), ("r", 1.0)]);
    assert!((ms(1_200_000)..ms(1_800_000)).contains(&promised));
    for stop in [ms(61_000), ms(660_000)] {
        let snapshot = world.scheduler.snapshot(stop, 0);
        world = World::restored(&spec, stop, stop, &snapshot);
    }
    assert!(ask(&mut world, ms(661_000), &[("c", 10.0), ("r", 0.0)]) < ms(1_200_000), "its own window is free");
    assert!(ask(&mut world, ms(661_000), &[("c", 10.0), ("r", 0.0)]) >= ms(1_800_000), "the next one is not");
}

/// Labels may have any characters, and a control character takes six bytes in a record.
#[test]
fn a_checkpoint_is_bounded_in_bytes_whatever_keys_workers_choose() {
    let spec = resource(vec![keyed("each", 1.0, 60_000, &["guild", "channel"])]);
    let mut world = World::fenced(&spec, ms(0));
    world.checkpointed(ms(0));
    let long = "\u{1}".repeat(250);
    for number in 0..600_u64 {
        let (id, guild) = (format!("p{number}"), format!("{long}{number}"));
        let labels = vec![("guild", guild.as_str()), ("channel", long.as_str())];
        let wish = Wish { labels: labels.clone(), ..wish(Mode::Allow, &[]).named(&id) };
        world.ask(ms(number), &wish);
        world.settle_answered(ms(number), &id, said(limited(Some(60_000))));
        let far = Wish { labels, ..crate::common::wish(Mode::Reserve, &[]) };
        world.ask(ms(number), &far);
    }
    let first = world.scheduler.checkpoint(ms(700)).unwrap();
    let bytes = bytes_of(&first.state);
    assert!((100 << 10..=800 << 10).contains(&bytes), "{bytes} bytes");
    // A server with a smaller `max_payload` refuses it. What has no room is never free.
    world.handle(ms(700), Event::CheckpointRefused(first.number));
    assert!(world.scheduler.next_checkpoint() <= Some(ms(900)));
    let second = world.scheduler.checkpoint(ms(900)).unwrap();
    assert!(bytes_of(&second.state) <= 400 << 10, "{} bytes", bytes_of(&second.state));
    let mut after = World::restored(&spec, ms(900), ms(900), &second.state);
    for number in 0..600_u64 {
        let guild = format!("{long}{number}");
        let labels = vec![("guild", guild.as_str()), ("channel", long.as_str())];
        let again = after.ask(ms(900 + number), &Wish { labels, ..wish(Mode::Allow, &[]) });
        assert_eq!(after.start(again), None, "{number}");
    }
}

/// The bytes of a record of this state.
fn bytes_of(Snapshot { levels, keys, freezes, .. }: &Snapshot) -> usize {
    let listed: Vec<_> = keys.listed.iter().map(|key| (&key.limit, &key.key, key.micros)).collect();
    serde_json::to_string(&(levels, listed, &keys.known, freezes)).unwrap().len()
}
