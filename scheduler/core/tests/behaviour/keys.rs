//! Limits for some requests only, and limits with a bucket for each key.

use crate::prelude::*;
use rampmeter_policy::spec::{Bounds, Pattern, Unmatched};

/// Ten at once and ten in a second for each client.
fn ten_each() -> ResourceSpec {
    resource(vec![keyed("per-client", 10.0, 1000, &["client"])])
}

/// One at once and one in a second for each client.
fn one_each() -> ResourceSpec {
    resource(vec![keyed("per-client", 1.0, 1000, &["client"])])
}

/// One in a second for each client, and for each route.
fn two_keys() -> Vec<LimitSpec> {
    vec![keyed("per-client", 1.0, 1000, &["client"]), keyed("per-route", 1.0, 1000, &["route"])]
}

/// One of the routes below `/heavy` in this time.
fn heavy(period: u64) -> LimitSpec {
    let matching = [("route".to_owned(), Pattern::Prefix("/heavy".to_owned()))].into();
    let applies = Applies { matching, ..Applies::default() };
    LimitSpec { name: name("heavy"), applies, ..limit("requests", 1.0, span(period)) }
}

scripts! {
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

    a_request_held_by_a_shared_limit_and_then_by_its_key_blocks_no_other_key(
        resource(vec![
            LimitSpec { unit: name("work"), ..keyed("per-client", 10.0, 1000, &["client"]) },
            limit("parts", 10.0, span(1000)),
        ])
    ): "
        0     allow a client:y parts=10           -> a@0
        0     reserve b client:x parts=10 work=10 -> b@1000
        # What is shared could pay at 1500, the key only at 1800.
        0     wait c client:x parts=5 work=8      ->
        0     wait d client:z work=1              -> d@0
        1800                                      -> c@1800
    "

    a_request_for_two_busy_keys_is_not_passed_for_ever(resource(two_keys())): "
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
    "

    stock_that_a_key_keeps_for_later_delays_no_other_request(
        resource(vec![keyed("per-client", 10.0, 1000, &["client"]), keyed("per-route", 1.0, 10_000, &["route"])])
    ): "
        0     wait a client:x route:a requests=0  -> a@0
        0     wait b client:y route:r             -> b@0
        0     wait c client:x requests=10         -> c@0
        10    wait both client:x route:r          ->
        # A client's token is there at 100 ms, the route's at 10 s: until then the client keeps nothing from other requests.
        10    wait d client:x                     ->
        10    wait e client:x                     ->
        1000                                      -> d@100 e@200
        10000                                     -> both@10000
    "

    a_request_that_waits_for_two_keys_is_refused_when_its_quota_is_spent(
        resource([two_keys(), vec![counted(Algorithm::Quota(None), limit("requests", 4.0, span(1000)))]].concat())
    ): "
        0     wait a client:x route:b    -> a@0
        500   wait c client:y route:r    -> c@500
        600   wait both client:x route:r ->
        1000                             ->
        1100  allow d client:z           -> d@1100
        1200  allow e client:w           -> e@1200
        # When its turn comes.
        1449                             ->
        1450                             -> both:quota_spent
    "

    a_larger_capacity_fills_no_bucket(
        ten_each(), "larger": resource(vec![keyed("per-client", 20.0, 1000, &["client"])])
    ): "
        0     allow a client:x requests=10  -> a@0
        500   limits larger                 ->
        500   allow b client:x requests=6   -> b:not_in_time+50
        # To the nanosecond after.
        500   allow c client:y requests=11  -> c:not_in_time+50
        501   allow d client:y requests=10  -> d@501
        1001  allow e client:z requests=20  -> e@1001
    "

    a_large_request_is_not_passed_by_small_ones_of_its_key(ten_each()): "
        0    wait a client:x requests=10  -> a@0
        0    wait b client:x requests=5   ->
        200  wait c client:x              ->
        200  wait d client:y              -> d@200
        500                               -> b@500
        600                               -> c@600
    "

    binding_answers_precede_less_urgent_requests_in_a_key_queue(with_bulk(ten_each(), 0.0)): "
        0   wait a client:x class=bulk requests=5     -> a@0
        0   wait b client:x class=bulk requests=8     ->
        0   allow c client:x class=urgent             -> c@0
        0   allow d client:x class=bulk               -> d:not_in_time+500
        400                                           -> b@400
    "

    a_request_that_waits_for_a_shared_limit_lets_others_of_its_key_pass(
        resource(vec![keyed("per-client", 1.0, 1000, &["client"]), heavy(3_600_000)])
    ): "
        0     wait a client:x               -> a@0
        0     wait h client:z route:/heavy  -> h@0
        0     wait b client:x route:/heavy  ->
        0     wait c client:x               ->
        0     wait d client:x               ->
        1000                                -> c@1000
        2000                                -> d@2000
    "

    a_request_behind_a_held_queue_lets_others_of_its_key_pass(
        resource(vec![keyed("per-client", 1.0, 1000, &["client"]), heavy(3_600_000)])
    ): "
        1000  wait a client:x                       -> a@1000
        1000  wait h client:z route:/heavy          -> h@1000
        1000  wait b client:x route:/heavy          ->
        1000  wait first client:y route:/heavy age=500 ->
        1000  wait c client:x                       ->
        # The key can pay for b, which finds another ahead of it.
        2000                                        -> c@2000
    "

    newcomers_and_binding_answers_follow_waiting_requests_of_the_same_key(one_each()): "
        0     wait a client:x    -> a@0
        0     wait b client:x    ->
        0     wait c client:x    ->
        0     reserve d client:x -> d@3000
        0     allow e client:x   -> e:not_in_time+4000
        0     allow f client:y   -> f@0
        1000                     -> b@1000
        2000                     -> c@2000
    "

    more_urgent_requests_go_first_in_a_key_queue(with_bulk(one_each(), 0.0)): "
        0     wait a client:x class=bulk   -> a@0
        0     wait b client:x class=bulk   ->
        0     wait c client:x class=bulk   ->
        500   wait d client:x class=urgent ->
        1000                               -> d@1000
        2000                               -> b@2000
        2000  unused b                     -> b:settled c@2000
    "

    a_request_in_a_key_queue_can_be_cancelled_and_can_be_late(one_each()): "
        0     wait a client:x              -> a@0
        0     wait b client:x              ->
        0     wait c client:x within=1500  ->
        0     wait d client:x progress     -> d#2~3000
        100   unused b                     -> b:unknown_permit b:settled
        1000                               -> c@1000
        2000                               -> d@2000
    "

    a_limit_is_for_requests_that_match(resource(vec![limit("requests", 10.0, span(1000)), heavy(1000)])): "
        0  allow a route:/heavy/1  -> a@0
        0  allow b route:/heavy/2  -> b:not_in_time+1000
        0  allow c route:/light    -> c@0
        0  levels                  -> requests=8 heavy=0
        0  used a requests=1       -> a:settled
    "

    beyond_the_bound_no_new_key_is_let_in_until_a_bucket_is_full(
        ResourceSpec { bounds: Bounds { max_keys: 2, ..Bounds::default() }, ..ten_each() }
    ): "
        0     allow a client:x requests=10  -> a@0
        0     allow b client:y requests=1   -> b@0
        0     allow c client:z              -> c:too_many_keys+1000
        # Known keys are not disturbed, nor are requests without a key.
        0     allow d client:y              -> d@0
        0     allow e                       -> e@0
        200   allow f client:z              -> f@200
        200   allow g client:w              -> g:too_many_keys+1000
    "
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
    let restored = World::restored(&ten_each(), ms(0), ms(0), &snapshot);
    let asks = format!(
        "0 allow a client:{unlisted} -> a:not_in_time+100.000001\n0 allow b client:new -> b:not_in_time+100.000001"
    );
    play_on(restored, &asks);
}

/// The upstream's bucket is full before a promised start. What a faster limit refills until then is
/// lost there, also if it becomes faster while no scheduler runs.
#[test]
fn a_faster_limit_pays_no_promise_of_a_predecessor_early() {
    let per_client = |period| resource(vec![keyed("per-client", 10.0, period, &["client"])]);
    for (changes, start) in [
        ("0 restart permits=0 ->\n 1000 limits faster ->", "25000.000001"),
        ("0 restart permits=0 after=1000 limits=faster ->", "25000.0005"),
        ("0 restart after=1000 limits=faster ->", "25000.0005"),
    ] {
        let script = format!(
            "
            0     reserve a client:x requests=10  -> a@0
            0     reserve b client:x requests=10  -> b@20000
            {changes}
            19000 reserve c client:x requests=10  -> c@{start}
            "
        );
        play_under(&per_client(20_000), &[("faster", per_client(5_000))], &script);
    }
}

#[test]
fn a_successor_knows_what_every_key_has_left() {
    let before = "
        0     allow a client:x requests=4     -> a@0
        0     reserve b client:y requests=10  -> b@0
        0     reserve c client:y requests=5   -> c@500
        100   levels                          -> per-client=-4
        100   restart                         ->
        ";
    let asked = "
        100   allow d client:x requests=8     -> d:not_in_time+100
        100   allow e client:x requests=7     -> e@100
        100   allow f client:z requests=10    -> f@100
        100   allow g client:y                -> g:not_in_time+500
        600   allow h client:y                -> h@600
        ";
    // The actual cost of a call is charged to its key all the same.
    let settled = "
        100   used a requests=10              -> a:settled
        100   unused c                        -> c:settled
        200   allow d client:x requests=3     -> d:not_in_time+100
        500   allow e client:y                -> e@500
        ";
    for after in [asked, settled] {
        play(&ten_each(), &format!("{before}{after}"));
    }
    // A scheduler without state begins with empty buckets.
    play_on(
        World::of(Scheduler::cautious(Resource::new(&ten_each()).unwrap(), Epoch::new(2), ms(100))),
        "
        150   allow d client:z                -> d:not_in_time+50
        200   allow e client:z                -> e@200
        ",
    );
}

#[test]
fn an_unknown_client_is_refused_where_the_resource_says_so() {
    let spec = ResourceSpec { unmatched: Unmatched::Refuse, ..ten_each() };
    let resource = Resource::new(&spec).unwrap();
    assert_eq!(resource.bill(&Labels::new(), [].into_iter()), Err(Refusal::NoLimit));
    let unknown = Resource::new(&ten_each()).unwrap().bill(&Labels::new(), [].into_iter());
    assert_eq!(unknown.unwrap().charged().count(), 0, "it passes otherwise");
}
