//! Capacities that the upstream states in its answers.

use crate::prelude::*;
use rampmeter_policy::spec::Follow;
use rampmeter_scheduler_core::command::Note;

/// A hundred in each second, in windows.
fn windows() -> ResourceSpec {
    let algorithm = Algorithm::FixedWindow(Alignment::Epoch);
    resource(vec![counted(algorithm, limit("requests", 100.0, span(1000)))])
}

/// A hundred tokens, ten each second.
fn tokens() -> ResourceSpec {
    resource(vec![limit("requests", 100.0, span(10_000))])
}

/// A file that says five times as much as the plan has, for an upstream that tells what is left.
fn five_times() -> ResourceSpec {
    resource(vec![limit("requests", 5_000.0, span(20_000))])
}

scripts! {
    /// The upstream serves two of the four calls.
    the_level_under_a_lower_capacity_is_what_the_answer_says_is_left(five_times()): "
        0     reserve a requests=500                        -> a@0
        1     reserve b requests=500                        -> b@1
        2     reserve c requests=500                        -> c@2
        3     reserve d requests=500                        -> d@3
        # Three calls are on their way.
        100   answered a 200 left=500 of=1000               -> a:settled
        100   levels                                        -> requests=-973.75
        101   answered b 200 left=0 of=1000                 -> b:settled
        101   answered c 429 left=0 of=1000                 -> c:settled
        101   answered d 429 left=0 of=1000                 -> d:settled
        101   levels                                        -> requests=24.299804
        1101  reserve e requests=70                         -> e@1101
    "

    /// What a refusal teaches does not depend on what another limit has left.
    a_refusal_that_tells_of_another_limit_teaches_as_one_that_tells_nothing(tokens()): "
        0     reserve a                        -> a@0
        0     answered a 429 left=9 of=9       -> a:settled
        0     levels                           -> requests=-4
    "

    a_lower_capacity_counts_at_once_and_in_later_windows(windows()): "
        0     reserve a                     -> a@0
        0     answered a 200 left=49 of=50  -> a:settled
        0     levels                        -> requests=49
        1000  levels                        -> requests=50
        1000  reserve b requests=50         -> b@1000
        1000  reserve c                     -> c@2000
    "

    a_bucket_with_half_the_capacity_refills_half_as_fast(tokens()): "
        0     reserve a                     -> a@0
        0     answered a 200 left=49 of=50  -> a:settled
        0     reserve b requests=49         -> b@0
        0     reserve c requests=5          -> c@1000
    "

    the_written_capacity_counts_if_answers_are_not_followed(
        [
            ResourceSpec { follow: Follow::Written, ..windows() },
            resource(vec![LimitSpec { learn: Learn::Never, ..windows().limits.remove(0) }]),
        ]
    ): "
        0     reserve a                     -> a@0
        0     answered a 200 left=49 of=50  -> a:settled
        # What is left is believed, for the window that it is left of.
        0     levels                        -> requests=49
        1000  levels                        -> requests=100
    "

    the_last_stated_capacity_counts(windows()): "
        0     reserve a                      -> a@0
        0     answered a 200 left=49 of=50   -> a:settled
        1000  reserve b                      -> b@1000
        1000  answered b 200 left=79 of=80   -> b:settled
        1000  levels                         -> requests=79
        2000  reserve c                      -> c@2000
        2000  answered c 200 left=99 of=100  -> c:settled
        2000  levels                         -> requests=99
    "
}

#[test]
fn never_more_than_written_and_never_less_than_the_floor() {
    let floor = |mut spec: ResourceSpec| {
        spec.limits[0].learn = Learn::Above(0.25);
        spec
    };
    let script = "
        0      reserve a                       -> a@0
        0      answered a 200 left=999 of=1000 -> a:settled
        1000   levels                          -> requests=100
        1000   reserve b                       -> b@1000
        1000   answered b 200 left=14 of=15    -> b:settled
        100000 levels                          -> requests=25
        100000 reserve c                       -> c@100000
        # So little is the capacity of another limit.
        100000 answered c 200 left=1 of=2      -> c:settled
        200000 levels                          -> requests=25
        ";
    for spec in [windows(), tokens()] {
        let mut world = play(&floor(spec), script);
        assert_eq!(world.scheduler.counters().disbelieved, 2, "more than written is told, and too little");
        assert_eq!(world.scheduler.limit_status(ms(200_000))[0].reported.unwrap().capacity, Some(25.0));
    }
}

/// An answer that states less than a tenth of the written capacity is about another limit, which
/// shows neither stock nor rate of this one.
#[test]
fn what_is_left_of_another_limit_teaches_a_token_bucket_nothing() {
    let world = play(
        &tokens(),
        "
        0     reserve a                  -> a@0
        0     answered a 200 left=8 of=9 -> a:settled
        0     levels                     -> requests=99
        1000  reserve b                  -> b@1000
        1000  answered b 200 left=7 of=9 -> b:settled
        # The bucket was full again.
        1000  levels                     -> requests=99
        1000  reserve c                  -> c@1000
        1000  answered c 200 left=9 reset=60000 -> c:settled
        1000  levels                     -> requests=98
        ",
    );
    assert_eq!(world.scheduler.counters().disbelieved, 3);
}

/// Less than a tenth of what is written, in each answer for a minute.
#[test]
fn what_all_answers_state_for_a_minute_is_believed_whatever_it_is() {
    for (between, level) in [("200 left=9 of=10", 9), ("200", 199), ("200 left=9 of=11", 199)] {
        let script = "
            0      reserve a                     -> a@0
            0      answered a 200 left=9 of=10   -> a:settled
            0      levels                        -> requests=199
            30000  reserve b                     -> b@30000
            30000  answered b BETWEEN            -> b:settled
            60000  reserve c                     -> c@60000
            60000  answered c 200 left=9 of=10   -> c:settled
            60000  levels                        -> requests=LEVEL
            ";
        let spec = resource(vec![limit("requests", 200.0, span(10_000))]);
        play(&spec, &script.replace("BETWEEN", between).replace("LEVEL", &i32::to_string(&level)));
    }
}

/// Above the written capacity, and below it if that is not followed.
#[test]
fn people_are_told_once_of_a_capacity_that_does_not_count() {
    let written = ResourceSpec { follow: Follow::Written, ..tokens() };
    for (spec, states) in [(tokens(), 200), (windows(), 200), (written, 50)] {
        let script = "
            0      reserve a                        -> a@0
            0      answered a 200 left=49 of=STATES -> a:settled
            9999   reserve b                        -> b@9999
            9999   answered b 200 left=49 of=STATES -> b:settled
            10000  reserve c                        -> c@10000
            10000  answered c 200 left=49 of=STATES -> c:settled
            99000  reserve d                        -> d@99000
            99000  answered d 200 left=49 of=STATES -> d:settled
            ";
        let mut world = play(&spec, &script.replace("STATES", &i32::to_string(&states)));
        let told = world.notes.iter().filter(|note| matches!(note, Note::CapacityStated(..))).count();
        assert!(!world.notes.iter().any(|note| matches!(note, Note::CapacityChanged(_))), "{:?}", world.notes);
        let reported = world.scheduler.limit_status(ms(99_000))[0].reported.unwrap();
        assert_eq!((told, reported.states, reported.capacity), (1, Some(f64::from(states)), None));
    }
}
