//! A session renews the lease of a call until the call is over, and no longer.

use crate::prelude::*;

scripts! {
    a_lease_is_renewed_three_times_in_its_time_to_live: r#"
        0 asked 1 wait
        10 answer 0 {"status":"granted","id":$1,"delay_ms":20,"lease_ms":3000,"epoch":1}
        > 10 granted 1 starts 30ms
        > 1030 renew 1: 1
        1040 answer 1 {"status":"settled","id":$1}
        > 2030 renew 2: 1
        > 3030 renew 3: 1
        3500 settle 1
        > 3500 settle 1 used asked
        60000 wait
    "#

    a_renewal_names_the_account_of_the_call: r#"
        0 asked 1 wait
        10 answer 0 {"status":"granted","id":$1,"delay_ms":0,"lease_ms":3000,"account":"team-b","epoch":1}
        > 10 granted 1 starts 10ms
        > 1010 renew 1: 1 {"labels":{"account":"team-b"}}
        1040 answer 1 {"status":"settled","id":$1}
        1500 settle 1
        > 1500 settle 1 used asked
    "#

    a_settle_after_the_end_of_a_lease_holds_no_place_any_more: r#"
        0 asked 1 wait
        10 answer 0 {"status":"granted","id":$1,"delay_ms":20,"lease_ms":3000,"epoch":1}
        > 10 granted 1 starts 30ms
        > 1030 renew 1: 1
        > 2030 renew 2: 1
        > 3030 renew 3: 1
        3030 settle 1
        > 3030 settle 1 used
    "#

    a_permit_without_a_lease_is_not_renewed: r#"
        0 asked 1-2 wait
        10 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}
        > 10 granted 1 starts 10ms
        10 answer 0 {"status":"granted","id":$2,"delay_ms":0,"lease_ms":0,"epoch":1}
        > 10 granted 2 starts 10ms
        60000 wait
    "#

    renewals_that_are_due_together_travel_together: r#"
        0 connect
        0 ask 1-70 wait
        > 0 ask 0: 64 from 1
        > 0 ask 1: 6 from 65
        10 answer 0 [{"status":"granted","id":$1,"delay_ms":0,"lease_ms":300,"epoch":1},{"status":"granted","id":$2,"delay_ms":0,"lease_ms":300,"epoch":1}]
        > 10 granted 1 starts 10ms
        > 10 granted 2 starts 10ms
        > 110 renew 2: [1, 2]
        150 settle 2
        > 150 settle 2 used asked
        > 210 renew 3: 1
        220 settle 1
        > 220 settle 1 used asked
        3000 wait
    "#

    a_call_that_may_have_been_granted_earlier_is_renewed_at_once: r#"
        0 asked 1 allow
        > 2000..2250 ask 1: 1 since=0
        2260 answer 1 {"status":"granted","id":$1,"delay_ms":0,"lease_ms":3000,"epoch":1}
        > 2260 granted 1 starts 2.26s
        > 2260 renew 2: 1
        > 3260 renew 3: 1
    "#

    all_renewals_wait_for_a_connection: r#"
        0 asked 1 wait
        10 answer 0 {"status":"granted","id":$1,"delay_ms":0,"lease_ms":3000,"epoch":1}
        > 10 granted 1 starts 10ms
        500 disconnect
        9000 connect
        > 9000 renew 1: 1
        > 10000 renew 2: 1
    "#

    a_refused_renewal_is_reported_and_repeated: r#"
        0 asked 1 wait
        10 answer 0 {"status":"granted","id":$1,"delay_ms":0,"lease_ms":3000,"epoch":1}
        > 10 granted 1 starts 10ms
        > 1010 renew 1: 1
        1020 answer 1 {"status":"refused","id":$1,"code":"not_in_time","message":"too late","epoch":1}
        > 1020 unrenewed 1 not_in_time
        > 2010 renew 2: 1
    "#

    a_lost_lease_is_reported_once: r#"
        0 asked 1 wait
        10 answer 0 {"status":"granted","id":$1,"delay_ms":0,"lease_ms":3000,"epoch":1}
        > 10 granted 1 starts 10ms
        > 1010 renew 1: 1
        1020 answer 1 {"status":"refused","id":$1,"code":"unknown_permit","message":"","epoch":1}
        > 1020 unrenewed 1 unknown_permit
        60000 wait
    "#

    renewals_end_with_the_client: r#"
        0 asked 1 wait
        10 answer 0 {"status":"granted","id":$1,"delay_ms":0,"lease_ms":3000,"epoch":1}
        > 10 granted 1 starts 10ms
        500 close
        60000 wait
    "#

    no_lease_is_renewed_where_that_is_not_wanted: r#"
        0 by-hand
        0 asked 1 wait
        10 answer 0 {"status":"granted","id":$1,"delay_ms":0,"lease_ms":3000,"epoch":1}
        > 10 granted 1 starts 10ms
        60000 wait
    "#

    /// A successor counts the call in flight by this cost.
    a_renewal_names_the_cost_that_the_scheduler_has_computed: r#"
        0 asked 1 wait price={}
        1 answer 0 {"status":"granted","id":$1,"delay_ms":0,"lease_ms":300,"cost":{"processing-units":2.5},"epoch":1}
        > 1 granted 1 starts 1ms
        > 101 renew 1: 1 {"cost":{"processing-units":2.5}}
    "#

    a_permit_that_goes_back_is_renewed_no_more: r#"
        0 asked 1-2 wait
        10 answer 0 [{"status":"granted","id":$1,"delay_ms":0,"lease_ms":3000,"epoch":1},{"status":"granted","id":$2,"delay_ms":0,"lease_ms":3000,"epoch":1}]
        > 10 granted 1 starts 10ms
        > 10 granted 2 starts 10ms
        500 cancel 1
        > 500 settle 1 unused asked
        500 settle 2
        > 500 settle 2 used asked
        60000 wait
    "#

    /// Cost and labels let a scheduler that did not grant the permit count the call.
    a_renewal_repeats_cost_and_labels_of_the_request: r#"
        0 connect
        0 ask 1 wait guild=g7
        > 0 ask 0: 1
        10 answer 0 {"status":"granted","id":$1,"delay_ms":0,"lease_ms":30,"epoch":1}
        > 10 granted 1 starts 10ms
        > 60 renew 1: 1 {"labels":{"guild":"g7"}}
    "#
}

/// No scheduler, one that hands over, and a deposed one: another leader is there in a moment.
#[test]
fn an_undelivered_renewal_is_repeated_soon() {
    let unavailable = r#"{"status":"refused","id":$1,"code":"unavailable","message":"","epoch":7}"#;
    let past = r#"{"status":"refused","id":$1,"code":"unknown_permit","message":"","epoch":6}"#;
    for loss in ["undelivered 1".to_owned(), format!("answer 1 {unavailable}"), format!("answer 1 {past}")] {
        check(&format!(
            r#"
            0 asked 1 wait
            10 answer 0 {{"status":"granted","id":$1,"delay_ms":0,"lease_ms":3000,"epoch":7}}
            > 10 granted 1 starts 10ms
            > 1010 renew 1: 1
            1011 {loss}
            > 1136..1261 renew 2: 1
            1270 answer 2 {{"status":"settled","id":$1}}
            > 2136..2261 renew 3: 1
            "#
        ));
    }
}
