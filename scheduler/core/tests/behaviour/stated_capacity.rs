//! Capacities that the upstream states in its answers.

use crate::prelude::*;
use rampmeter_scheduler_core::command::Note;
use rampmeter_scheduler_core::policy::spec::Follow;

/// A hundred in each second, in windows.
fn windows() -> ResourceSpec {
    let algorithm = Algorithm::FixedWindow(Alignment::Epoch);
    resource(vec![LimitSpec { algorithm, ..limit("requests", 100.0, span(1000)) }])
}

/// A hundred tokens, ten each second.
fn tokens() -> ResourceSpec {
    resource(vec![limit("requests", 100.0, span(10_000))])
}

scripts! {
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

#[test]
fn more_than_written_is_no_change_however_long_it_is_stated() {
    for spec in [windows(), tokens()] {
        let world = play(
            &spec,
            "
            0     reserve a                        -> a@0
            0     answered a 200 left=999 of=1000  -> a:settled
            3000  reserve b                        -> b@3000
            3000  answered b 200 left=999 of=1000  -> b:settled
            6000  reserve c                        -> c@6000
            6000  answered c 200 left=999 of=1000  -> c:settled
            ",
        );
        let is_change = |note: &Note| matches!(note, Note::CapacityChanged(_));
        assert!(!world.notes.iter().any(is_change), "{:?}", world.notes);
    }
}

#[test]
fn the_written_capacity_counts_if_answers_are_not_followed() {
    let never = LimitSpec { learn: Learn::Never, ..windows().limits.remove(0) };
    let written = ResourceSpec { follow: Follow::Written, ..windows() };
    for spec in [resource(vec![never]), written] {
        play(
            &spec,
            "
            0     reserve a                     -> a@0
            0     answered a 200 left=49 of=50  -> a:settled
            # What is left is believed, for the window that it is left of.
            0     levels                        -> requests=49
            1000  levels                        -> requests=100
            ",
        );
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
