//! One script for each rule of the session.

use crate::prelude::*;

scripts! {
    requests_that_wait_for_a_connection_share_messages: r#"
        0 ask 1-70 wait
        5 ask 71 allow
        10 connect
        > 10 ask 0: 64 from 1 since=0
        > 10 ask 1: 7 from 65 since=0
        11 answer 1 {"status":"granted","id":$65,"delay_ms":0,"epoch":1}
        > 11 granted 65 starts 11ms
        12 answer 1 [{"status":"refused","id":$71,"code":"not_in_time","message":"","epoch":1}]
        > 12 refused not_in_time 71
    "#

    settles_travel_together_and_before_asks: r#"
        0 settle 1
        0 settle 2
        0 ask 3 reserve
        1 connect
        > 1 settle [1 used, 2 used]
        > 1 ask 0: 3 since=0
    "#

    a_request_that_does_not_wait_is_asked_again_after_two_seconds_without_a_bound: r#"
        0 connect
        0 ask 1 allow 3000
        > 0 ask 0: 1
        > 2000..2250 ask 1: 1 since=0
        2251 answer 1 {"status":"refused","id":$1,"code":"not_in_time","message":"","retry_after_ms":5,"epoch":1}
        > 2251 refused not_in_time 1
    "#

    a_waiting_request_is_asked_again_after_twelve_seconds_of_silence: r#"
        0 asked 1 wait
        5000 answer 0 {"status":"queued","id":$1,"position":3,"eta_ms":1,"epoch":4}
        16999 wait
        > 17000..18500 ask 1: 1 since=0 epoch=4
        18501 answer 1 {"status":"granted","id":$1,"delay_ms":0,"epoch":4}
        > 18501 granted 1 starts 18.501s
    "#

    the_back_off_without_a_scheduler_grows_until_a_new_leader_comes: r#"
        0 asked 1-2 wait
        1 undelivered 0
        > 6..11 ask 1: [1 *
        20 undelivered 1
        > 25..40 ask 2: [1 *
        50 undelivered 2
        > 55..90 ask 3: [1 *
        100 undelivered 3
        > 105..180 ask 4: [1 *
        200 undelivered 4
        > 205..360 ask 5: [1 *
        400 undelivered 5
        > 405..650 ask 6: [1 *
        1000 undelivered 6
        > 1005..1250 ask 7: [1 *
        1300 undelivered 7
        1300 news {"event":"leader","epoch":1,"leader":"a"}
        > 1300..1320 ask 8: [1 *
        1330 undelivered 8
        > 1335..1340 ask 9: [1 *
    "#

    an_answer_ends_the_growth_of_the_back_off: r#"
        0 asked 1 wait
        1 undelivered 0
        > 6..11 ask 1: 1 *
        20 undelivered 1
        > 25..40 ask 2: 1 *
        50 answer 2 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":1}
        60 ask 2 wait
        > 60 ask 3: 2 epoch=1
        70 undelivered 3
        > 75..80 ask 4: 2 *
    "#

    a_refusal_without_an_id_is_of_the_whole_batch: r#"
        0 asked 1-2 reserve
        0 ask 3 reserve
        > 0 ask 1: 3
        1 answer 0 {"status":"refused","code":"invalid_request","message":"too long","epoch":0}
        > 1 refused invalid_request 1
        > 1 refused invalid_request 2
        > 2000..2250 ask 2: 3 *
    "#

    one_wrong_element_spoils_only_itself: r#"
        0 asked 1-3 reserve
        1 answer 0 [{"status":"granted","id":$1,"delay_ms":0,"epoch":1}, {"status":"refused","id":$2,"code":"unknown_class","message":"","epoch":1}, {"status":"granted","id":$3,"delay_ms":9,"epoch":1}]
        > 1 granted 1 starts 1ms
        > 1 refused unknown_class 2
        > 1 granted 3 starts 10ms
    "#

    after_a_reconnect_everything_pending_is_asked_again: r#"
        0 asked 1-3 wait
        10 disconnect
        11 ask 4 wait
        12 settle 9
        13 cancel 2
        500 connect
        > 500..520 settle [9 used, 2 unused]
        > 500..520 ask 1: [1 *
        530 ask 5 wait
        > 530 ask 2: 5
    "#

    a_new_leader_is_asked_everything_again: r#"
        0 asked 1 wait
        10 answer 0 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":7}
        100 news {"event":"leader","epoch":8,"leader":"b"}
        > 100..120 ask 1: 1 *
        # A leader whose store is empty counts from one: its epoch may be one that is known.
        200 news {"event":"leader","epoch":8,"leader":"c"}
        > 200..220 ask 2: 1 *
        300 news {"event":"leader","epoch":6,"leader":"a"}
        # A scheduler whose store is empty names none yet: it asks for the epoch that is known.
        400 news {"event":"leader","epoch":0,"leader":"d"}
        > 400..420 ask 3: 1 *
        500 answer 3 {"status":"granted","id":$1,"delay_ms":0,"epoch":8}
        > 500 granted 1 starts 500ms
    "#

    /// An epoch so far beyond the wall clock is false. The session ignores it, and goes on to believe
    /// true ones.
    an_event_of_an_epoch_that_cannot_be_is_not_believed: r#"
        0 asked 1 wait
        10 news {"event":"leader","epoch":18446744073709551615,"leader":"x"}
        20 news {"event":"leader","epoch":1180001,"leader":"x"}
        30 news {"event":"freeze","limits":["a"],"for_ms":3000,"epoch":1180001}
        40 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}
        > 40 granted 1 starts 40ms
    "#

    /// A possible epoch is believed, but not for long if no answer confirms it.
    an_epoch_that_no_answer_confirms_is_forgotten: r#"
        0 asked 1 wait
        100 news {"event":"leader","epoch":1180000,"leader":"x"}
        > 100..120 ask 1: 1 *
        1900 answer 1 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":7}
        > 1900..2100 ask 2: 1 *
        3800 answer 2 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":7}
        > 3800..4100 ask 3: 1 *
        5700 answer 3 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":7}
        > 5700..6100 ask 4: 1 *
        7600 answer 4 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":7}
        > 7600..8100 ask 5: 1 *
        10200 answer 5 {"status":"granted","id":$1,"delay_ms":0,"epoch":7}
        > 10200 granted 1 starts 10.2s
        10201 ask 2 wait
        > 10201 ask 6: 2 epoch=7
        10202 answer 6 {"status":"granted","id":$2,"delay_ms":0,"epoch":7}
        > 10202 granted 2 starts 10.202s
    "#

    a_new_leader_shows_in_its_answers_too: r#"
        0 asked 1 wait
        10 answer 0 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":7}
        20 ask 2 wait
        > 20 ask 1: 2 epoch=7
        30 answer 1 {"status":"granted","id":$2,"delay_ms":0,"epoch":8}
        > 30 granted 2 starts 30ms
        > 30..50 ask 2: 1 *
    "#

    a_waiting_request_waits_for_a_full_queue: r#"
        0 connect
        0 ask 1 wait 2000
        > 0 ask 0: 1 until=2000
        0 answer 0 {"status":"refused","id":$1,"code":"queue_full","message":"","retry_after_ms":1000,"epoch":1}
        > 1000..1250 ask 1: 1 *
        1300 answer 1 {"status":"refused","id":$1,"code":"queue_full","message":"","retry_after_ms":1000,"epoch":1}
        > 1300 refused queue_full 1
    "#

    a_resource_that_is_gone_has_no_epoch: r#"
        0 connect
        0 news {"event":"leader","epoch":8,"leader":"b"}
        0 ask 1 wait
        > 0 ask 0: 1 epoch=8
        1 answer 0 {"status":"refused","id":$1,"code":"unknown_resource","message":"","epoch":0}
        > 1 refused unknown_resource 1
    "#

    a_cancelled_request_returns_a_later_permit: r#"
        0 asked 1 wait
        1 cancel 1
        > 1 settle 1 unused
        2 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}
        > 2 settle 1 unused
    "#

    a_request_cancelled_after_its_grant_returns_the_permit: r#"
        0 asked 1 wait
        1 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}
        > 1 granted 1 starts 1ms
        2 cancel 1
        > 2 settle 1 unused
    "#

    a_request_that_was_never_sent_is_cancelled_without_a_message: r#"
        0 ask 1 wait
        0 ask 2 wait 10
        1 cancel 1
        > 10 timed out unheard 2
        20 connect
        60000 wait
    "#

    a_grant_that_comes_too_late_is_given_back: r#"
        0 connect
        0 ask 1 wait 100
        > 0 ask 0: 1 until=100
        1 answer 0 {"status":"queued","id":$1,"position":1,"eta_ms":90,"epoch":1}
        > 100 timed out 1
        > 100 settle 1 unused
        101 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}
        > 101 settle 1 unused
    "#

    a_copy_that_is_granted_after_the_refusal_is_given_back: r#"
        0 asked 1 allow
        > 2000..2250 ask 1: 1 *
        2251 answer 0 {"status":"refused","id":$1,"code":"not_in_time","message":"","epoch":1}
        > 2251 refused not_in_time 1
        2252 answer 1 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}
        > 2252 settle 1 unused
    "#

    an_answer_that_comes_twice_counts_once: r#"
        0 asked 1 wait
        1 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}
        > 1 granted 1 starts 1ms
        2 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}
        60000 wait
    "#

    unreadable_messages_are_ignored: r#"
        0 asked 1 reserve
        1 answer 0 {"status":"granted"
        1 answer 0 [{"status":"granted","id":"of-another","delay_ms":0,"epoch":1}]
        1 answer 0 {"status":"granted","id":$1,"delay_ms":-5,"epoch":1}
        1 answer 0 {"status":"settled","id":$1}
        1 news {"event":"eclipse"}
        1 news x
        > 2000..2250 ask 1: 1 *
    "#

    a_freeze_reaches_the_holders_of_reservations: r#"
        0 connect
        5 news {"event":"freeze","limits":["a"],"for_ms":3000}
        > 5 freeze 3.005s
        6 news {"event":"freeze","limits":["a"],"for_ms":3000,"epoch":4,"why":"a later protocol"}
        > 6 freeze 3.006s
        7 news {"event":"thaw","limits":["a"],"epoch":4}
        8 news {"event":"limits","limits":[{"name":"a","capacity":5,"period_ms":1000}],"epoch":4}
        9 news {"event":"freeze","limits":["a"],"epoch":4}
        9 news {"event":"freeze","limits":["a"],"for_ms":-1,"epoch":4}
    "#

    a_freeze_by_a_leader_of_the_past_voids_nothing: r#"
        0 connect
        0 news {"event":"leader","epoch":5,"leader":"b"}
        1 news {"event":"freeze","limits":["a"],"for_ms":3000,"epoch":4}
        2 news {"event":"freeze","limits":["a"],"for_ms":3000,"epoch":5}
        > 2 freeze 3.002s
        3 news {"event":"leader","epoch":4,"leader":"a"}
        4 news {"event":"freeze","limits":["a"],"for_ms":3000,"epoch":4}
    "#

    a_closed_session_ends_all_waiting_and_settles: r#"
        0 asked 1 wait
        1 undelivered 0
        2 settle 9
        2 close
        > 2 closed 1
        > 2 settle [9 used, 1 unused]
        3 ask 2 wait
        > 3 closed 2
    "#

    settles_that_reached_no_scheduler_are_sent_again_after_a_pause: r#"
        0 by-receipt
        0 settle 1
        0 settle 2
        1 connect
        > 1 settle s0: [1 used, 2 used]
        2 undelivered s0
        > 7..12 settle s1: [1 used, 2 used]
        # A later message has them.
        13 undelivered s0
        60000 wait
    "#

    settles_that_are_not_confirmed_are_sent_again_to_the_next_leader: r#"
        0 by-receipt
        0 connect
        0 settle 1
        > 0 settle s0: 1 used
        1 settle 2
        > 1 settle s1: 2 used
        2 confirm s0
        3 news {"event":"leader","epoch":5,"leader":"b"}
        > 3..23 settle s2: 2 used
        24 confirm s2
        25 news {"event":"leader","epoch":6,"leader":"b"}
        60000 wait
    "#

    /// A scheduler prices sixteen bodies of a message, and a body may be as long as a message.
    a_body_travels_alone: r#"
        0 ask 1 wait price={}
        0 ask 2 wait
        0 ask 3 wait price={}
        0 ask 4-5 wait
        0 connect
        > 0 ask 0: 1
        > 0 ask 1: [2, 4, 5]
        > 0 ask 2: 3
        1 undelivered 0
        1 undelivered 1
        > 6..21 ask 3: 1 *
        > 6..21 ask 4: [2 *
    "#

    asks_are_bounded_and_one_more_says_so: r#"
        0 connect
        0 most-asks 2
        0 ask 1-3 wait
        > 0 too many asks 3: 2
        > 0 ask 0: [1, 2]
        1 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":3}
        > 1 granted 1 starts 1ms
        2 ask 4 wait
        > 2 ask 1: 4 epoch=3
    "#

    permits_that_always_lapse_end_with_the_deadline: r#"
        0 connect
        0 ask 1 wait 40
        > 0 ask 0: 1 until=40
        1 answer 0 {"status":"granted","id":$1,"delay_ms":3,"valid_ms":0.9,"epoch":1}
        > 6..11 settle 1 unused
        > 6..11 ask 1: 1.1 *
        12 answer 1 {"status":"granted","id":$1,"delay_ms":0,"valid_ms":0,"epoch":1}
        > 17..22 settle 1.1 unused
        > 17..22 ask 2: 1.2 *
        > 40 timed out 1
        > 40 settle 1.2 unused
    "#
}

/// Reaches `MAX_ASKS`, the bound of a session whose driver sets no other.
#[test]
fn a_quarter_of_a_million_asks_are_pending_at_most() {
    const BOUND: u64 = 262_144;
    let mut session = Session::new(7);
    let mut ask = |number| {
        let (resource, request) = (ResourceNumber(0), Box::new(PermitRequest::default()));
        let asked = Event::Asked { ask: AskNumber(number), resource, request, deadline: Time::NEVER };
        session.handle(Time::ORIGIN, asked);
        session.poll(Time::ORIGIN)
    };
    assert!((0..BOUND).all(|number| ask(number).is_none()));
    let Some(Command::Complete { ask: refused, result }) = ask(BOUND) else { panic!("one more is refused") };
    assert_eq!((refused, result.unwrap_err()), (AskNumber(BOUND), Denial::TooManyAsks { bound: 262_144 }));
}
