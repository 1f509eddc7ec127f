//! Calls that can be made in several ways, such as by a large model or a small one.

use crate::prelude::*;
use rampmeter_policy::spec::Pattern;
use rampmeter_protocol::bounds::MAX_WAYS;
use rampmeter_protocol::request::PermitRequest;

/// Ten a second of the large model, five of the small one.
fn models() -> ResourceSpec {
    let of = |model: &str, capacity| {
        let matching = [("model".to_owned(), Pattern::Exact(model.to_owned()))].into();
        let applies = Applies { matching, ..Applies::default() };
        LimitSpec { name: name(model), applies, ..limit("requests", capacity, span(1000)) }
    };
    resource(vec![of("large", 10.0), of("small", 5.0)])
}

/// The same by key.
fn by_model() -> ResourceSpec {
    resource(vec![by("model", limit("requests", 10.0, span(1000)))])
}

/// Beyond `bounds::MAX_WAYS`.
#[test]
fn a_request_lists_a_bounded_number_of_other_ways() {
    let of = |count: usize| format!(r#"{{"any_of":[{}]}}"#, vec!["{}"; count].join(","));
    assert!(serde_json::from_str::<PermitRequest<'_>>(&of(MAX_WAYS)).is_ok());
    let error = serde_json::from_str::<PermitRequest<'_>>(&of(MAX_WAYS + 1)).unwrap_err();
    assert!(error.to_string().contains("at most 4 entries, not 5"), "{error}");
}

scripts! {
    the_first_way_that_starts_in_time_is_taken(models()): "
        0    reserve a model:large requests=10                                -> a@0
        0    reserve b model:large worth=200 or=model:small                   -> b@100
        0    reserve c model:large requests=2 worth=200 or=model:small        -> c@0^1
        0    reserve d model:large requests=2 or=model:small                  -> d@0^1
    "

    without_any_in_time_the_earliest_start_decides(models()): "
        0    reserve a model:large requests=10                                -> a@0
        0    reserve b model:small requests=5                                 -> b@0
        0    reserve c model:large requests=4 worth=100 or=model:small,requests:1 worth=100 -> c@200^1
        0    reserve d model:large requests=1 worth=50 or=model:small,requests:3 -> d@100
    "

    a_waiting_request_is_bound_when_it_is_granted(models()): "
        0    wait a model:large requests=10                                   -> a@0
        0    wait b model:small requests=5                                    -> b@0
        0    wait c model:large requests=4 worth=500 or=model:small,requests:1 ->
        # In the first way it starts at 400 ms, which it is worth, although the other starts earlier.
        350                                                                   -> c@400
    "

    /// Although the small model has more stock.
    a_way_that_can_start_now_is_worth_no_wait(models()): "
        0    reserve a model:large requests=9                                 -> a@0
        0    reserve b model:large or=model:small                             -> b@0
        0    reserve c model:large or=model:small                             -> c@0^1
    "

    a_way_that_never_fits_is_left_out(models()): "
        0    reserve a model:large requests=11 worth=9000 or=model:small,requests:1 -> a@0^1
        0    reserve b model:large requests=11 or=model:small,requests:6      -> b:never_fits
        0    reserve c model:large or=model:small,unheard-of:1                -> c:unknown_unit
    "

    ways_with_keys_are_chosen_at_the_arrival(by_model()): "
        0    wait a model:large requests=10                                   -> a@0
        0    wait b model:large worth=50 or=model:small                       -> b@0^1
        0    wait c model:large worth=200 or=model:small                      ->
        50                                                                    -> c@100
    "

    /// Waiting, each counts at both models for half.
    a_checkpoint_covers_a_large_request_with_other_ways(World::fenced(&models(), Time::ORIGIN)): "
        0    checkpoint                                                       ->
        10   wait a model:large requests=9 or=model:small,requests:5          ->
        20   checkpoint                                                       -> a@20
        30   wait b model:large requests=9 or=model:small,requests:5          ->
        40   checkpoint                                                       -> b@40^1
    "
}
