//! Answers that are delayed on their way. Clients return permits that come late.

use crate::prelude::*;

scripts! {
    no_waiting_request_gets_an_answer_that_would_come_late(ten_per_second()): "
        0     delivered                          ->
        0     reserve first requests=10          -> first@0
        10    wait a                             ->
        40    held-up                            ->
        2000  held-up                            ->
        2000  levels                             -> requests=10
        2000  delivered                          -> a@2000
    "

    what_comes_back_while_answers_are_late_starts_a_request_once_they_are_not(ten_per_second()): "
        0     delivered                          ->
        0     reserve first requests=10          -> first@0
        10    wait a requests=10                 ->
        40    held-up                            ->
        50    unused first                       -> first:settled
        60    delivered                          -> a@60
    "

    /// Clients start such a call on time, because a shorter lateness is taken off the delay.
    a_start_that_is_ahead_stays_when_answers_are_late(ten_per_second()): "
        0     delivered                          ->
        0     reserve a requests=10              -> a@0
        0     delivered                          ->
        10    reserve b requests=5               -> b@500
        110   held-up                            ->
        110   delivered                          ->
        # All tokens of the first 500 ms are for b.
        200   reserve c                          -> c@600
    "

    /// Only what no other call has used meanwhile comes back.
    a_permit_whose_answer_came_late_is_returned_and_asked_for_again(ten_per_second()): "
        0     delivered                          ->
        0     reserve a requests=6               -> a@0
        60    held-up                            ->
        400   unused a                           -> a:settled
        400   levels                             -> requests=10
        400   delivered                          ->
        400   reserve again requests=6           -> again@400
    "
}
