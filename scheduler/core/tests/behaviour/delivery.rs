//! Answers that are delayed on their way. Their calls begin late, when the refill after their
//! starts is promised to others.

use crate::common::{limit, play, resource, span, ten_per_second};
use rampmeter_scheduler_core::policy::spec::{Algorithm, Alignment, LimitSpec};

#[test]
fn grants_during_a_delay_of_answers_are_charged_when_it_ends() {
    play(
        &ten_per_second(),
        "
        0     delivered                          ->
        0     reserve heard requests=2           -> heard@0
        0     delivered                          ->
        10    reserve a requests=6               -> a@10
        10    reserve b requests=2               -> b@10
        500   used b                             -> b:settled
        2000  levels                             -> requests=10
        2000  held-up                            ->
        2000  levels                             -> requests=4
        # A repeated request is told a start that is paid for now.
        2040  reserve a                          -> a@2040
        2500  held-up                            ->
        2500  levels                             -> requests=4
        2500  delivered                          ->
        3000  held-up                            ->
        3000  levels                             -> requests=9
        ",
    );
}

#[test]
fn no_waiting_request_gets_an_answer_that_would_come_late() {
    play(
        &ten_per_second(),
        "
        0     delivered                          ->
        0     reserve first requests=10          -> first@0
        10    wait a                             ->
        40    held-up                            ->
        2000  held-up                            ->
        2000  levels                             -> requests=0
        2000  delivered                          ->
        2050                                     -> a@2100
        ",
    );
}

#[test]
fn a_start_that_is_ahead_is_put_off_by_as_much() {
    play(
        &ten_per_second(),
        "
        0     delivered                          ->
        0     reserve a requests=10              -> a@0
        0     delivered                          ->
        10    reserve b requests=5               -> b@500
        110   held-up                            ->
        110   delivered                          ->
        200   reserve b                          -> b@600
        600   reserve c requests=2               -> c@700
        ",
    );
}

#[test]
fn a_call_that_begins_in_another_window_counts_in_that_window() {
    let windows =
        LimitSpec { algorithm: Algorithm::FixedWindow(Alignment::Epoch), ..limit("requests", 10.0, span(1000)) };
    let sliding = LimitSpec { algorithm: Algorithm::SlidingWindow, ..limit("requests", 10.0, span(1000)) };
    for (limit, free_in) in [(windows, 50), (sliding, 1000)] {
        play(
            &resource(vec![limit]),
            &format!(
                "
            0     delivered                      ->
            900   allow a requests=8             -> a@900
            1950  levels                         -> requests=10
            1950  held-up                        ->
            1950  levels                         -> requests=2
            1950  delivered                      ->
            1950  allow b requests=3             -> b:not_in_time+{free_in}
            "
            ),
        );
    }
}
