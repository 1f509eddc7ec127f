//! Budgets: quotas whose calls reserve the most that they may cost, and give back the rest.

use crate::prelude::*;

/// Ten units a day.
fn budget() -> ResourceSpec {
    budget_of(limit("units", 10.0, span(86_400_000)))
}

/// Ten units a day for each team.
fn budget_of_teams() -> ResourceSpec {
    budget_of(LimitSpec { unit: name("units"), ..keyed("units", 10.0, 86_400_000, &["team"]) })
}

fn budget_of(units: LimitSpec) -> ResourceSpec {
    resource(vec![limit("requests", 100.0, span(1000)), LimitSpec { algorithm: Algorithm::Quota(None), ..units }])
}

/// Ten units a day, and one call in flight.
fn budget_in_flight() -> ResourceSpec {
    let one = LimitSpec { algorithm: Algorithm::Concurrency, ..limit("in-flight", 1.0, span(60_000)) };
    let units = LimitSpec { algorithm: Algorithm::Quota(None), ..limit("units", 10.0, span(86_400_000)) };
    resource(vec![LimitSpec { unit: name("requests"), ..one }, units])
}

/// Beyond `dispatch_plan::MAX_PASSED`, so that a crowd of such requests costs each event little.
#[test]
fn behind_many_that_wait_for_settles_small_calls_wait_as_well() {
    let small_call_starts = |waiting: usize| {
        let mut world = World::new(&budget());
        world.ask(ms(0), &wish(Mode::Reserve, &[("units", 4.0)]).named("a"));
        world.settle(ms(1), "a", Outcome::Used(vec![("units".to_owned(), amount(1.0))]));
        world.ask(ms(1), &wish(Mode::Reserve, &[("units", 5.0)]).named("b"));
        for _ in 0..waiting {
            world.ask(ms(2), &wish(Mode::Wait, &[("units", 6.0)]));
        }
        let small = world.ask(ms(3), &wish(Mode::Wait, &[("units", 1.0)]));
        world.start(small).is_some()
    };
    assert!(small_call_starts(31) && !small_call_starts(40));
}

/// `unsettled_calls::MAX_LISTED` and `unsettled_calls::MAX_SEEN`.
#[test]
fn a_record_names_the_latest_five_hundred_of_the_latest_thousand_calls() {
    let spec = resource(vec![LimitSpec { algorithm: Algorithm::Quota(None), ..limit("units", 90_000.0, span(1000)) }]);
    let settles_after_crash = |first: &str, others: usize, settled: bool| {
        let mut world = World::new(&spec);
        world.ask(ms(0), &wish(Mode::Reserve, &[("units", 2.0)]).named("x"));
        world.settle(ms(0), "x", Outcome::Used(vec![("units".to_owned(), amount(1.0))]));
        world.ask(ms(0), &wish(Mode::Reserve, &[("units", 2.0)]).named(first));
        for other in 0..others {
            let id = other.to_string();
            world.ask(ms(0), &wish(Mode::Reserve, &[("units", 2.0)]).named(&id));
            if settled {
                world.settle(ms(0), &id, Outcome::Used(vec![("units".to_owned(), amount(1.0))]));
            }
        }
        let snapshot = world.scheduler.snapshot(ms(1), 0);
        World::restored(&spec, ms(1), ms(1), &snapshot).settle(ms(2), first, Outcome::Unused) == SentAnswer::Settled
    };
    assert!(settles_after_crash("a", 499, false) && !settles_after_crash("a", 500, false));
    assert!(settles_after_crash("a", 999, true) && !settles_after_crash("a", 1_000, true));
}

scripts! {
    a_settle_after_a_crash_gives_back_once_what_a_call_has_not_cost(budget()): "
        0     reserve x units=1     -> x@0
        0     used x units=0        -> x:settled
        0     reserve a units=4     -> a@0
        0     reserve b units=3     -> b@0
        100   restart crash         ->
        200   levels                -> requests=100 units=3
        200   used a units=1        -> a:settled
        200   used a units=1        -> a:settled
        300   levels                -> requests=100 units=6
        400   unused b              -> b:settled
        500   restart crash         ->
        600   used a units=1        -> a:unknown_permit
        600   levels                -> requests=100 units=9
    "

    a_settle_after_a_crash_may_come_before_the_start_of_its_call(budget()): "
        0     reserve x units=1     -> x@0
        0     used x units=0        -> x:settled
        0     reserve y requests=100 -> y@10
        0     reserve a requests=100 units=4 -> a@1010
        0     reserve b requests=100 units=4 -> b@2010
        100   restart crash         ->
        200   used a units=1        -> a:settled
        200   unused b              -> b:settled
        9000  levels                -> requests=100 units=9
    "

    a_call_is_known_after_several_crashes(budget()): "
        0     reserve x units=1     -> x@0
        0     used x units=0        -> x:settled
        0     reserve a units=4     -> a@0
        100   restart crash         ->
        200   reserve b units=3     -> b@200
        300   restart crash         ->
        400   restart               ->
        500   used a units=1        -> a:settled
        500   used b units=1        -> b:settled
        600   levels                -> requests=100 units=8
    "

    a_call_that_was_counted_anew_is_settled_once(budget_in_flight()): "
        0     reserve x units=1     -> x@0
        0     used x units=0        -> x:settled
        0     reserve a units=4     -> a@0
        100   restart crash         ->
        200   extend a anew units=4 -> a:extended
        300   restart               ->
        400   used a units=1        -> a:settled
        500   levels                -> in-flight=0 units=9
    "

    a_settle_after_a_crash_may_cost_more_than_was_reserved(budget()): "
        0     reserve x units=1     -> x@0
        0     used x units=0        -> x:settled
        0     reserve a units=4     -> a@0
        100   restart crash         ->
        200   used a units=5        -> a:settled
        300   levels                -> requests=100 units=5
    "

    a_settle_after_a_crash_in_a_unit_that_nothing_counts_is_refused(budget()): "
        0     reserve x units=1     -> x@0
        0     used x units=0        -> x:settled
        0     reserve a units=4     -> a@0
        100   restart crash         ->
        200   used a unit=1         -> a:unknown_unit
        300   levels                -> requests=100 units=6
    "

    a_settle_after_a_crash_returns_to_the_budget_of_its_team(budget_of_teams()): "
        0     reserve x units=1 team:x -> x@0
        0     used x units=0.5      -> x:settled
        0     reserve a units=4 team:x -> a@0
        100   restart crash         ->
        200   used a units=1        -> a:settled
        300   reserve b units=8.5 team:x -> b@300
        300   allow c units=1 team:x -> c:quota_spent
    "

    a_call_waits_for_settles_after_a_crash(budget()): "
        0     reserve x units=1     -> x@0
        0     used x units=0        -> x:settled
        0     reserve a units=4     -> a@0
        0     reserve b units=4     -> b@0
        100   restart crash         ->
        200   used a units=1        -> a:settled
        300   wait c units=6        ->
        400   used b units=1        -> b:settled c@400
    "

    a_call_that_is_granted_again_gives_back_what_was_granted_last(budget()): "
        0     reserve x units=1     -> x@0
        0     used x units=0        -> x:settled
        0     reserve a units=4     -> a@0
        100   restart crash         ->
        200   reserve a units=4     -> a@200
        300   used a units=1        -> a:settled
        400   restart crash         ->
        500   used a units=1        -> a:unknown_permit
        500   levels                -> requests=100 units=5
    "

    what_was_settled_before_a_crash_gives_nothing_back(budget()): "
        0     reserve a units=4     -> a@0
        50    used a units=2        -> a:settled
        100   restart crash         ->
        200   used a units=1        -> a:unknown_permit
        300   levels                -> requests=100 units=8
    "

    calls_that_cost_what_they_reserve_are_in_no_record(budget()): "
        0     reserve a units=4     -> a@0
        50    used a units=4        -> a:settled
        60    reserve b units=4     -> b@60
        100   restart crash         ->
        200   used b units=1        -> b:unknown_permit
    "

    a_place_in_flight_is_freed_beside(budget_in_flight()): "
        0     reserve x units=1     -> x@0
        0     used x units=0        -> x:settled
        0     reserve a units=4     -> a@0
        100   restart crash         ->
        200   used a anew units=4   -> a:settled
        300   levels                -> in-flight=1 units=6
    "

    a_call_that_fits_only_if_others_cost_less_waits_for_their_settles(budget()): "
        0     reserve a units=4     -> a@0
        100   used a units=1        -> a:settled
        100   reserve b units=5     -> b@100
        200   wait c units=5        ->
        300   used b units=1        -> b:settled c@300
        400   levels                -> requests=100 units=3
    "

    a_smaller_call_does_not_wait_behind_one_that_waits_for_settles(budget()): "
        0     reserve a units=4     -> a@0
        100   used a units=1        -> a:settled
        100   reserve b units=5     -> b@100
        200   wait c units=6        ->
        200   wait d units=2        -> d@200
        300   used b units=1        -> b:settled c@300
    "

    a_call_that_cannot_fit_however_little_the_others_cost_is_refused_at_once(budget()): "
        0     reserve a units=4     -> a@0
        100   used a units=1        -> a:settled
        100   reserve b units=5     -> b@100
        200   wait c units=9        -> c:quota_spent
        200   allow d units=5       -> d:quota_spent
    "

    a_call_is_refused_once_the_others_have_cost_too_much(budget()): "
        0     reserve a units=4     -> a@0
        100   used a units=1        -> a:settled
        100   reserve b units=8     -> b@100
        200   wait c units=3        ->
        300   used b units=7.5      -> b:settled c:quota_spent
        400   wait d units=1.5      -> d@400
    "

    nobody_waits_where_calls_cost_what_they_reserve(budget()): "
        0     reserve a units=4     -> a@0
        100   used a units=4        -> a:settled
        100   reserve b units=5     -> b@100
        200   wait c units=2        -> c:quota_spent
    "

    nobody_waits_for_a_call_that_is_never_settled(budget()): "
        0       reserve a units=4   -> a@0
        100     used a units=1      -> a:settled
        100     reserve b units=8   -> b@100
        200     wait c units=3      ->
        300200                      ->
        600300                      -> c:quota_spent
    "

    each_team_waits_for_its_own_calls(budget_of_teams()): "
        0     reserve a units=4 team:x     -> a@0
        100   used a units=1               -> a:settled
        100   reserve b units=8 team:x     -> b@100
        200   wait c units=3 team:x        ->
        200   wait d units=3 team:y        -> d@200
        300   used b units=1               -> b:settled c@300
    "

    a_wait_ends_at_its_deadline(budget()): "
        0     reserve a units=4            -> a@0
        100   used a units=1               -> a:settled
        100   reserve b units=8            -> b@100
        200   wait c units=3 within=1000      ->
        1201                               -> c:quota_spent
    "
}
