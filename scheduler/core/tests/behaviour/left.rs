//! The remaining amounts of a permit's limits, for an HTTP answer with `RateLimit`.

use crate::prelude::*;

scripts! {
    a_bucket_refills_steadily([Algorithm::TokenBucket, Algorithm::LeakyBucket].map(ten)): "
        300  allow a requests=6    -> a@300
        300  left a                -> requests=4+600
        500  left a                -> requests=6+400
        # What is promised is gone, and is made up for first.
        500  reserve b requests=10 -> b@900
        500  left b                -> requests=0+1400
        1900 left b                -> requests=10+0
    "

    a_window_is_full_when_the_next_one_begins(ten(Algorithm::FixedWindow(Alignment::Epoch))): "
        300  allow a requests=6    -> a@300
        300  left a                -> requests=4+700
        1000 left a                -> requests=10+0
    "

    a_sliding_window_is_full_when_the_last_call_has_left_it(ten(Algorithm::SlidingWindow)): "
        300  allow a requests=6    -> a@300
        300  left a                -> requests=4+1000
        600  allow b               -> b@600
        600  left b                -> requests=3+1000
        1300 left b                -> requests=9+300
    "

    places_of_calls_in_flight_have_no_reset(ten(Algorithm::Concurrency)): "
        300  allow a requests=6    -> a@300
        300  left a                -> requests=4
        400  used a                -> a:settled
        400  left a                -> requests=10
    "

    a_quota_that_is_never_reset_tells_no_time(ten(Algorithm::Quota(None))): "
        300  allow a requests=6    -> a@300
        300  left a                -> requests=4
    "

    amounts_are_those_of_the_own_key_and_of_charged_limits(
        resource(vec![
            by("client", limit("requests", 5.0, span(1000))),
            limit("units", 100.0, span(10_000)),
            limit("bytes", 8.0, span(1000)),
        ])
    ): "
        300  allow a client:x requests=3 units=40 -> a@300
        300  allow b client:y                     -> b@300
        300  left a                               -> units=60+4000 requests=2+600
        300  left b                               -> requests=4+200
        300  left stranger                        ->
    "
}
