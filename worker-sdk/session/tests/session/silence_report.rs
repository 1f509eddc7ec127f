//! One script for each rule of what people are told while no scheduler answers.

scripts! {
    a_silence_is_told_after_two_seconds_and_then_every_minute: r#"
        0 report-silence
        0 asked 1 wait
        1999 wait
        > 2000 silent for 2s
        3000 ask 2 reserve 200000
        > 3000 ask 1: 2 until=203000
        4999 wait
        > 5000..5250 ask 2: 2 since=3000 until=203000
        5500 cancel 2
        > 5500 settle 2 unused
        > 12000..13500 ask 3: 1 since=0
        13500 cancel 1
        > 13500 settle 1 unused
        60000 ask 3 wait 1000000
        > 60000 ask 4: 3 until=1060000
        61999 wait
        > 62000 silent for 2s
    "#

    an_answer_ends_it_and_that_is_told_too: r#"
        0 report-silence
        0 asked 1 wait
        > 2000 silent for 2s
        2500 answer 0 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":1}
        > 2500 heard again
        3000 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":1}
        > 3000 granted 1 starts 3s
        9000 ask 2 wait
        > 9000 ask 1: 2 epoch=1
        9500 answer 1 {"status":"granted","id":$2,"delay_ms":0,"epoch":1}
        > 9500 granted 2 starts 9.5s
        20000 wait
    "#

    a_request_that_waits_its_turn_is_no_silence: r#"
        0 report-silence
        0 asked 1 wait
        1 answer 0 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":1}
        9000 answer 0 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":1}
        20000 wait
        > 21000..23000 ask 1: 1 since=0 epoch=1
    "#

    every_policy_tells: r#"
        0 report-silence
        0 policy fail 3000
        0 asked 1 wait
        > 2000 silent for 2s
        > 3000 ask 1: 1 since=0
        > 3000 unreachable 1 since 3s, *
        > 3005..3010 settle 1 unused
    "#

    a_lost_connection_is_a_silence: r#"
        0 report-silence
        0 asked 1 wait
        1 answer 0 {"status":"queued","id":$1,"position":1,"eta_ms":1,"epoch":1}
        1000 disconnect
        > 3000..5000 silent for *
    "#
}
