//! The order of requests that wait for the same key: by class, fairly by client, and none starves.

use crate::prelude::*;

/// `capacity` at once and in `period` for each value of a label.
fn per(label: &str, capacity: f64, period: u64) -> LimitSpec {
    keyed(&format!("per-{label}"), capacity, period, &[label])
}

/// `limits` for a class `urgent` above a class `bulk`, which may starve for this long.
fn starving(limits: Vec<LimitSpec>, max_starvation: Span) -> ResourceSpec {
    let [urgent, bulk] = ["urgent", "bulk"].map(|class| ClassSpec::new(name(class)));
    let bulk = ClassSpec { max_starvation: Some(max_starvation), ..bulk };
    ResourceSpec { classes: vec![urgent, bulk], ..resource(limits) }
}

scripts! {
    one_request_of_a_key_is_promoted_in_each_time_of_starvation(starving(vec![per("guild", 1.0, 1000)], span(1500))): "
        0     wait a guild:x class=urgent   -> a@0
        0     wait b1 guild:x class=bulk    ->
        0     wait b2 guild:x class=bulk    ->
        0     wait b3 guild:x class=bulk    ->
        100   wait c guild:x class=urgent   ->
        100   wait d guild:x class=urgent   ->
        100   wait e guild:x class=urgent   ->
        1000                                -> c@1000
        2000                                -> b1@2000
        # The next is promoted 1500 ms after that.
        3000                                -> d@3000
        4000                                -> b2@4000
        5000                                -> e@5000
        6000                                -> b3@6000
    "

    what_a_key_promotes_goes_before_later_answers_at_once(starving(vec![per("guild", 2.0, 2000)], span(1500))): "
        0     wait a guild:x class=urgent requests=2   -> a@0
        0     wait b guild:x class=bulk requests=2     ->
        1000  allow c guild:x class=urgent             -> c@1000
        2000  allow d guild:x class=urgent             -> d:not_in_time+2000
        2500  reserve e guild:x class=urgent           -> e@4000
        3000                                           -> b@3000
    "

    clients_share_a_key(shared(resource(vec![per("model", 1.0, 1000)]), &[])): "
        0     wait a1 client=a model:m   -> a1@0
        0     wait a2 client=a model:m   ->
        0     wait a3 client=a model:m   ->
        0     wait a4 client=a model:m   ->
        10    wait b1 client=b model:m   ->
        4000                             -> a2@1000 b1@2000 a3@3000 a4@4000
        # An idle client has saved nothing, and goes next once.
        4000  wait a5 client=a model:m   ->
        4000  wait a6 client=a model:m   ->
        5010  wait b2 client=b model:m   -> a5@5000
        5010  wait b3 client=b model:m   ->
        8000                             -> b2@6000 a6@7000 b3@8000
    "

    clients_share_a_key_by_weight_and_keep_their_own_order(
        shared(resource(vec![per("model", 1.0, 1000)]), &[("a", 2.0)])
    ): "
        0     wait spent model:m               -> spent@0
        10    wait a2 client=a model:m         ->
        20    wait a3 client=a model:m         ->
        30    wait a4 client=a model:m         ->
        40    wait b1 client=b model:m         ->
        50    wait b2 client=b model:m         ->
        # It says that it has waited for longer than its client's other requests.
        60    wait a1 client=a model:m age=55  ->
        7000                                   -> a1@1000 b1@2000 a2@3000 a3@4000 b2@5000 a4@6000
    "

    /// Both keys of the requests of `a` and `b` are scarce, half a second apart.
    clients_share_two_keys_that_their_requests_need(
        shared(resource(vec![per("model", 1.0, 1000), per("region", 1.0, 1000)]), &[])
    ): "
        0     wait m model:m                    -> m@0
        500   wait r region:r                   -> r@500
        600   wait a1 client=a model:m region:r ->
        600   wait a2 client=a model:m region:r ->
        600   wait a3 client=a model:m region:r ->
        610   wait b1 client=b model:m region:r ->
        610   wait b2 client=b model:m region:r ->
        6000                                    -> a1@1500 b1@2500 a2@3500 b2@4500 a3@5500
    "

    /// Each of two requests comes first at one key, which keeps an amount for it, and second at the other.
    requests_that_hold_each_others_keys_go_on(
        shared(resource(vec![per("model", 1.0, 1000), per("region", 1.0, 1000)]), &[])
    ): "
        0     wait r1 region:r                       -> r1@0
        0     wait r2 region:r                       ->
        10    wait both-b client=b model:m region:r  ->
        20    wait b1 client=b model:m               -> b1@20
        30    wait b2 client=b model:m               ->
        30    wait b3 client=b model:m               ->
        40    wait both-a client=a model:m region:r  ->
        1100                                         -> r2@1000 b2@1020
        5000                                         -> both-b@2020 b3@3020 both-a@4020
    "

    a_stated_age_moves_no_client_ahead_in_a_key_queue(
        shared(starving(vec![per("guild", 1.0, 1000)], span(1500)), &[])
    ): "
        90000   wait a guild:x class=urgent                            -> a@90000
        90000   wait honest client=h guild:x class=bulk                ->
        90000   wait liar client=l guild:x class=bulk age=3600000      ->
        90100   wait c guild:x class=urgent                            ->
        90100   wait d guild:x class=urgent                            ->
        91000                                                          -> c@91000
        92000                                                          -> honest@92000
    "
}
