//! Labels that the keys of limits need and that no request carries.

use crate::common::{World, limit, ms, name, play, play_on, resource, span};
use rampmeter_scheduler_core::policy::spec::{Applies, LimitSpec, Pattern, ResourceSpec};

/// One limit for all requests, and one for each client that calls `/export`.
fn each_client() -> ResourceSpec {
    let applies = Applies {
        matching: [("route".to_owned(), Pattern::Exact("/export".to_owned()))].into(),
        key: vec!["client".to_owned(), "region".to_owned()],
        ..Applies::default()
    };
    let each = LimitSpec { name: name("each"), applies, ..limit("requests", 5.0, span(1000)) };
    resource(vec![limit("requests", 100.0, span(1000)), each])
}

/// The missing labels of the limit `each`.
fn missing(world: &mut World) -> Vec<String> {
    world.scheduler.limit_status(ms(0)).remove(1).missing_labels
}

#[test]
fn a_label_that_no_request_carries_is_missing_once_a_request_would_need_it() {
    let mut world = play(&each_client(), "0 allow a route:/list -> a@0");
    assert_eq!(missing(&mut world), [""; 0], "the limit is for other requests");
    world = play_on(world, "0 allow b route:/export region:eu -> b@0");
    assert_eq!(missing(&mut world), ["client"]);
    world = play_on(world, "0 allow c client:ada -> c@0");
    assert_eq!(missing(&mut world), [""; 0], "a request without it is no mistake");
}

#[test]
fn ten_requests_without_a_label_are_noticed_once() {
    let mut world = World::new(&each_client());
    for number in 1..=30 {
        world = play_on(world, &format!("0 allow a{number} route:/export -> a{number}@0"));
        assert_eq!(world.noticed.len(), usize::from(number >= 10), "{number}");
    }
    assert_eq!(missing(&mut world), ["client", "region"]);
}

#[test]
fn new_limits_are_watched_anew() {
    let keyed = |label: &str| {
        let applies = Applies { key: vec![label.to_owned()], ..Applies::default() };
        resource(vec![LimitSpec { applies, ..limit("requests", 5.0, span(1000)) }])
    };
    let sets = [("by-team", keyed("team"))];
    let script = "
        0 allow a client:ada       -> a@0
        0 limits by-team           ->
        0 allow b client:ada       -> b@0
    ";
    let mut world = crate::common::play_under(&keyed("client"), &sets, script);
    assert_eq!(world.scheduler.limit_status(ms(0)).remove(0).missing_labels, ["team"]);
}
