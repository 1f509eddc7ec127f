//! One script for each rule of what happens while no scheduler answers.

use crate::prelude::*;

scripts! {
    a_policy_also_applies_to_waiting_requests: r#"
        0 ask 1 wait
        100 policy fail 2000
        1999 wait
        > 2000 unreachable 1 since 2s, *
    "#

    all_waiting_requests_fail_as_unreachable: r#"
        0 policy fail 2000
        0 asked 1 wait
        500 ask 2 wait 9000
        > 500 ask 1: 2 until=9500
        1999 wait
        > 2000 ask 2: 1 since=0
        > 2000 unreachable 1 since 2s, *
        > 2000 unreachable 2 since 2s, *
        > 2005..2010 settle [1 unused, 2 unused]
        60000 wait
    "#

    a_request_to_an_unreachable_resource_fails_at_once: r#"
        0 policy fail 500
        0 asked 1 reserve
        1 undelivered 0
        > 6..11 ask 1: 1 since=0
        12 undelivered 1
        > 17..32 ask 2: 1 since=0
        499 wait
        > 500 ask 3: 1 since=0
        > 500 unreachable 1 since 500ms, *
        > 505..540 settle 1 unused
        600 ask 2 allow
        > 600 ask 4: 2
        > 600 unreachable 2 since 600ms, *
        > 605..680 settle 2 unused
        700 disconnect
        750 ask 3 wait
        > 750 unreachable 3 since 750ms, *
    "#

    an_event_ends_it_unless_it_is_of_the_past: r#"
        0 connect
        0 policy fail 2000
        0 news {"event":"leader","epoch":7,"leader":"a"}
        0 ask 1 wait
        > 0 ask 0: 1 epoch=7
        > 2000 ask 1: 1 since=0 epoch=7
        > 2000 unreachable 1 since 2s, *
        > 2005..2010 settle 1 unused
        2020 news {"event":"leader","epoch":6,"leader":"b"}
        2030 answer 1 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":6}
        > 2030 settle 1 unused
        2040 ask 2 wait
        > 2040 ask 2: 2 epoch=7
        > 2040 unreachable 2 since 2.04s, *
        > 2045..2060 settle 2 unused
        2070 news {"event":"limits","limits":[{"name":"a","capacity":5,"period_ms":1000}]}
        2080 ask 3 wait 100
        > 2080 ask 3: 3 until=2180 epoch=7
        > 2180 timed out unheard 3
        > 2180 settle 3 unused
    "#

    a_queued_request_is_sent_again_before_the_resource_counts_as_unreachable: r#"
        0 policy fail 2000
        0 asked 1-2 wait
        1 answer 0 [{"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":1}, {"status":"queued","id":$2,"position":1,"eta_ms":1,"epoch":1}]
        > 2001 ask 1: 1 since=0 epoch=1
        2002 answer 1 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":1}
        > 4002 ask 2: 1 since=0 epoch=1
        6001 wait
        > 6002 ask 3: 1 since=0 epoch=1
        > 6002 unreachable 1 since 2s, *
        > 6002 unreachable 2 since 2s, *
        > 6007..6012 settle [1 unused, 2 unused]
    "#

    a_postponed_request_is_owed_no_answer: r#"
        0 policy fail 2000
        0 asked 1 wait
        1 answer 0 {"status":"refused","id":$1,"code":"queue_full","message":"","retry_after_ms":8000,"epoch":1}
        7999 wait
        > 8001..10001 ask 1: 1 since=0 epoch=1
        > 10001..12001 ask 2: 1 since=0 epoch=1
        > 10001..12001 unreachable 1 since 2s, *
        > 10001..12011 settle 1 unused
    "#

    a_new_leader_owes_an_answer_to_a_postponed_request: r#"
        0 policy fail 2000
        0 asked 1 wait
        1 answer 0 {"status":"refused","id":$1,"code":"queue_full","message":"","retry_after_ms":8000,"epoch":1}
        3000 news {"event":"leader","epoch":2,"leader":"b"}
        > 3000..3020 ask 1: 1 since=0 epoch=2
        4999 wait
        > 5000 ask 2: 1 since=0 epoch=2
        > 5000 unreachable 1 since 2s, *
        > 5005..5010 settle 1 unused
    "#

    a_disconnected_client_finds_resources_unreachable: r#"
        0 policy fail 2000
        0 asked 1 wait
        1 answer 0 {"status":"refused","id":$1,"code":"queue_full","message":"","retry_after_ms":8000,"epoch":1}
        2500 disconnect
        4499 wait
        > 4500 unreachable 1 since 2s, *
        4800 disconnect
        5000 connect
        > 5000..5079 settle 1 unused
    "#

    an_unused_resource_is_not_known_to_be_unreachable: r#"
        0 policy fail 2000
        0 ask 1 wait
        > 2000 unreachable 1 since 2s, *
        3900 ask 2 wait
        > 3900 unreachable 2 since 3.9s, *
        5901 ask 3 wait
        7900 wait
        > 7901 unreachable 3 since 2s, *
    "#

    permits_at_the_safe_rate_come_in_the_order_of_asking: r#"
        0 policy rate 2000 10 1000
        0 ask 1-2 wait
        0 ask 3 reserve
        1999 wait
        > 2000..2100 granted 1 locally
        > 2100..2200 granted 2 locally
        > 2200..2300 granted 3 locally
        2500 ask 4-5 wait
        > 2500 granted 4 locally
        > 2600 granted 5 locally
        60000 connect
        70000 wait
    "#

    a_local_grant_returns_the_request_to_schedulers_that_may_know_it: r#"
        0 policy rate 2000 10 1000
        0 asked 1 wait
        > 2000 ask 1: 1 since=0
        > 2000..2100 granted 1 locally
        > 2005..2100 settle 1 unused
        2110 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}
        > 2110 settle 1 unused
        2300 ask 2 wait
        > 2300 ask 2: 2 epoch=1
        2400 cancel 2
        > 2400 settle 2 unused
        60000 wait
    "#

    a_scheduler_that_is_back_grants_at_once_and_alone: r#"
        0 connect
        0 policy rate 2000 1 1000
        0 news {"event":"leader","epoch":1,"leader":"a"}
        0 ask 1-2 wait
        > 0 ask 0: [1 *
        > 2000 ask 1: 1 since=0 epoch=1
        > 2000..3000 granted 1 locally
        > 2005..3000 settle 1 unused
        3000 news {"event":"limits","limits":[{"name":"a","capacity":5,"period_ms":1000}]}
        > 3000..3047 ask 2: 2 since=0 epoch=1
        3190 answer 2 {"status":"queued","id":$2,"position":1,"eta_ms":1,"epoch":1}
        4000 ask 3 wait
        > 4000 ask 3: 3 epoch=1
        4100 answer 3 {"status":"granted","id":$2,"delay_ms":0,"epoch":1}
        > 4100 granted 2 starts 4.1s
        4100 answer 3 {"status":"granted","id":$3,"delay_ms":0,"epoch":1}
        > 4100 granted 3 starts 4.1s
        60000 wait
    "#

    a_scheduler_that_comes_and_goes_makes_the_safe_rate_no_faster: r#"
        0 policy rate 2000 1 60000
        0 ask 1-2 wait
        > 2000..62000 granted 1 locally
        62001 news {"event":"limits","limits":[{"name":"a","capacity":5,"period_ms":1000}]}
        62002 cancel 2
        62003 ask 3 wait
        62004 news {"event":"limits","limits":[{"name":"a","capacity":5,"period_ms":1000}]}
        > 64004..122000 granted 3 locally
    "#

    mode_allow_is_granted_now_or_refused_at_the_safe_rate: r#"
        0 policy rate 2000 10 1000
        0 ask 1 allow
        > 2000 unreachable 1 since 2s, *
        2200 ask 2 allow
        > 2200 granted 2 locally
        2210 ask 3 wait
        2210 ask 4 allow
        > 2210 unreachable 4 since 2.21s, to come back in 190ms
        > 2300 granted 3 locally
    "#

    a_deadline_counts_at_the_safe_rate_too: r#"
        0 policy rate 2000 1 1000
        0 ask 1 wait
        > 2000..3000 granted 1 locally
        3900 ask 2 wait
        > 3900..4000 granted 2 locally
        4000 ask 3 wait 100
        4000 ask 4 wait
        > 4100 timed out unheard 3
        > 4900..5000 granted 4 locally
    "#

    a_freeze_counts_at_the_safe_rate_too: r#"
        0 connect
        0 policy rate 2000 10 1000
        0 news {"event":"freeze","limits":["a"],"for_ms":5000}
        > 0 freeze 5s
        0 ask 1-2 wait
        > 0 ask 0: [1, 2]
        > 2000 ask 1: 1 since=0
        > 4000 ask 2: 1 since=0
        > 5000..5100 granted 1 locally
        > 5000..5100 settle 1 unused
        > 5100..5200 granted 2 locally
        > 5100..5200 settle 2 unused
    "#

    a_settle_goes_to_the_scheduler_alone: r#"
        0 policy rate 2000 10 1000
        0 asked 1 wait
        1 disconnect
        > 2000..2100 granted 1 locally
        2200 ask 2 wait
        > 2200 granted 2 locally
        4000 connect
        > 4000..4063 settle 1 unused
        60000 wait
    "#
}

/// Requests that are refused in one moment come back over half a second, when the client tries
/// again.
#[test]
fn no_request_comes_back_too_early() {
    let pauses: Vec<Span> = (0..50).map(pause_of).collect();
    let (least, most) = (pauses.iter().min().expect("fifty"), pauses.iter().max().expect("fifty"));
    assert!(*least >= Span::from_secs(2) && *most <= Span::from_millis(2500), "{least} to {most}");
    assert!(most.saturating_sub(*least) > Span::from_millis(250), "{least} to {most}");
}

fn pause_of(seed: u64) -> Span {
    let (mut session, ask, resource) = (Session::new(seed.into()), AskNumber(1), ResourceNumber(0));
    session.set_unreachable(resource, Unreachable::Fail { after: Patience::default() });
    let request = Box::new(PermitRequest::default());
    session.handle(Time::ORIGIN, Event::Asked { ask, resource, request, deadline: Time::NEVER });
    match session.poll(Time::ORIGIN + Span::from_secs(2)) {
        Some(Command::Complete { result: Err(Denial::Unreachable { retry_after, .. }), .. }) => retry_after,
        other => panic!("{other:?}"),
    }
}

/// An answer to a request that was given up.
#[test]
fn any_answer_ends_it() {
    for (answer, returned) in [
        (r#"1 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}"#, "> 2100 settle 1 unused"),
        (r#"1 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":1}"#, "> 2100 settle 1 unused"),
        (r#"0 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}"#, "> 2100 settle 1 unused"),
        (r#"1 {"status":"refused","id":$1,"message":"","code":"not_in_time","epoch":1}"#, ""),
        (r#"1 {"status":"refused","id":$1,"message":"","code":"unavailable","epoch":1}"#, ""),
        (r#"1 {"status":"refused","id":$1,"message":"","code":"unknown_resource","epoch":0}"#, ""),
    ] {
        check(&format!(
            r#"
            0 policy fail 2000
            0 asked 1 wait
            > 2000 ask 1: 1 since=0
            > 2000 unreachable 1 since 2s, *
            > 2005..2010 settle 1 unused
            2100 answer {answer}
            {returned}
            2200 ask 2 wait 100
            > 2200 ask 2: 2 *
            > 2300 timed out unheard 2
            > 2300 settle 2 unused
            "#
        ));
    }
}
