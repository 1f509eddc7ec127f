//! Requests whose cost no limit counts.

use crate::prelude::*;
use rampmeter_policy::spec::Uncounted;
use rampmeter_protocol::cost::Cost;

/// Five of `unit` in ten seconds.
fn five(unit: &str) -> ResourceSpec {
    resource(vec![limit(unit, 5.0, span(10_000))])
}

scripts! {
    the_default_cost_needs_a_limit_that_counts_requests(five("request")): "
        0 allow   a                -> a:unknown_unit
        0 reserve b                -> b:unknown_unit
        0 wait    c                -> c:unknown_unit
        0 allow   d requests=1     -> d:unknown_unit
        0 allow   e request=1      -> e@0
        0 allow   f request=0      -> f@0
        0 levels                   -> request=4
    "

    a_resource_may_say_that_the_default_cost_is_free(ResourceSpec { uncounted: Uncounted::Allow, ..five("pages") }): "
        0 allow a                  -> a@0
        0 allow b words=1          -> b:unknown_unit
        0 allow c pages=5          -> c@0
        0 allow d                  -> d@0
        0 levels                   -> pages=0
    "

    a_shadow_limit_counts_too(
        resource(vec![limit("pages", 5.0, span(10_000)), LimitSpec { shadow: true, ..limit("requests", 5.0, span(10_000)) }])
    ): "
        0 allow a                  -> a@0
    "
}

#[test]
fn the_refusal_names_what_is_counted() {
    let resource = Resource::new(&five("request")).unwrap();
    let refusal = resource.bill(&Labels::new(), Cost::new().iter()).unwrap_err();
    let said = "no limit counts `requests`, of which a request without a `cost` takes one; state a `cost`: \
                limits count `request`";
    assert_eq!(refusal.to_string(), said);
}

scripts! {
    a_waiting_request_is_refused_once_no_limit_counts_it(
        resource(vec![limit("requests", 1.0, span(10_000))]),
        "pages": five("pages")
    ): "
        0    allow a               -> a@0
        0    wait  b progress      -> b#0~10000
        1000 limits pages          -> b:unknown_unit
    "
}
