//! Limits that change while permits are out and requests wait.

use crate::prelude::*;
use proptest::prelude::*;
use rampmeter_policy::spec::Unmatched;
use rampmeter_protocol::status::ShadowStatus;

/// A limit of requests under another name.
fn called(name: &str, capacity: f64, period: u64) -> LimitSpec {
    LimitSpec { name: crate::common::name(name), ..limit("requests", capacity, span(period)) }
}

fn shadow(spec: LimitSpec) -> LimitSpec {
    LimitSpec { shadow: true, ..spec }
}

/// One in ten seconds for each value of this label.
fn each(label: &str) -> LimitSpec {
    by(label, called("each", 1.0, 10_000))
}

fn sliding(period: u64) -> LimitSpec {
    counted(Algorithm::SlidingWindow, limit("requests", 10.0, span(period)))
}

scripts! {
    a_raised_limit_starts_waiting_requests_sooner(
        ten_per_second(),
        "raised": resource(vec![limit("requests", 20.0, span(1000))])
    ): "
        0  reserve x requests=10 -> x@0
        0  wait a ->
        # A tenth of a token has come in, and the rest comes twice as fast.
        10 limits raised -> a@55
        # A larger bucket is not a fuller one.
        10 levels -> requests=-0.9
    "

    a_limit_that_is_lowered_keeps_its_promises(
        ten_per_second(),
        "lowered": resource(vec![limit("requests", 5.0, span(1000))])
    ): "
        0  reserve x requests=10 -> x@0
        0  reserve p requests=2 -> p@200
        0  wait w requests=6 ->
        10 limits lowered -> w:never_fits
        # The promise of 200 ms leaves a debt, which later requests pay for.
        10 reserve q -> q@590
        20 reserve p requests=2 -> p@200
        # Returned stock helps new requests.
        20 unused p -> p:settled
        20 reserve r -> r@190
    "

    a_limit_that_is_full_when_it_is_lowered_is_full_behind_it(
        ten_per_second(),
        "lowered": resource(vec![limit("requests", 5.0, span(1000))])
    ): "
        0 limits lowered ->
        0 levels -> requests=5
        0 allow a requests=5 -> a@0
        0 allow b -> b:not_in_time+200
    "

    a_new_limit_holds_later_requests(
        ten_per_second(),
        "more": resource(vec![called("also", 2.0, 1000), limit("requests", 10.0, span(1000))])
    ): "
        0   reserve x requests=10 -> x@0
        0   wait a ->
        0   wait b ->
        0   wait c ->
        60  -> a@100
        # What was promised before is none of the new limit's.
        60  limits more ->
        400 -> b@200 c@300
        400 reserve d -> d@700
        # Given back is what was charged: of the one to one limit, of the other to both.
        400 unused a -> a:settled
        400 levels -> also=-0.6 requests=1
    "

    a_removed_limit_holds_no_request(
        resource(vec![called("slow", 1.0, 10_000), limit("requests", 10.0, span(1000))]),
        "fast": ten_per_second()
    ): "
        0  reserve x -> x@0
        0  wait a ->
        50 limits fast -> a@50
        60 levels -> requests=8.6
        60 unused x -> x:settled
        60 levels -> requests=9.1
    "

    /// The settle of a call from before the change may name units that only the former limits counted.
    a_unit_that_is_no_longer_counted_is_left_out_of_a_settle(
        resource(vec![limit("requests", 10.0, span(1000)), limit("units", 5.0, span(1000))]),
        "fast": ten_per_second()
    ): "
        0 reserve x requests=2 units=5 -> x@0
        0 limits fast ->
        0 used x requests=1 units=4 -> x:unknown_unit
        0 levels -> requests=9
        0 reserve y units=1 -> y:unknown_unit
    "

    a_limit_with_another_match_or_key_is_another_limit(
        resource(vec![each("client")]),
        "by-route": resource(vec![each("route")]),
        "by-client": resource(vec![each("client")])
    ): "
        0  reserve x client:a route:r -> x@0
        0  wait a client:a route:s ->
        0  wait b client:a route:s ->
        10 limits by-route -> a@10
        # A waiting request now waits for the key of its route.
        20 unused a -> a:settled b@20
        30 reserve c client:b route:s -> c@10020
        30 limits by-client ->
        30 reserve d client:a -> d@30
    "

    /// Present usage of the sliding window ends later.
    a_sliding_window_that_becomes_longer_goes_on_to_count_what_counts_in_it(
        resource(vec![sliding(1_000)]),
        "longer": resource(vec![sliding(10_000)])
    ): "
        0     reserve a requests=4     -> a@0
        800   reserve b requests=3     -> b@800
        900   reserve c requests=6     -> c@1000
        900   limits longer            ->
        # Of all it is known that they count.
        9999  levels                   -> requests=-3
        10000 levels                   -> requests=1
        10800 levels                   -> requests=4
        11000 levels                   -> requests=10
    "

    usage_that_has_left_a_sliding_window_may_still_be_in_a_longer_one(
        resource(vec![sliding(1_000)]),
        "longer": resource(vec![sliding(10_000)])
    ): "
        0     reserve a requests=4     -> a@0
        800   reserve b requests=3     -> b@800
        1200  limits longer            ->
        # The amount that ended at 1000 is not remembered.
        1200  levels                   -> requests=0
        9999  levels                   -> requests=0
        10000 levels                   -> requests=7
        10800 levels                   -> requests=10
    "

    an_unused_sliding_window_that_becomes_longer_is_full(
        resource(vec![sliding(1_000)]),
        "longer": resource(vec![sliding(10_000)])
    ): "
        0     limits longer            ->
        0     levels                   -> requests=10
    "

    keys_of_a_sliding_window_that_becomes_longer_may_have_been_used(
        resource(vec![by("guild", sliding(1_000))]),
        "longer": resource(vec![by("guild", sliding(10_000))])
    ): "
        0     reserve a requests=4 guild:x   -> a@0
        5000  limits longer                  ->
        5000  reserve b requests=7 guild:x   -> b@14000
    "

    keys_of_a_limit_that_goes_on_keep_what_they_have_spent(
        resource(vec![each("client")]),
        "two": resource(vec![limit("requests", 10.0, span(1000)), each("client")])
    ): "
        0    reserve x client:a -> x@0
        0    wait a client:a ->
        1000 limits two ->
        1000 allow b client:a -> b:not_in_time+19000
        1000 allow c client:c -> c@1000
        9960 -> a@10000
    "
}

fn measured(world: &mut World, now: Time) -> ShadowStatus {
    world.scheduler.limit_status(now).iter().find_map(|limit| limit.shadow).expect("a shadow limit")
}

#[test]
fn a_shadow_limit_delays_no_request_and_counts_those_it_would() {
    let spec = resource(vec![limit("requests", 10.0, span(1000)), shadow(called("maybe", 2.0, 1000))]);
    let mut world = play(
        &spec,
        "
        0   reserve a -> a@0
        0   reserve b -> b@0
        0   reserve c -> c@0
        0   allow   d -> d@0
        0   wait    e -> e@0
        0   reserve f requests=3 -> f@0
        # The second of these is half a second behind the one before, which would have waited for half a second.
        900 reserve g within=100 -> g@900
        900 wait    h within=2000 -> h@900
        ",
    );
    let ShadowStatus { calls, would_wait, would_refuse, longest_wait_ms } = measured(&mut world, ms(900));
    // c and e would have waited, d and g have deadlines, and f never fits.
    assert_eq!((calls, would_wait, would_refuse, longest_wait_ms), (8, 3, 3, 1000.0));
}

#[test]
fn an_answer_ends_the_jitter_of_a_call_in_a_shadow_window() {
    let of = |called: LimitSpec| LimitSpec { margin: Margin::Auto, ..counted(Algorithm::SlidingWindow, called) };
    let spec = resource(vec![limit_of_all(), shadow(of(called("maybe", 10.0, 1000)))]);
    let script = "
        0    reserve a requests=10 -> a@0
        10   answered a 200        -> a:settled
        1025 reserve b             -> b@1025
    ";
    assert_eq!(measured(&mut play(&spec, script), ms(1025)), ShadowStatus { calls: 2, ..ShadowStatus::default() });
    // The start of a call that was made early stays where it was.
    let spec = resource(vec![limit("units", 1.0, span(10_000)), shadow(of(called("maybe", 2.0, 100)))]);
    let script = "
        0     reserve a requests=0 units=1 -> a@0
        0     reserve b requests=1 units=1 -> b@10000
        10    answered b 200               -> b:settled
        5000  reserve c requests=2 units=0 -> c@5000
        5000  reserve d requests=1 units=0 -> d@5000
    ";
    assert_eq!(measured(&mut play(&spec, script), ms(5000)).would_wait, 1, "b uses nothing yet, and frees nothing");
}

#[test]
fn a_shadow_limit_that_is_enforced_begins_anew_and_the_other_way_round() {
    let (on, off) = (called("maybe", 1.0, 10_000), shadow(called("maybe", 1.0, 10_000)));
    let with = |limit: LimitSpec| resource(vec![limit, limit_of_all()]);
    let mut world = play_under(
        &with(off.clone()),
        &[("enforced", with(on)), ("shadow", with(off))],
        "
        0  reserve a -> a@0
        0  reserve b -> b@0
        10 limits enforced ->
        10 reserve c -> c@10
        10 wait d ->
        20 limits shadow -> d@20
        ",
    );
    assert_eq!(measured(&mut world, ms(20)), ShadowStatus { calls: 1, ..ShadowStatus::default() });
}

/// The charges to a removed shadow limit are dropped.
#[test]
fn calls_can_settle_after_their_shadow_limits_are_removed() {
    let with = |shadows: Vec<LimitSpec>| resource([vec![limit_of_all()], shadows].concat());
    let (each, all) = (shadow(by("client", called("each", 2.0, 1000))), shadow(called("all", 2.0, 1000)));
    let mut world = play_under(
        &with(vec![each, all.clone()]),
        &[("fewer", with(vec![all])), ("none", with(vec![]))],
        "
        0  reserve a client:x -> a@0
        0  reserve b client:x -> b@0
        0  reserve c client:x -> c@0
        10 limits fewer ->
        10 unused a -> a:settled
        10 used b requests=3 -> b:settled
        20 limits none ->
        20 unused c -> c:settled
        20 limits fewer ->
        20 reserve d -> d@20
        ",
    );
    assert_eq!(measured(&mut world, ms(20)), ShadowStatus { calls: 1, ..ShadowStatus::default() });
}

#[test]
fn a_resource_may_have_nothing_but_shadows() {
    let each = shadow(by("client", called("maybe", 1.0, 10_000)));
    let spec = ResourceSpec { unmatched: Unmatched::Refuse, ..resource(vec![each]) };
    let mut world = play(
        &spec,
        "
        0 allow   a client:x -> a@0
        0 wait    b client:x -> b@0
        0 reserve c client:y requests=5 -> c@0
        # No unmatched request gets through, except one that a shadow limit is to measure.
        0 allow   d -> d:no_limit
        0 unused  b -> b:settled
        0 wait    e client:x -> e@0
        ",
    );
    let ShadowStatus { calls, would_wait, would_refuse, .. } = measured(&mut world, ms(0));
    assert_eq!((calls, would_wait, would_refuse), (4, 1, 1), "what b would have taken is there for e");
}

fn limit_of_all() -> LimitSpec {
    limit("requests", 100.0, span(1000))
}

#[test]
fn nothing_is_granted_under_new_limits_before_a_checkpoint_of_them() {
    let mut world = World::fenced(&ten_per_second(), ms(0));
    let former = world.scheduler.checkpoint(ms(0)).unwrap().number;
    world.handle(ms(0), Event::CheckpointStored(former));
    let before = world.ask(ms(0), &wish(Mode::Reserve, &[]));
    assert_eq!(world.start(before), Some(ms(0)));
    let raised = resource(vec![limit("requests", 20.0, span(1000))]);
    world.handle(ms(1), Event::Limits(Box::new(Resource::new(&raised).unwrap())));
    let behind = world.ask(ms(1), &wish(Mode::Reserve, &[]));
    world.handle(ms(1), Event::CheckpointStored(former));
    assert_eq!(world.start(behind), None, "a checkpoint of the former limits allows nothing");
    let checkpoint = world.scheduler.checkpoint(ms(1)).unwrap().number;
    world.handle(ms(2), Event::CheckpointStored(checkpoint));
    assert_eq!(world.start(behind), Some(ms(2)));
}

/// An event, after a pause in milliseconds.
#[derive(Clone, Debug)]
enum Step {
    Ask {
        cost: [u64; 2],
        mode: Mode,
    },
    GiveBack(usize),
    /// Other limits: their presence, capacity, and milliseconds for one token.
    Limits(Sizes),
}

const NAMES: [&str; 3] = ["first", "second", "third"];

/// By limit, its capacity and milliseconds for one token, if it exists.
type Sizes = [Option<(u64, u64)>; 3];

/// Two limits of requests, and one of units.
fn limits(sizes: &Sizes) -> ResourceSpec {
    let always = limit("requests", 1000.0, span(1));
    let unit_of = |index: usize| if index == 2 { "units" } else { "requests" };
    let one = |(index, size): (usize, &Option<(u64, u64)>)| {
        let (capacity, pace) = (*size)?;
        let spec = limit(unit_of(index), capacity as f64, span(capacity * pace));
        Some(LimitSpec { name: name(NAMES[index]), ..spec })
    };
    let units = LimitSpec { name: name("units"), ..limit("units", 1000.0, span(1)) };
    resource([always, units].into_iter().chain(sizes.iter().enumerate().filter_map(one)).collect())
}

/// A call, with the number of changes of limits before its promise.
#[derive(Clone, Copy, Debug)]
struct Call {
    start: f64,
    cost: f64,
    promised: usize,
}

/// The history of one limit, in the order of time: its size from then on, in tokens and tokens per
/// millisecond.
type Life = Vec<(usize, f64, (f64, f64))>;

/// The levels after calls, replayed from the beginning. A call that was promised before a change
/// and begins after the change is spent before the change.
fn replay(life: &Life, calls: &[Call]) -> Vec<(Call, f64)> {
    let mut calls = calls.to_vec();
    calls.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.promised.cmp(&b.promised)));
    let (mut behind, mut calls) = (Vec::new(), calls.into_iter().peekable());
    let (_, mut last, (mut level, mut rate)) = life[0];
    let mut capacity = level;
    let changes = life[1..].iter().copied().chain([(usize::MAX, f64::INFINITY, (0.0, 0.0))]);
    for (number, at, size) in changes {
        while let Some(call) = calls.next_if(|call| call.start < at || call.start == at && call.promised < number) {
            level = (level + (call.start - last) * rate).min(capacity) - call.cost;
            last = call.start;
            behind.push((call, level));
        }
        level = (level + (at - last) * rate).min(capacity);
        (last, (capacity, rate)) = (at, size);
        level = level.min(capacity);
    }
    behind
}

/// Promises never exceed the bucket under the limits in force, and never enlarge a debt of former
/// limits.
fn judge(limit: &str, life: &Life, calls: &[Call]) {
    const ROUNDING: f64 = 1e-4;
    let levels = replay(life, calls);
    for (index, (number, from, _)) in life.iter().enumerate() {
        let until = life.get(index + 1).map_or(f64::INFINITY, |(_, at, _)| *at);
        let old: Vec<Call> = calls.iter().filter(|call| call.promised < *number).copied().collect();
        let mut without = replay(life, &old).into_iter().filter(|(call, _)| (*from..until).contains(&call.start));
        for (call, level) in levels.iter().filter(|(call, _)| (*from..until).contains(&call.start)) {
            let owed =
                if call.promised < *number { without.next().map_or(0.0, |(_, level)| level.min(0.0)) } else { 0.0 };
            assert!(
                *level >= owed - ROUNDING,
                "{limit}: {level} behind {call:?}, {owed} without those of later\n{life:?}\n{calls:#?}"
            );
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let mode = prop_oneof![Just(Mode::Allow), Just(Mode::Reserve), Just(Mode::Wait)];
    let ask = ([0..4_u64, 0..4], mode).prop_map(|(cost, mode)| Step::Ask { cost, mode });
    let size = || prop_oneof![Just(None), (3..8_u64, 5..60_u64).prop_map(Some), (3..8_u64, 5..60_u64).prop_map(Some)];
    let change = [size(), size(), size()].prop_map(Step::Limits);
    let back = (0..40_usize).prop_map(Step::GiveBack);
    let step = prop_oneof![8 => ask, 1 => change, 1 => back];
    prop::collection::vec((0..40_u64, step), 1..120)
}

fn check(first: &Sizes, steps: &[(u64, Step)]) {
    let mut world = World::new(&limits(first));
    let (mut now, mut changes) = (Time::ORIGIN, 0);
    let mut sizes = vec![(0, 0.0, *first)];
    let mut asked: Vec<(usize, [u64; 2])> = Vec::new();
    let mut returned = Vec::new();
    // By request, the number of changes before its promise.
    let mut promised = BTreeMap::new();
    for (pause, step) in steps {
        now += span(*pause);
        world.run_until(now);
        note(&world, changes, &mut promised);
        match step {
            Step::Ask { cost, mode } => {
                let wish = wish(*mode, &[("requests", cost[0] as f64), ("units", cost[1] as f64)]);
                let id = format!("request-{}", asked.len());
                asked.push((world.ask(now, &wish.named(&id)), *cost));
            }
            Step::GiveBack(which) => {
                let Some((request, _)) = asked.get(*which) else { continue };
                if world.start(*request).is_some_and(|start| start > now) {
                    world.settle(now, &format!("request-{which}"), Outcome::Unused);
                    returned.push(*request);
                }
            }
            Step::Limits(size) => {
                changes += 1;
                sizes.push((changes, millis(now), *size));
                world.handle(now, Event::Limits(Box::new(Resource::new(&limits(size)).unwrap())));
            }
        }
        note(&world, changes, &mut promised);
    }
    for (index, limit) in NAMES.iter().enumerate() {
        let calls = asked.iter().filter(|(request, _)| !returned.contains(request)).filter_map(|(request, cost)| {
            let cost = cost[usize::from(index == 2)] as f64;
            Some(Call { start: millis(world.start(*request)?), cost, promised: *promised.get(request)? })
        });
        let calls: Vec<Call> = calls.filter(|call| call.cost > 0.0).collect();
        for life in lives(&sizes, index) {
            let (born, died) = life;
            let of_life = |call: &&Call| (born[0].0..died).contains(&call.promised);
            judge(limit, &born, &calls.iter().filter(of_life).copied().collect::<Vec<_>>());
        }
    }
}

/// The lives of a limit, each of which ends with the change that removes it.
fn lives(sizes: &[(usize, f64, Sizes)], index: usize) -> Vec<(Life, usize)> {
    let mut lives: Vec<(Life, usize)> = Vec::new();
    let mut alive = false;
    for (number, at, size) in sizes {
        match size[index] {
            None if alive => lives.last_mut().unwrap().1 = *number,
            None => {}
            Some((capacity, pace)) => {
                if !alive {
                    lives.push((Vec::new(), usize::MAX));
                }
                lives.last_mut().unwrap().0.push((*number, *at, (capacity as f64, 1.0 / pace as f64)));
            }
        }
        alive = size[index].is_some();
    }
    lives
}

fn note(world: &World, changes: usize, promised: &mut BTreeMap<usize, usize>) {
    for (_, to, answer) in &world.answers {
        if matches!(answer, SentAnswer::Granted(_)) {
            promised.entry(*to).or_insert(changes);
        }
    }
}

fn millis(time: Time) -> f64 {
    time.nanos() as f64 / 1e6
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn changes_of_limits_admit_nothing_too_much(
        first in [Just(None), Just(Some((5, 20))), Just(Some((4, 30)))],
        steps in steps(),
    ) {
        check(&first, &steps);
    }
}

/// One event charges all remembered permits by the new limits.
#[test]
fn a_change_with_many_permits_out() {
    let many = resource(vec![limit("requests", 200_000.0, span(1000))]);
    let mut world = World::new(&many);
    for _ in 0..100_000 {
        world.ask(ms(0), &wish(Mode::Reserve, &[]));
    }
    let other = resource(vec![called("other", 5.0, 1000), limit("requests", 200_000.0, span(1000))]);
    world.handle(ms(1), Event::Limits(Box::new(Resource::new(&other).unwrap())));
    assert_eq!(world.scheduler.remembered(), 100_000);
    assert_eq!(world.scheduler.limit_status(ms(1))[0].level, 5.0);
}
