//! A relay's clients decide for themselves: they choose ids, and are told what other callers are
//! spared.

use crate::prelude::*;

scripts! {
    answers_find_their_asks_by_the_ids_of_clients: r#"
        0 relay
        0 ask 1 reserve id=of-a
        0 ask 2 reserve
        0 ask 3 wait id=of-b
        0 ask 4 reserve id=of-a
        0 connect
        > 0 ask 0: 4 from a
        1 answer 0 {"status":"queued","id":"of-b","position":1,"eta_ms":5,"epoch":1}
        2 answer 0 {"status":"granted","id":"of-b","delay_ms":0,"epoch":1}
        > 2 granted 3 starts 2ms
        3 answer 0 {"status":"granted","id":"of-nobody","delay_ms":0,"epoch":1}
        4 answer 0 {"status":"granted","id":"of-a","delay_ms":0,"epoch":1}
        > 4 granted 1 starts 4ms
        5 answer 0 [{"status":"refused","id":"of-a","code":"id_in_use","message":"","epoch":1},{"status":"granted","id":$2,"delay_ms":0,"epoch":1}]
        > 5 refused id_in_use 4
        > 5 granted 2 starts 5ms
    "#

    a_late_permit_under_an_id_of_a_client_is_given_back_and_refused: r#"
        0 relay
        0 ask 1 reserve id=of-client
        0 ask 2 reserve
        0 connect
        > 0 ask 0: [client, 2]
        300 answer 0 [{"status":"granted","id":"of-client","delay_ms":0,"at_ms":7000,"epoch":1},{"status":"granted","id":$2,"delay_ms":0,"at_ms":7000,"epoch":1}]
        > 300 refused lapsed 1
        > 305..310 settle [client unused, 2 unused]
        > 305..310 ask 1: 2.1 since=0 epoch=1
        311 answer 1 {"status":"granted","id":$2,"delay_ms":0,"at_ms":7310,"epoch":1}
        > 311 granted 2 starts 311ms
    "#

    /// The wait in a full queue is the client's.
    a_full_queue_is_a_refusal: r#"
        0 relay
        0 ask 1 wait
        0 connect
        > 0 ask 0: 1
        1 answer 0 {"status":"refused","id":$1,"code":"queue_full","message":"","retry_after_ms":1000,"epoch":1}
        > 1 refused queue_full 1
    "#

    a_lost_message_is_sent_again_within_the_second_after_which_clients_are_told: r#"
        0 relay
        0 policy fail 1000
        0 ask 1 wait
        0 connect
        > 0 ask 0: 1
        > 400..450 ask 1: 1 *
        > 800..900 ask 2: 1 *
        > 1000 ask 3: 1 *
        > 1000 unreachable 1 since 1s, *
        > 1000..1260 settle 1 unused
    "#

    /// Reaches `RELAY_WAITING`: until then, the request is where the scheduler said.
    a_request_that_waits_is_left_alone_for_six_seconds: r#"
        0 relay
        0 policy fail 1000
        0 ask 1 wait
        0 connect
        > 0 ask 0: 1
        1 answer 0 {"status":"queued","id":$1,"position":1,"eta_ms":5,"epoch":1}
        6000 wait
        > 6001..6751 ask 1: 1 *
        > 6401..7255 ask 2: 1 *
        > 6801..7707 ask 3: 1 *
        > 7001..7755 ask 4: 1 *
        > 7001..7755 unreachable 1 since 1s, *
        > 7001..8005 settle 1 unused
    "#

    /// A scheduler whose store is silent says so for as long as that lasts.
    a_scheduler_that_may_not_answer_counts_as_silent: r#"
        0 relay
        0 policy fail 1000
        0 ask 1 reserve
        0 connect
        > 0 ask 0: 1
        400 answer 0 {"status":"refused","id":$1,"code":"unavailable","message":"","epoch":1}
        > 405..410 ask 1: 1 *
        > 805..860 ask 2: 1 *
        > 1000 ask 3: 1 *
        > 1000 unreachable 1 since 1s, *
        > 1000..1260 settle 1 unused
    "#

    the_refusal_at_the_deadline_is_the_schedulers_own: r#"
        0 relay
        0 ask 1-2 wait 100
        0 connect
        > 0 ask 0: [1 until=100, 2 until=100]
        1 answer 0 {"status":"queued","id":$1,"position":1,"eta_ms":5,"epoch":1}
        1 answer 0 {"status":"queued","id":$2,"position":2,"eta_ms":5,"epoch":1}
        101 answer 0 {"status":"refused","id":$1,"code":"not_in_time","message":"","epoch":1}
        > 101 refused not_in_time 1
        > 600 ask 1: 2 since=0 until=600 epoch=1
        > 1000..1050 ask 2: 2 since=0 *
        > 1100 timed out 2
        > 1100..1130 settle 2 unused
    "#

    /// What is given back is exactly what may be charged.
    a_client_that_is_gone_gives_back_the_ids_that_it_chose: r#"
        0 relay
        0 ask 1 wait id=of-a
        0 ask 2 wait id=of-b
        0 ask 3 wait
        0 connect
        > 0 ask 0: [a, b, 3]
        1 answer 0 {"status":"refused","id":"of-b","code":"never_fits","message":"","epoch":1}
        > 1 refused never_fits 2
        2 cancel 1
        > 2 settle a unused
        3 close
        > 3 closed 3
        > 3 settle 3 unused
    "#

    /// A worker's session chooses all ids itself, whatever the request has.
    other_sessions_replace_ids: "
        0 ask 1 wait id=of-a
        0 connect
        > 0 ask 0: 1
    "
}

#[test]
fn an_id_of_a_client_is_never_replaced() {
    for code in ["lapsed", "already_settled", "unknown_permit", "id_in_use"] {
        check(&format!(
            r#"
            0 relay
            0 ask 1 wait id=of-client
            0 ask 2 wait
            0 connect
            > 0 ask 0: [client, 2]
            1 answer 0 {{"status":"refused","id":"of-client","code":"{code}","message":"","epoch":1}}
            > 1 refused {code} 1
            9 answer 0 {{"status":"granted","id":$2,"delay_ms":0,"epoch":1}}
            > 9 granted 2 starts 9ms
            "#
        ));
    }
}
