//! Settles: returned permits, and calls that cost less or more than estimated.

use crate::prelude::*;
use proptest::prelude::*;
use rampmeter_scheduler_core::event::Settle;

scripts! {
    a_permit_given_back_before_its_start_frees_all_of_its_tokens(ten_per_second()): "
        0    reserve a requests=10               -> a@0
        0    reserve b requests=10               -> b@1000
        0    reserve c                           -> c@1100
        0    levels                              -> requests=-11
        0    unused b                            -> b:settled
        0    levels                              -> requests=-1
        # What was promised to c stays as it was; the gap before it is free again.
        0    reserve d requests=9                -> d@900
        0    reserve e                           -> e@1000
        0    reserve f                           -> f@1200
    "

    a_returned_permit_serves_waiting_requests_at_once(ten_per_second()): "
        0    reserve a requests=5                -> a@0
        0    reserve b requests=9                -> b@400
        0    wait c requests=5                   ->
        0    wait d                              ->
        100  unused b                            -> b:settled c@100 d@100
        100  levels                              -> requests=0
    "

    a_lower_actual_cost_returns_the_difference(
        resource(vec![limit("requests", 10.0, span(1000)), limit("units", 100.0, span(1000))])
    ): "
        0     reserve a units=100                -> a@0
        0     wait b units=30                    ->
        100   used a units=60                    -> a:settled b@100
        100   levels                             -> requests=9 units=20
    "

    a_higher_actual_cost_is_debited_below_zero(ten_per_second()): "
        0     reserve a requests=8               -> a@0
        0     wait b requests=4                  ->
        100   used a requests=13                 -> a:settled
        100   levels                             -> requests=-2
        649.999999                               ->
        650                                      -> b@700
        650   reserve c                          -> c@800
    "

    a_call_made_before_its_start_is_spent_when_it_is_told(ten_per_second()): "
        0     reserve a requests=10              -> a@0
        0     reserve b requests=5               -> b@500
        100   used b                             -> b:settled
        100   levels                             -> requests=-4
        100   reserve c                          -> c@600
    "

    /// A call made before its start took from a full bucket. So the unused cost of an earlier call had
    /// run over by then.
    a_call_made_before_its_start_took_from_what_was_there(
        resource(vec![limit("requests", 10.0, span(1000)), limit("pages", 1.0, span(10_000))])
    ): "
        0     reserve a requests=5 pages=1       -> a@0
        0     reserve b requests=5 pages=1       -> b@10000
        2000  used b                             -> b:settled
        2000  levels                             -> requests=5 pages=-0.8
        2000  unused a                           -> a:settled
        2000  levels                             -> requests=5 pages=0
    "

    a_refused_settle_changes_nothing(ten_per_second()): "
        0     reserve a requests=10              -> a@0
        0     unused nobody                      -> nobody:unknown_permit
        0     used nobody                        -> nobody:unknown_permit
        0     extend nobody                      -> nobody:unknown_permit
        0     wait b                             ->
        0     used b                             -> b:invalid_request
        0     extend b                           -> b:invalid_request
        # A settle that was refused is no settle.
        0     extend a                           -> a:extended
        0     levels                             -> requests=0
        0     used a requests=4                  -> a:settled b@0
        0     levels                             -> requests=5
    "
}

/// However long ago the start is, less may return than the bucket had room for, and never more.
#[test]
fn a_bucket_that_was_nearly_full_long_ago_gets_no_more_than_the_rest_back() {
    // The bucket holds 999 right after a, and 998 right after b.
    for (id, least, most) in [("a", 0.0, 1.0), ("b", 1.0, 2.0)] {
        let mut world = World::new(&resource(vec![limit("requests", 1_000.0, span(100_000))]));
        let mut ask = |at: u64, id: &str, cost: f64| {
            world.ask(ms(at), &wish(Mode::Reserve, &[("requests", cost)]).named(id));
        };
        ask(1_000, "a", 6.0);
        ask(1_500, "b", 6.0);
        (0..280).for_each(|number| ask(2_000 + number * 100, &format!("c{number}"), 2.0));
        let level = |world: &mut World| world.scheduler.limit_status(ms(30_000))[0].level;
        let found = level(&mut world);
        world.settle(ms(30_000), id, Outcome::Unused);
        let after = level(&mut world);
        assert!((found + least..=found + most).contains(&after), "{id}: {found}, and {after} then");
    }
}

#[test]
fn a_second_settle_changes_nothing() {
    let first = ["unused a", "used a", "used a requests=2", "used a requests=9"];
    let second = ["unused a", "used a", "used a requests=1", "used a requests=10", "extend a"];
    for (first, second) in first.iter().flat_map(|first| second.map(|second| (first, second))) {
        // A returned permit has no lease to extend.
        let answer = if (*first, second) == ("unused a", "extend a") { "unknown_permit" } else { "settled" };
        let mut world = play(
            &ten_per_second(),
            &format!("0 reserve a requests=5 -> a@0\n 0 reserve b requests=9 -> b@400\n 10 {first} -> a:settled"),
        );
        let level = world.level_micros(Time::ORIGIN + span(10));
        let mut world = play_on(world, &format!("10 {second} -> a:{answer}"));
        assert_eq!(world.level_micros(Time::ORIGIN + span(10)), level, "{first}, {second}");
    }
}

/// The call was made and answered, even if its settle states a unit that no limit counts.
#[test]
fn a_settle_with_a_wrong_unit_counts_except_for_that_unit() {
    let in_flight = counted(Algorithm::Concurrency, limit("calls", 1.0, span(60_000)));
    let in_flight = LimitSpec { unit: name("requests"), ..in_flight };
    let mut world = play(
        &resource(vec![limit("requests", 10.0, span(1000)), in_flight]),
        "
        0     reserve a requests=1               -> a@0
        0     wait b                             ->
        0     used a pages=1 requests=0.5        -> a:unknown_unit b@0
        0     used a                             -> a:settled
        0     levels                             -> requests=8.5 calls=0
        ",
    );
    // The response of the upstream counts even if the settle wants no answer.
    let observation = Some(said(limited(Some(500))));
    let outcome = Outcome::Used(vec![("pages".to_owned(), Amount::ONE)]);
    let settle =
        Settle { to: None, id: PermitId::new("b").unwrap(), outcome, observation, is_throttled: true, call: None };
    world.handle(ms(0), Event::Settle(settle));
    assert!(matches!(world.last_answer(NOBODY), Some(SentAnswer::Refused(Refusal::UnknownUnit { .. }))));
    play_on(world, "0 why next -> requests:frozen+500");
}

/// A token comes every microsecond, and a nanosecond brings a whole number of millionths.
const NANOS_PER_TOKEN: u64 = 1000;

fn bucket(capacity: u64) -> LimitSpec {
    limit("requests", capacity as f64, Span::from_nanos(capacity * NANOS_PER_TOKEN))
}

/// A call: its delay after the previous one, its cost, and the time and kind of its settle.
#[derive(Clone, Debug)]
struct Call {
    pause: u64,
    cost: u64,
    settle: Option<(u64, Actual)>,
}

#[derive(Clone, Copy, Debug)]
enum Actual {
    Unused,
    Cost(u64),
}

fn calls(capacity: u64, dearest: u64) -> impl Strategy<Value = Vec<Call>> {
    let time = || prop_oneof![Just(0), 0..3 * NANOS_PER_TOKEN, 0..20 * NANOS_PER_TOKEN];
    let actual = prop_oneof![1 => Just(Actual::Unused), 2 => (0..=dearest).prop_map(Actual::Cost)];
    let settle = prop::option::weighted(0.7, (time(), actual));
    let call = (time(), 1..=capacity, settle).prop_map(|(pause, cost, settle)| Call { pause, cost, settle });
    prop::collection::vec(call, 1..40)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask,
    Settle(Actual),
}

/// All events, in order.
fn steps(calls: &[Call]) -> Vec<(Time, usize, Step)> {
    let mut now = Time::ORIGIN;
    let mut steps = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        now += Span::from_nanos(call.pause);
        steps.push((now, number, Step::Ask));
        let settle = call.settle.map(|(after, actual)| (now + Span::from_nanos(after), number, Step::Settle(actual)));
        steps.extend(settle);
    }
    steps.sort_by_key(|(at, _, _)| *at);
    steps
}

/// Plays calls, and compares the level after each step with that of a judge that knows the actual
/// usage. Returns the usage at the end.
fn against_the_judge(capacity: u64, calls: &[Call], compare: impl Fn(i128, i128)) -> Vec<(Time, Amount)> {
    let judge = Judge::new(&bucket(capacity));
    let mut world = World::new(&resource(vec![bucket(capacity)]));
    let mut spent: Vec<Option<(Time, Amount)>> = vec![None; calls.len()];
    let tokens = |count: u64| Amount::new(count as f64).unwrap();
    for (now, number, step) in steps(calls) {
        let id = number.to_string();
        match step {
            Step::Ask => {
                let cost = calls[number].cost;
                let asked = world.ask(now, &wish(Mode::Reserve, &[("requests", cost as f64)]).named(&id));
                spent[number] = Some((world.start(asked).unwrap(), tokens(cost)));
            }
            Step::Settle(Actual::Unused) => {
                world.settle(now, &id, Outcome::Unused);
                spent[number] = None;
            }
            Step::Settle(Actual::Cost(actual)) => {
                world.settle(now, &id, Outcome::Used(vec![("requests".to_owned(), tokens(actual))]));
                spent[number] = spent[number].map(|(start, _)| (start.min(now), tokens(actual)));
            }
        }
        let all: Vec<(Time, Amount)> = spent.iter().flatten().copied().collect();
        let (past, promised): (Vec<_>, Vec<_>) = all.into_iter().partition(|(start, _)| *start <= now);
        let promised: i128 = promised.iter().map(|(_, cost)| i128::from(cost.micros())).sum();
        compare(world.level_micros(now), judge.level_micros(&past, now) - promised);
    }
    spent.into_iter().flatten().collect()
}

/// Calls that keep to their permits and to their estimates.
fn honest(calls: &mut [Call]) {
    for call in calls {
        if let Some((after, Actual::Cost(cost))) = &mut call.settle {
            // Long after the latest possible start.
            *after += 2_000 * NANOS_PER_TOKEN;
            *cost = (*cost).min(call.cost);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn no_settle_makes_a_bucket_seem_fuller_than_it_is(
        (capacity, calls) in (1..20_u64).prop_flat_map(|capacity| (Just(capacity), calls(capacity, 2 * capacity)))
    ) {
        against_the_judge(capacity, &calls, |level, truth| assert!(level <= truth, "{level} > {truth}"));
    }

    #[test]
    fn unused_cost_returns_exactly(
        (capacity, mut calls) in (1..20_u64).prop_flat_map(|capacity| (Just(capacity), calls(capacity, capacity)))
    ) {
        honest(&mut calls);
        let spent = against_the_judge(capacity, &calls, |level, truth| assert_eq!(level, truth));
        prop_assert!(Judge::new(&bucket(capacity)).lowest(&spent) >= 0);
    }
}
