//! The true reason of a wait, request by request.

use crate::prelude::*;

fn in_flight(places: f64) -> LimitSpec {
    counted(Algorithm::Concurrency, limit("requests", places, span(60_000)))
}

scripts! {
    too_little_stock_says_when_there_is_enough(ten_per_second()): "
        0   wait a requests=10  -> a@0
        0   wait b requests=3   ->
        0   wait c requests=1   ->
        0   why b               -> requests:stock+300
        # Alone it could start before the first one.
        0   why c               -> requests:stock+100
        0   why next            -> requests:stock+100
        300                     -> b@300
    "

    headroom_is_told_from_stock(with_bulk(ten_per_second(), 0.9)): "
        0   wait a requests=1              -> a@0
        0   wait b class=bulk requests=1   ->
        0   wait c class=bulk requests=10  ->
        0   why b                          -> requests:headroom+100
        # A full bucket is its last chance; no headroom would help.
        0   why c                          -> requests:stock+100
        0   why next                       -> nothing
        100                                -> b@100
    "

    calls_in_flight_tell_when_one_of_them_likely_ends(resource(vec![in_flight(2.0)])): "
        0    wait a                -> a@0
        0    wait b                -> b@0
        100  wait c                ->
        # As long as no call has ended, only the leases are known.
        100  why c                 -> requests:in_flight+59900
        400  used a                -> a:settled c@400
        500  wait d                ->
        500  wait e                ->
        500  why d                 -> requests:in_flight+59500 ~0
        500  why next              -> requests:in_flight+59500 ~0
        600  used b                -> b:settled d@600
        700  why e                 -> requests:in_flight+59700 ~125
    "

    a_pause_is_told_from_stock_and_so_is_its_probe(ten_per_second()): "
        0    wait a                 -> a@0
        0    answered a 429 after=5000 -> a:settled
        10   wait b progress        -> b#0~4990
        10   wait c                 ->
        10   why b                  -> requests:frozen+4990
        10   why c                  -> requests:frozen+4990
        10   why next               -> requests:frozen+4990
        5000                        -> b#0~1990 b@5000
        5100 why c                  -> requests:probe+1900
        5200 answered b 200         -> b:settled c@5200
    "

    the_key_that_delays_the_request_is_told(
        resource(vec![keyed("client", 5.0, 1000, &["client"]), keyed("region", 1.0, 1000, &["region"]), limit("requests", 10.0, span(1000))])
    ): "
        0    wait a client:x region:eu  -> a@0
        0    wait b client:x region:eu  ->
        0    wait c client:y region:eu  ->
        0    why b                      -> region=eu:stock+1000
        0    why c                      -> region=eu:stock+1000
        0    wait d client:x region:us  -> d@0
        1000                            -> b@1000
    "

    a_client_that_had_its_share_is_told_so(shared(ten_per_second(), &[])): "
        0    wait a client=heavy requests=10  -> a@0
        0    wait b client=heavy requests=5   ->
        0    wait c client=heavy requests=5   ->
        0    why c                            -> requests:stock+500
        10   wait d client=light              ->
        10   why c                            -> requests:share+490
        10   why d                            -> requests:stock+90
    "

    a_request_that_its_limits_could_pay_waits_for_its_turn(resource(vec![limit("requests", 10.0, span(1000))])): "
        0    wait a requests=8    -> a@0
        0    wait b requests=10   ->
        0    wait c requests=1    ->
        0    why b                -> requests:stock+800
        0    why c                -> requests:turn+0
    "

    unproven_stock_is_told(
        ResourceSpec {
            start: StartPolicy::Unproven,
            ..resource(vec![LimitSpec { learn: Learn::Above(0.1), ..limit("requests", 100.0, span(10_000)) }])
        }
    ): "
        0    wait a    -> a@0
        0    wait b    -> b@0
        0    wait c    -> c@0
        0    wait d    -> d@0
        0    wait e    ->
        0    why e     -> requests:unproven+0
    "
}

#[test]
fn a_spent_quota_is_told_by_the_status() {
    let quota = resource(vec![counted(Algorithm::Quota(None), limit("requests", 2.0, span(1000)))]);
    for (spends, reason) in [
        ("wait b -> b@0\n 0 why next ->", "requests:quota_spent"),
        ("answered a 403 after=60000 -> a:settled\n 10 why next ->", "requests:quota_spent+59990"),
    ] {
        play(&quota, &format!("0 wait a -> a@0\n 0 {spends} {reason}"));
    }
}
