//! Whose limit an answer speaks of, if the call was charged to several.

use crate::prelude::*;
use rampmeter_policy::spec::Pattern;

/// A limit for each guild, one for messages, one for all calls, and a cap on calls in flight.
fn bot() -> ResourceSpec {
    let messages = Pattern::Prefix("/messages".to_owned());
    let to_messages = Applies { matching: [("route".to_owned(), messages)].into(), ..Applies::default() };
    let named = |named: &str, capacity| LimitSpec { name: name(named), ..limit("requests", capacity, span(1000)) };
    resource(vec![
        named("all", 50.0),
        by("guild", named("guild", 10.0)),
        LimitSpec { applies: to_messages, ..named("messages", 5.0) },
        counted(Algorithm::Concurrency, named("in-flight", 100.0)),
    ])
}

scripts! {
    a_name_that_the_file_has_not_is_of_no_limit_that_all_calls_share(bot()): "
        0  wait a                                             -> a@0
        0  answered a 200 limit=4f9c left=1 of=50 reset=5000  -> a:settled
        0  levels                                             -> all=49 guild=10 messages=5 in-flight=100
        0  wait b                                             -> b@0
        0  answered b 429 limit=4f9c left=0 of=50 reset=9000 after=9000 -> b:settled
        # The refused call took nothing, and nothing waits.
        0  levels                                             -> all=49 guild=10 messages=5 in-flight=100
        0  wait c guild:x                                     -> c@0
    "

    a_name_that_the_file_has_not_may_be_of_a_narrow_limit_of_the_same_capacity(bot()): "
        0  wait a route:/messages/1                           -> a@0
        0  answered a 200 limit=4f9c left=2 of=5              -> a:settled
        0  levels                                             -> all=49 guild=10 messages=2 in-flight=100
        0  wait b route:/messages/1                           -> b@0
        0  answered b 200 limit=4f9c left=0 of=6              -> b:settled
        0  levels                                             -> all=48 guild=10 messages=1 in-flight=100
        0  wait c guild:x                                     -> c@0
        0  answered c 200 limit=77aa left=1 of=10             -> c:settled
        0  reserve d guild:x                                  -> d@0
        0  reserve e guild:x                                  -> e@100
        0  reserve f guild:y requests=5                       -> f@0
    "

    an_unknown_name_blames_the_narrow_limits_of_its_call(bot()): "
        0  wait a guild:x                                     -> a@0
        0  answered a 429 limit=4f9c after=12000              -> a:settled
        0  reserve b guild:x                                  -> b@12000
        0  reserve c guild:y                                  -> c@0
    "

    a_limit_that_the_call_was_not_charged_to_is_blamed_alone(bot()): "
        0  wait a guild:x                                     -> a@0
        0  answered a 429 limit=messages after=12000          -> a:settled
        0  reserve b guild:x                                  -> b@0
    "

    the_limit_of_the_account_is_what_all_calls_share(bot()): "
        0  wait a guild:x                                     -> a@0
        0  answered a 429 limit=global after=12000            -> a:settled
        0  reserve b guild:y                                  -> b@12000
    "

    a_policy_that_the_file_has_not_is_of_any_limit_of_the_call(ten_per_second()): "
        0  wait a                                             -> a@0
        0  answered a 200 policy=burst left=4 of=10           -> a:settled
        0  levels                                             -> requests=4
        0  wait b                                             -> b@0
        0  answered b 429 policy=burst after=5000 others      -> b:settled
        0  reserve c                                          -> c@5000
    "

    a_refusal_without_a_name_blames_keys_before_what_all_share(bot()): "
        0  wait a guild:x                                     -> a@0
        0  answered a 429 after=20000                         -> a:settled
        0  reserve b guild:x                                  -> b@20000
        0  reserve c guild:y                                  -> c@0
        0  reserve d                                          -> d@0
    "

    a_shared_limit_that_is_used_up_is_blamed_with_them(bot()): "
        0  reserve x requests=50                              -> x@0
        1000  wait y requests=49                              -> y@1000
        1000  wait a guild:x                                  -> a@1000
        1000  answered a 429 after=1500                       -> a:settled
        1000  reserve c guild:y                               -> c@2500
    "

    a_shared_limit_does_not_ask_for_more_than_its_period(bot()): "
        0  reserve x requests=49                              -> x@0
        0  wait a guild:x                                     -> a@0
        0  answered a 429 after=20000                         -> a:settled
        0  reserve c guild:y                                  -> c@0
        0  reserve d guild:x                                  -> d@20000
    "

    narrow_limits_never_stop_what_all_share(bot()): "
        0  reserve x requests=49                              -> x@0
        0  wait a                                             -> a@0
        0  answered a 429 narrow after=500                    -> a:settled
        1000  wait b guild:x                                  -> b@1000
    "

    without_a_narrow_limit_what_all_share_is_blamed(bot()): "
        0  wait a                                             -> a@0
        0  answered a 429 after=5000                          -> a:settled
        0  reserve b guild:y                                  -> b@5000
    "

    /// Calls of one guild are refused for half a minute, and others go on.
    a_key_that_is_refused_again_and_again_stops_no_other_that_is_served(bot()): "
        0     wait a guild:x        -> a@0
        0     answered a 429        -> a:settled
        500   wait y guild:y        -> y@500
        600   answered y 200        -> y:settled
        1000  wait b guild:x        -> b@1000
        1000  answered b 429        -> b:settled
        1000  wait y2 guild:y       -> y2@1000
        1000  answered y2 200       -> y2:settled
        1500  wait y3 guild:y       -> y3@1500
        1500  answered y3 200       -> y3:settled
        3000  wait c guild:x        -> c@3000
        3000  answered c 429        -> c:settled
        3000  wait d guild:y        -> d@3000
        3000  reserve e guild:x     -> e@7000
    "

    a_probe_that_is_refused_again_blames_what_all_share(bot()): "
        0     wait a guild:x                  -> a@0
        0     answered a 429 after=900 others -> a:settled
        900   wait b guild:x                  -> b@900
        900   answered b 429 after=900 others -> b:settled
        900   reserve c guild:y               -> c@1800
        # Its probe decides on the limit that all share.
        1800  answered c 429 after=500 others -> c:settled
        1800  reserve d guild:z               -> d@2300
        2300  answered d 200                  -> d:settled
        2300  reserve e guild:y               -> e@2300
    "

    a_limit_of_more_labels_is_blamed_before_one_of_fewer(
        resource(vec![keyed("tenant", 10.0, 1000, &["tenant"]), keyed("method", 10.0, 1000, &["method", "tenant"])])
    ): "
        0  wait a tenant:x method:read        -> a@0
        0  answered a 429 after=5000          -> a:settled
        0  reserve b tenant:x method:write    -> b@0
        0  reserve c tenant:x method:read     -> c@5000
    "

    /// Windows and token buckets are frozen alike.
    the_pause_of_a_key_doubles_like_that_of_any_limit(
        [Algorithm::TokenBucket, Algorithm::SlidingWindow]
            .map(|kind| resource(vec![counted(kind, keyed("each", 10.0, 1000, &["guild"]))]))
    ): "
        0      reserve a guild:x   -> a@0
        0      answered a 429      -> a:settled
        0      reserve b guild:x   -> b@1000
        1000   answered b 429      -> b:settled
        1000   reserve c guild:x   -> c@3000
        3000   answered c 429      -> c:settled
        3000   reserve d guild:x   -> d@7000
        7000   answered d 200      -> d:settled
        7000   reserve e guild:x   -> e@7000
        7000   answered e 429      -> e:settled
        7000   reserve f guild:x   -> f@8000
    "

    a_refusal_that_was_predicted_blames_no_other_limit(bot()): "
        0      wait a guild:x                -> a@0
        0      answered a 429 after=300000   -> a:settled
        60000  wait b guild:x                -> b@60000
        60000  answered b 429 after=240000   -> b:settled
        60000  wait c guild:y                -> c@60000
        60000  reserve d guild:x             -> d@300000
    "

    /// The worker does not wait for the start that it was told.
    a_probe_that_is_called_early_doubles_the_pause_too(ten_per_second()): "
        0     wait a         -> a@0
        0     answered a 429 -> a:settled
        0     wait b         ->
        960                  -> b@1000
        960   answered b 429 -> b:settled
        960   reserve c      -> c@2960
    "
}

/// Nothing else could keep to what the upstream asks for.
#[test]
fn a_cap_is_blamed_only_if_there_are_no_other_limits() {
    let cap = counted(Algorithm::Concurrency, limit("requests", 10.0, span(60_000)));
    let keyed = keyed("guild", 10.0, 1000, &["guild"]);
    for (limits, start) in [(vec![cap.clone()], 5000), (vec![cap, keyed], 0)] {
        let script = "
            0  wait a                     -> a@0
            0  answered a 429 after=5000  -> a:settled
            0  reserve b                  -> b@START
            ";
        play(&resource(limits), &script.replace("START", &start.to_string()));
    }
}
