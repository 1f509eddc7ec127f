//! Limits for some requests only, and limits with a bucket for each key.

use crate::prelude::*;
use proptest::prelude::*;
use proptest::sample::Index;
use rampmeter_scheduler_core::policy::spec::{Bounds, Pattern, Unmatched};

fn keyed(name: &str, capacity: f64, period: u64, key: &[&str]) -> LimitSpec {
    let applies = Applies { key: key.iter().map(ToString::to_string).collect(), ..Applies::default() };
    LimitSpec { name: crate::common::name(name), applies, ..limit("requests", capacity, span(period)) }
}

/// Ten at once and ten in a second for each client.
fn ten_each() -> ResourceSpec {
    resource(vec![keyed("per-client", 10.0, 1000, &["client"])])
}

scripts! {
    the_worked_example_of_the_noisy_neighbour_notes(ten_each()): "
        300  allow a client:x requests=6  -> a@300
        300  levels                       -> per-client=4
        # Two have come in.
        500  allow b client:x requests=5  -> b@500
        500  levels                       -> per-client=1
        500  allow c client:x requests=2  -> c:not_in_time+100
        500  allow d client:y requests=10 -> d@500
        1500 levels                       -> per-client=10
    "

    a_request_that_waits_for_its_own_key_blocks_no_other(
        resource(vec![keyed("per-client", 1.0, 1000, &["client"]), limit("requests", 10.0, span(1000))])
    ): "
        0     wait a client:x  -> a@0
        0     wait b client:x  ->
        0     wait c client:x  ->
        0     wait d client:y  -> d@0
        0     wait e client:z  -> e@0
        0     wait f           -> f@0
        900   wait g client:x  ->
        1000                   -> b@1000
        2000                   -> c@2000
        2500  wait h client:y  -> h@2500
        3000                   -> g@3000
    "

    a_hand_over_leaves_no_request_in_a_key_queue(
        resource(vec![keyed("per-client", 1.0, 1000, &["client"]), limit("requests", 10.0, span(1000))])
    ): "
        0     wait a client:x  -> a@0
        0     wait b client:x  ->
        0     wait c client:x  ->
        10    wait d client:y  -> d@10
        20    hand-over        -> b:unavailable+0 c:unavailable+0
        30    wait b client:x  -> b:unavailable+0
        30    unused a         -> a:settled
        5000  levels           -> per-client=1 requests=10
    "
}

#[test]
fn a_request_held_by_a_shared_limit_and_then_by_its_key_blocks_no_other_key() {
    let work = LimitSpec { unit: name("work"), ..keyed("per-client", 10.0, 1000, &["client"]) };
    play(
        &resource(vec![work, limit("parts", 10.0, span(1000))]),
        "
        0     allow a client:y parts=10           -> a@0
        0     reserve b client:x parts=10 work=10 -> b@1000
        # What is shared could pay at 1500, the key only at 1800.
        0     wait c client:x parts=5 work=8      ->
        0     wait d client:z work=1              -> d@0
        1800                                      -> c@1800
        ",
    );
}

#[test]
fn a_request_for_two_busy_keys_is_not_passed_for_ever() {
    let per = |name, label| keyed(name, 1.0, 1000, &[label]);
    play(
        &resource(vec![per("per-client", "client"), per("per-route", "route")]),
        "
        0     wait a client:x route:b   -> a@0
        500   wait c client:y route:r   -> c@500
        # From now on the client's bucket is full at whole seconds, and the route's half a second later.
        600   wait both client:x route:r ->
        600   wait x1 client:x route:b1 ->
        600   wait x2 client:x route:b2 ->
        600   wait x3 client:x route:b3 ->
        600   wait y1 client:y1 route:r ->
        600   wait y2 client:y2 route:r ->
        600   wait y3 client:y3 route:r ->
        1000                            ->
        # It came first, and its client keeps a token until its route has one.
        1500                            -> both@1500
        2100  allow d client:x          -> d:not_in_time+3400
        2500                            -> x1@2500 y1@2500
        3500                            -> x2@3500 y2@3500
        4500                            -> x3@4500 y3@4500
        ",
    );
}

#[test]
fn stock_that_a_key_keeps_for_later_delays_no_other_request() {
    let per = |name, capacity, label| keyed(name, capacity, 1000, &[label]);
    play(
        &resource(vec![per("per-client", 10.0, "client"), keyed("per-route", 1.0, 10_000, &["route"])]),
        "
        0     wait a client:x route:a requests=0  -> a@0
        0     wait b client:y route:r             -> b@0
        0     wait c client:x requests=10         -> c@0
        10    wait both client:x route:r          ->
        # A client's token is there at 100 ms, the route's at 10 s: until then the client keeps nothing from other requests.
        10    wait d client:x                     ->
        10    wait e client:x                     ->
        1000                                      -> d@100 e@200
        10000                                     -> both@10000
        ",
    );
}

/// Far more requests than one dispatch examines. Each has a client's key and a route's key, which
/// can pay half a second apart. Other requests have one of these keys.
#[test]
fn however_many_wait_for_two_keys_none_is_passed_for_ever() {
    let per = |name, period, label| keyed(name, 1.0, period, &[label]);
    let limits =
        vec![per("per-client", 1000, "client"), per("per-route", 1000, "route"), per("slow", 3_600_000, "depot")];
    let mut world = World::new(&resource(limits));
    let ask = |world: &mut World, at: u64, labels: &[(&'static str, String)]| {
        let labels = labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
        world.run_until(ms(at));
        world.ask(ms(at), &Wish { labels, ..wish(Mode::Wait, &[]) })
    };
    let name = |kind: &str, number: usize| format!("{kind}{number}");
    ask(&mut world, 0, &[("depot", "d".to_owned())]);
    for (at, label, kind) in [(0, "client", "c"), (500, "route", "r")] {
        for pair in 0..101 {
            ask(&mut world, at, &[(label, name(kind, pair))]);
        }
    }
    // A hundred requests will wait for their depot for an hour.
    let both = |pair: usize| vec![("client", name("c", pair)), ("route", name("r", pair))];
    for pair in 0..100 {
        let mut labels = both(pair);
        labels.push(("depot", "d".to_owned()));
        ask(&mut world, 600, &labels);
    }
    let last = ask(&mut world, 600, &both(100));
    for step in 0..100 {
        ask(&mut world, 700 + 250 * step, &[("client", name("c", 100))]);
        ask(&mut world, 700 + 250 * step, &[("route", name("r", 100))]);
    }
    assert_eq!(world.start(last), Some(ms(1500)));
}

#[test]
fn a_request_that_waits_for_two_keys_is_refused_when_its_quota_is_spent() {
    let per = |name, label| keyed(name, 1.0, 1000, &[label]);
    let quota = LimitSpec { algorithm: Algorithm::Quota(None), ..limit("requests", 4.0, span(1000)) };
    play(
        &resource(vec![per("per-client", "client"), per("per-route", "route"), quota]),
        "
        0     wait a client:x route:b    -> a@0
        500   wait c client:y route:r    -> c@500
        600   wait both client:x route:r ->
        1000                             ->
        1100  allow d client:z           -> d@1100
        1200  allow e client:w           -> e@1200
        # When its turn comes.
        1449                             ->
        1450                             -> both:quota_spent
        ",
    );
}

#[test]
fn a_larger_capacity_fills_no_bucket() {
    let mut world = play(&ten_each(), "0 allow a client:x requests=10 -> a@0");
    let larger = resource(vec![keyed("per-client", 20.0, 1000, &["client"])]);
    world.handle(ms(500), Event::Limits(Box::new(Resource::new(&larger).unwrap())));
    play_on(
        world,
        "
        500   allow b client:x requests=6   -> b:not_in_time+50
        # To the nanosecond after.
        500   allow c client:y requests=11  -> c:not_in_time+50
        501   allow d client:y requests=10  -> d@501
        1001  allow e client:z requests=20  -> e@1001
        ",
    );
}

scripts! {
    a_large_request_is_not_passed_by_small_ones_of_its_key(ten_each()): "
        0    wait a client:x requests=10  -> a@0
        0    wait b client:x requests=5   ->
        200  wait c client:x              ->
        200  wait d client:y              -> d@200
        500                               -> b@500
        600                               -> c@600
    "
}

#[test]
fn binding_answers_precede_less_urgent_requests_in_a_key_queue() {
    let classes = ["urgent", "bulk"].map(|class| ClassSpec::new(name(class))).to_vec();
    let spec = ResourceSpec { classes, ..resource(vec![keyed("per-client", 10.0, 1000, &["client"])]) };
    play(
        &spec,
        "
        0   wait a client:x class=bulk requests=5     -> a@0
        0   wait b client:x class=bulk requests=8     ->
        0   allow c client:x class=urgent             -> c@0
        0   allow d client:x class=bulk               -> d:not_in_time+500
        400                                           -> b@400
        ",
    );
}

#[test]
fn no_request_starves_in_a_key_queue() {
    let [urgent, bulk] = ["urgent", "bulk"].map(|class| ClassSpec::new(name(class)));
    let bulk = ClassSpec { max_starvation: Some(span(1500)), ..bulk };
    let spec =
        ResourceSpec { classes: vec![urgent, bulk], ..resource(vec![keyed("per-client", 1.0, 1000, &["client"])]) };
    play(
        &spec,
        "
        0     wait a client:x class=urgent  -> a@0
        0     wait b client:x class=bulk    ->
        100   wait c client:x class=urgent  ->
        100   wait d client:x class=urgent  ->
        100   wait e client:x class=urgent  ->
        1000                                -> c@1000
        # The alarm was set for the more urgent, and goes off for the one that has starved meanwhile.
        2000                                -> b@2000
        3000                                -> d@3000
        ",
    );
}

#[test]
fn a_request_that_waits_for_a_shared_limit_lets_others_of_its_key_pass() {
    let matching = [("route".to_owned(), Pattern::Exact("/heavy".to_owned()))].into();
    let heavy = LimitSpec {
        name: name("heavy"),
        applies: Applies { matching, ..Applies::default() },
        ..limit("requests", 1.0, span(3_600_000))
    };
    play(
        &resource(vec![keyed("per-client", 1.0, 1000, &["client"]), heavy]),
        "
        0     wait a client:x               -> a@0
        0     wait h client:z route:/heavy  -> h@0
        0     wait b client:x route:/heavy  ->
        0     wait c client:x               ->
        0     wait d client:x               ->
        1000                                -> c@1000
        2000                                -> d@2000
        ",
    );
}

#[test]
fn a_request_behind_a_held_queue_lets_others_of_its_key_pass() {
    let matching = [("route".to_owned(), Pattern::Exact("/heavy".to_owned()))].into();
    let heavy = LimitSpec {
        name: name("heavy"),
        applies: Applies { matching, ..Applies::default() },
        ..limit("requests", 1.0, span(3_600_000))
    };
    play(
        &resource(vec![keyed("per-client", 1.0, 1000, &["client"]), heavy]),
        "
        1000  wait a client:x                       -> a@1000
        1000  wait h client:z route:/heavy          -> h@1000
        1000  wait b client:x route:/heavy          ->
        1000  wait first client:y route:/heavy age=500 ->
        1000  wait c client:x                       ->
        # The key can pay for b, which finds another ahead of it.
        2000                                        -> c@2000
        ",
    );
}

scripts! {
    newcomers_and_binding_answers_follow_waiting_requests_of_the_same_key(
        resource(vec![keyed("per-client", 1.0, 1000, &["client"])])
    ): "
        0     wait a client:x    -> a@0
        0     wait b client:x    ->
        0     wait c client:x    ->
        0     reserve d client:x -> d@3000
        0     allow e client:x   -> e:not_in_time+4000
        0     allow f client:y   -> f@0
        1000                     -> b@1000
        2000                     -> c@2000
    "
}

#[test]
fn more_urgent_requests_go_first_in_a_key_queue() {
    let classes = ["urgent", "bulk"].map(|class| ClassSpec::new(name(class))).to_vec();
    let spec = ResourceSpec { classes, ..resource(vec![keyed("per-client", 1.0, 1000, &["client"])]) };
    play(
        &spec,
        "
        0     wait a client:x class=bulk   -> a@0
        0     wait b client:x class=bulk   ->
        0     wait c client:x class=bulk   ->
        500   wait d client:x class=urgent ->
        1000                               -> d@1000
        2000                               -> b@2000
        2000  unused b                     -> b:settled c@2000
        ",
    );
}

scripts! {
    a_request_in_a_key_queue_can_be_cancelled_and_can_be_late(
        resource(vec![keyed("per-client", 1.0, 1000, &["client"])])
    ): "
        0     wait a client:x              -> a@0
        0     wait b client:x              ->
        0     wait c client:x within=1500  ->
        0     wait d client:x progress     -> d#2~3000
        100   unused b                     -> b:unknown_permit b:settled
        1000                               -> c@1000
        2000                               -> d@2000
    "
}

#[test]
fn a_limit_is_for_requests_that_match() {
    let matching = [("route".to_owned(), Pattern::Prefix("/heavy".to_owned()))].into();
    let heavy = LimitSpec {
        name: name("heavy"),
        applies: Applies { matching, ..Applies::default() },
        ..limit("requests", 1.0, span(1000))
    };
    play(
        &resource(vec![limit("requests", 10.0, span(1000)), heavy]),
        "
        0  allow a route:/heavy/1  -> a@0
        0  allow b route:/heavy/2  -> b:not_in_time+1000
        0  allow c route:/light    -> c@0
        0  levels                  -> requests=8 heavy=0
        0  used a requests=1       -> a:settled
        ",
    );
}

#[test]
fn beyond_the_bound_no_new_key_is_let_in_until_a_bucket_is_full() {
    let bounds = Bounds { max_keys: 2, ..Bounds::default() };
    play(
        &ResourceSpec { bounds, ..ten_each() },
        "
        0     allow a client:x requests=10  -> a@0
        0     allow b client:y requests=1   -> b@0
        0     allow c client:z              -> c:too_many_keys+1000
        # Known keys are not disturbed, nor are requests without a key.
        0     allow d client:y              -> d@0
        0     allow e                       -> e@0
        200   allow f client:z              -> f@200
        200   allow g client:w              -> g:too_many_keys+1000
        ",
    );
}

#[test]
fn a_key_whose_last_waiting_request_leaves_makes_room() {
    let bounds = Bounds { max_keys: 1, ..Bounds::default() };
    let mut spec = ResourceSpec { bounds, ..ten_each() };
    spec.limits[0].applies.group = Some(name("routes"));
    let (mut lowered, mut narrowed) = (spec.clone(), spec.clone());
    lowered.limits[0].capacity = amount(5.0);
    let matching = [("route".to_owned(), Pattern::Exact("/heavy".to_owned()))].into();
    let applies = Applies { matching, group: Some(name("routes")), ..Applies::default() };
    narrowed.limits.push(LimitSpec { name: name("heavy"), applies, ..limit("requests", 10.0, span(1000)) });
    play_under(
        &spec,
        &[("lowered", lowered), ("narrowed", narrowed)],
        "
        0     allow a client:x requests=10  -> a@0
        0     wait b client:x requests=8    ->
        10    limits lowered                -> b:never_fits
        5000  allow c client:y requests=5   -> c@5000
        5000  wait d client:y               ->
        5010  unused d                      -> d:unknown_permit d:settled
        9000  allow e client:z requests=5   -> e@9000
        9000  wait f client:z route:/heavy  ->
        # A more specific limit counts this request, and no key does.
        9010  limits narrowed               -> f@9010
        20000 allow g client:w              -> g@20000
        ",
    );
}

#[test]
fn long_names_leave_room_for_fewer_keys_in_a_record_and_the_other_keys_wait() {
    let name = |index: usize| format!("{index}{}", "\"".repeat(250));
    let asks = (0..8000).map(|index| format!("0 allow k{index} client:{} requests=10 -> k{index}@0\n", name(index)));
    let mut world = play(&ten_each(), &asks.collect::<String>());
    let snapshot = world.scheduler.snapshot(ms(0), 0);
    let listed: BTreeSet<&str> = snapshot.keys.listed.iter().map(|known| &*known.key).collect();
    let written: usize = listed.iter().map(|key| format!("{key:?}").len()).sum();
    assert!((700_000..800_000).contains(&written), "{written} bytes");
    let unlisted = (0..8000).map(name).find(|name| !listed.contains(&**name)).unwrap();
    let restored = Scheduler::restore(Resource::new(&ten_each()).unwrap(), Epoch::new(2), ms(0), ms(0), &snapshot);
    let asks = format!(
        "0 allow a client:{unlisted} -> a:not_in_time+100.000001\n0 allow b client:new -> b:not_in_time+100.000001"
    );
    play_on(World::of(restored), &asks);
}

/// The upstream's bucket is full before a promised start. What a faster limit refills until then is
/// lost there.
#[test]
fn a_faster_limit_pays_no_promise_of_a_predecessor_early() {
    let per_client = |period| resource(vec![keyed("per-client", 10.0, period, &["client"])]);
    let mut before = play(
        &per_client(20_000),
        "
        0  reserve a client:x requests=10  -> a@0
        0  reserve b client:x requests=10  -> b@20000
        ",
    );
    let snapshot = before.scheduler.snapshot(ms(0), 0);
    let restored =
        Scheduler::restore(Resource::new(&per_client(20_000)).unwrap(), Epoch::new(2), ms(0), ms(0), &snapshot);
    let mut world = World::of(restored);
    world.handle(ms(1000), Event::Limits(Box::new(Resource::new(&per_client(5_000)).unwrap())));
    play_on(world, "19000 reserve c client:x requests=10 -> c@25000.000001");
}

/// The same for a limit that becomes faster while no scheduler runs.
#[test]
fn a_successor_with_a_faster_limit_pays_no_promise_early() {
    let per_client = |period| resource(vec![keyed("per-client", 10.0, period, &["client"])]);
    for listed in [0, usize::MAX] {
        let mut before = play(
            &per_client(20_000),
            "
            0  reserve a client:x requests=10  -> a@0
            0  reserve b client:x requests=10  -> b@20000
            ",
        );
        let snapshot = before.scheduler.snapshot(ms(0), listed);
        let restored =
            Scheduler::restore(Resource::new(&per_client(5_000)).unwrap(), Epoch::new(2), ms(1000), ms(0), &snapshot);
        play_on(World::of(restored), "19000 reserve c client:x requests=10 -> c@25000.0005");
    }
}

#[test]
fn a_successor_knows_what_every_key_has_left() {
    let mut world = play(
        &ten_each(),
        "
        0     allow a client:x requests=4     -> a@0
        0     reserve b client:y requests=10  -> b@0
        0     reserve c client:y requests=5   -> c@500
        100   levels                          -> per-client=-4
        ",
    );
    let (spec, now) = (ten_each(), ms(100));
    let snapshot = world.scheduler.snapshot(now, usize::MAX);
    let restored = || Scheduler::restore(Resource::new(&spec).unwrap(), Epoch::new(2), now, now, &snapshot);
    play_on(
        World::of(restored()),
        "
        100   allow d client:x requests=8     -> d:not_in_time+100
        100   allow e client:x requests=7     -> e@100
        100   allow f client:z requests=10    -> f@100
        100   allow g client:y                -> g:not_in_time+500
        600   allow h client:y                -> h@600
        ",
    );
    // The actual cost of a call is charged to its key all the same.
    play_on(
        World::of(restored()),
        "
        100   used a requests=10              -> a:settled
        100   unused c                        -> c:settled
        200   allow d client:x requests=3     -> d:not_in_time+100
        500   allow e client:y                -> e@500
        ",
    );
    // A scheduler without state begins with empty buckets.
    play_on(
        World::of(Scheduler::cautious(Resource::new(&spec).unwrap(), Epoch::new(2), now)),
        "
        150   allow d client:z                -> d:not_in_time+50
        200   allow e client:z                -> e@200
        ",
    );
}

scripts! {
    a_rejection_freezes_the_key_that_it_speaks_of(ten_each()): "
        0     wait a client:x                 -> a@0
        0     answered a 429 after=300        -> a:settled
        0     wait b client:x                 ->
        0     wait c client:x                 ->
        0     wait d client:y                 -> d@0
        # One goes first, and the other follows when it was served.
        300                                   -> b@300
        400                                   ->
        400   answered b 200                  -> b:settled c@400
    "
}

#[test]
fn an_unknown_client_is_refused_where_the_resource_says_so() {
    let spec = ResourceSpec { unmatched: Unmatched::Refuse, ..ten_each() };
    let resource = Resource::new(&spec).unwrap();
    assert_eq!(resource.bill(&Labels::new(), [].into_iter()), Err(Refusal::NoLimit));
    let unknown = Resource::new(&ten_each()).unwrap().bill(&Labels::new(), [].into_iter());
    assert!(unknown.unwrap().is_empty(), "it passes otherwise");
}

/// A request, or its cancellation, after a pause in milliseconds.
#[derive(Clone, Debug)]
enum Step {
    Ask { client: usize, route: usize, cost: [u64; 2], mode: Mode, class: usize },
    Cancel { which: Index },
}

const CLIENTS: [&str; 3] = ["x", "y", "z"];
const ROUTES: [&str; 3] = ["/heavy/1", "/heavy/2", "/light"];
const CLASSES: [&str; 2] = ["urgent", "bulk"];

/// The limits of the account, of each client, and of each heavy route.
fn three_limits() -> ResourceSpec {
    let heavy = Applies {
        matching: [("route".to_owned(), Pattern::Prefix("/heavy/".to_owned()))].into(),
        key: vec!["route".to_owned()],
        group: None,
    };
    let heavy = LimitSpec { applies: heavy, ..limit("units", 20.0, span(4_000)) };
    let classes = [(CLASSES[0], 0.0, None), (CLASSES[1], 0.2, Some(span(500)))];
    let class = |(class, headroom, max_starvation)| ClassSpec { name: name(class), headroom, max_starvation };
    ResourceSpec {
        classes: classes.map(class).to_vec(),
        ..resource(vec![
            limit("requests", 12.0, span(1_000)),
            keyed("per-client", 4.0, 1_000, &["client"]),
            LimitSpec { name: name("per-route"), ..heavy },
        ])
    }
}

/// Whether a limit counts a request, and in which bucket.
fn bucket_of(limit: usize, client: usize, route: usize) -> Option<usize> {
    match limit {
        0 => Some(0),
        1 => Some(client),
        _ => (ROUTES[route] != "/light").then_some(route),
    }
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let mode = prop_oneof![1 => Just(Mode::Reserve), 1 => Just(Mode::Allow), 4 => Just(Mode::Wait)];
    let cost = (0..=3_u64, 0..=12_u64).prop_map(<[u64; 2]>::from);
    let ask = (0..CLIENTS.len(), 0..ROUTES.len(), cost, mode, 0..CLASSES.len());
    let ask = ask.prop_map(|(client, route, cost, mode, class)| Step::Ask { client, route, cost, mode, class });
    let step = prop_oneof![8 => ask, 1 => any::<Index>().prop_map(|which| Step::Cancel { which })];
    let pause = prop_oneof![4 => Just(0_u64), 3 => 0..30_u64, 1 => 0..1_500_u64];
    prop::collection::vec((pause, step), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_bucket_is_overdrawn_and_no_request_forgotten(steps in steps(), is_shared in any::<bool>()) {
        let spec = if is_shared { shared(three_limits(), &[]) } else { three_limits() };
        let mut world = World::new(&spec);
        let (mut now, mut asked, mut cancelled) = (ms(1), Vec::new(), BTreeSet::new());
        for (pause, step) in &steps {
            now += span(*pause);
            world.run_until(now);
            match step {
                Step::Ask { client, route, cost, mode, class } => {
                    let id = format!("p{}", asked.len());
                    let cost_by_unit = [("requests", cost[0] as f64), ("units", cost[1] as f64)];
                    let client_of = is_shared.then_some(CLIENTS[*client]);
                    let mut wish = Wish { client: client_of, ..wish(*mode, &cost_by_unit).of_class(CLASSES[*class]) };
                    wish.labels.extend([("client", CLIENTS[*client]), ("route", ROUTES[*route])]);
                    asked.push((world.ask(now, &wish.named(&id)), *client, *route, *cost));
                }
                Step::Cancel { which } if !asked.is_empty() => {
                    let request = asked[which.index(asked.len())].0;
                    if world.start(request).is_none_or(|start| start > now) {
                        world.settle(now, &format!("p{request}"), Outcome::Unused);
                        cancelled.insert(request);
                    }
                }
                Step::Cancel { .. } => {}
            }
        }
        world.run_until(now + Span::from_secs(600));
        prop_assert_eq!(world.scheduler.waiting(), 0, "no request is forgotten");
        for (index, limit) in spec.limits.iter().enumerate() {
            for bucket in 0..3 {
                let counts = |(request, client, route, _): &&(usize, usize, usize, [u64; 2])| {
                    bucket_of(index, *client, *route) == Some(bucket) && !cancelled.contains(request)
                };
                let unit = usize::from(&*limit.unit == "units");
                let call = |(request, _, _, cost): &(usize, usize, usize, [u64; 2])| {
                    Some((world.start(*request)?, amount(cost[unit] as f64)))
                };
                let calls: Vec<_> = asked.iter().filter(counts).filter_map(call).collect();
                prop_assert!(Judge::new(limit).lowest(&calls) >= 0, "{}, bucket {bucket}: {calls:?}", limit.name);
            }
        }
    }
}
