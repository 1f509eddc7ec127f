//! Deadlines, cancelled requests, and the order of the requests that stay.

use crate::prelude::*;

scripts! {
    allow_is_now_or_refused_and_says_when_to_return(ten_per_second()): "
        0           allow a requests=10          -> a@0
        0           allow b requests=3           -> b:not_in_time+300
        0           levels                       -> requests=0
        299.999999  allow b requests=3           -> b:not_in_time+0.000001
        300         allow b requests=3           -> b@300
    "

    /// Otherwise one array of requests could reserve all starts of the next day. Waiting requests
    /// reserve nothing.
    starts_are_reserved_no_farther_ahead_than_the_bound(
        ResourceSpec { max_ahead: Some(span(500)), ..ten_per_second() }
    ): "
        0           reserve a requests=10        -> a@0
        0           reserve b requests=5         -> b@500
        0           reserve c                    -> c:not_in_time+100
        0           reserve c within=10000       -> c:not_in_time+100
        # Its own bound is nearer: its next start is told.
        0           reserve c within=300         -> c:not_in_time+600
        0           allow c                      -> c:not_in_time+600
        0           wait c                       ->
        0           levels                       -> requests=-5
        100         reserve d                    -> d:not_in_time+100
        600                                      -> c@600
    "

    allow_does_not_pass_waiting_requests(ten_per_second()): "
        0           reserve a requests=10        -> a@0
        0           wait b requests=5            ->
        # There are two tokens, but b waits for five, and there is a sixth 600 ms after the beginning.
        200         allow c                      -> c:not_in_time+400
        450                                      -> b@500
        599.999999  allow c                      -> c:not_in_time+0.000001
        600         allow c                      -> c@600
    "

    allow_yields_to_requests_that_still_wait_and_to_no_others(ten_per_second()): "
        0           reserve a requests=10        -> a@0
        0           wait b requests=5            ->
        0           wait c requests=2            ->
        0           wait d requests=9            ->
        10          unused d                     -> d:unknown_permit d:settled
        450                                      -> b@500
        # Half a token is owed, c waits for two, and this is one more.
        450         allow e                      -> e:not_in_time+350
        650                                      -> c@700
    "

    a_reservation_starts_in_time_or_is_refused(ten_per_second()): "
        0  reserve a requests=10                 -> a@0
        0  reserve b requests=3 within=299       -> b:not_in_time+300
        0  levels                                -> requests=0
        0  reserve b requests=3 within=300       -> b@300
    "

    a_request_that_can_not_be_in_time_is_refused_at_once(with_bulk(ten_per_second(), 0.0)): "
        0   reserve a requests=10                -> a@0
        0   wait b within=99                     -> b:not_in_time+100
        0   levels                               -> requests=0
        0   wait c class=bulk within=300         ->
        10  wait d requests=5                    -> c:not_in_time+590
        450                                      -> d@500
    "

    a_request_made_late_by_urgent_ones_is_refused_on_arrival(with_bulk(ten_per_second(), 0.0)): "
        0   reserve a requests=10                -> a@0
        0   wait b requests=5                    ->
        0   wait c class=bulk within=200         -> c:not_in_time+600
        450                                      -> b@500
    "

    a_request_is_refused_when_its_deadline_passes_in_the_queue(ten_per_second()): "
        0           reserve a requests=10        -> a@0
        0           wait b requests=5            ->
        0           wait c within=200            ->
        0           wait d                       ->
        200                                      ->
        # c would have to stand behind b again: 5 + 1 tokens are there 600 ms after the beginning.
        200.000001                               -> c:not_in_time+399.999999
        450                                      -> b@500
        550                                      -> d@600
    "

    a_start_at_the_deadline_is_in_time(ten_per_second()): "
        0    reserve a requests=10               -> a@0
        0    wait b within=100                   ->
        0    wait c within=150                   ->
        # c could start at 200 ms at the earliest, and that is known when b is out of the way.
        50                                       -> b@100 c:not_in_time+150
    "

    a_refused_request_changes_nothing(with_bulk(ten_per_second(), 0.2)): "
        0    reserve a requests=10               -> a@0
        0    wait b class=bulk                   ->
        0    allow c                             -> c:not_in_time+100
        0    reserve c within=50                 -> c:not_in_time+100
        0    wait c within=50                    -> c:not_in_time+100
        0    allow c class=bulk                  -> c:not_in_time+400
        # Not even its id is taken.
        0    unused c                            -> c:unknown_permit
        250                                      -> b@300
        300  levels                              -> requests=2
    "

    cancelling_while_waiting_is_free_and_helps_the_next(ten_per_second()): "
        0    reserve a requests=10               -> a@0
        0    wait b requests=10                  ->
        0    wait c                              ->
        100  unused b                            -> b:unknown_permit b:settled c@100
        100  levels                              -> requests=0
    "

    a_permit_given_back_after_its_start_helps_the_next(ten_per_second()): "
        0    reserve a requests=10               -> a@0
        0    wait b requests=5                   ->
        200  unused a                            -> a:settled b@200
        200  levels                              -> requests=5
    "

    a_class_is_served_first_come_first_served(ten_per_second()): "
        0    reserve a requests=10               -> a@0
        0    wait b requests=3                   ->
        0    wait c                              ->
        0    wait d requests=2                   ->
        # A large cost holds the queue: what e needs is there.
        200  wait e                              ->
        250                                      -> b@300
        350                                      -> c@400
        550                                      -> d@600
        650                                      -> e@700
    "

    age_keeps_the_place_in_the_queue(ten_per_second()): "
        0    reserve a requests=10               -> a@0
        10   wait young progress                 -> young#0~90
        20   wait middle age=15 progress         -> middle#0~80
        30   wait old age=26 progress            -> old#0~70
        35   wait same-as-middle age=30 progress -> same-as-middle#2~265
        50                                       -> old@100
        150                                      -> middle@200
        250                                      -> same-as-middle@300
        350                                      -> young@400
    "

    a_waiting_request_gets_its_position(with_bulk(ten_per_second(), 0.2)): "
        0    reserve a requests=10               -> a@0
        0    wait b requests=10                  ->
        0    wait c class=bulk progress          -> c#1~1300
        0    wait d class=bulk                   ->
        0    wait e class=bulk progress          -> e#3~1500
        2999                                     -> b@1000 c@1300 d@1400 e@1500
    "

    a_position_is_told_again_every_three_seconds(ten_per_second()): "
        0    reserve a requests=10               -> a@0
        0    reserve b requests=10               -> b@1000
        0    reserve c requests=10               -> c@2000
        0    reserve d requests=10               -> d@3000
        0    reserve e requests=10               -> e@4000
        0    reserve f requests=10               -> f@5000
        0    reserve g requests=10               -> g@6000
        0    wait h requests=10 progress         -> h#0~7000
        0    wait i progress                     -> i#1~7100
        2999                                     ->
        3000                                     -> h#0~4000 i#1~4100
        6000                                     -> h#0~1000 i#1~1100
        6950                                     -> h@7000
        7050                                     -> i@7100
    "

    a_hand_over_sends_all_requests_elsewhere(ten_per_second()): "
        0    reserve a requests=10               -> a@0
        0    wait b within=500                   ->
        0    wait c                              ->
        10   hand-over                           -> b:unavailable+0 c:unavailable+0
        20   allow d                             -> d:unavailable+0
        20   wait b                              -> b:unavailable+0
        # A granted permit can still be settled.
        20   unused a                            -> a:settled
        5000 levels                              -> requests=10
    "
}

/// The capacity, its period in milliseconds, and the farthest start.
#[test]
fn by_default_starts_are_reserved_for_the_longest_period_between_a_minute_and_an_hour() {
    for (capacity, period, farthest) in [(1.0, 1_000, 60_000), (1.0, 600_000, 600_000), (8.0, 28_800_000, 3_600_000)] {
        let spec = resource(vec![limit("requests", capacity, span(period))]);
        let mut world = World::new(&ResourceSpec { max_ahead: None, ..spec });
        let mut reserve = || {
            let asked = world.ask(ms(0), &wish(Mode::Reserve, &[]));
            world.last_answer(asked)
        };
        let answers: Vec<Option<SentAnswer>> = (0..100).map(|_| reserve()).collect();
        let starts = answers
            .iter()
            .filter_map(|answer| if let Some(SentAnswer::Granted(delay)) = answer { Some(*delay) } else { None });
        assert_eq!(starts.max(), Some(span(farthest)), "{period}");
        assert!(matches!(answers.last(), Some(Some(SentAnswer::Refused(Refusal::TooFarAhead { .. })))), "{period}");
    }
}

/// With any number of requests that want updates, an event tells only some, and each is told in
/// time.
#[test]
fn queue_updates_are_sent_some_with_each_event_and_all_within_five_seconds() {
    let mut world = World::new(&ten_per_second());
    let waiting = 100_000;
    for _ in 0..=waiting {
        world.ask(Time::ORIGIN, &Wish { progress: true, ..wish(Mode::Wait, &[("requests", 10.0)]) });
    }
    let mut updated = vec![Time::ORIGIN; waiting + 1];
    while let Some(wakeup) = world.scheduler.next_wakeup().filter(|wakeup| wakeup.at < ms(10_000)) {
        world.answers.clear();
        world.handle(wakeup.at, Event::Wake);
        assert!(world.answers.len() <= 100, "{} answers at {}", world.answers.len(), wakeup.at);
        for (at, to, _) in &world.answers {
            assert!(at.since(updated[*to]) <= span(5000), "{to} at {at}");
            updated[*to] = *at;
        }
    }
    assert!(updated[20..].iter().all(|at| ms(10_000).since(*at) <= span(5000)));
}

/// Lets time pass, and counts the answers to each event.
fn answers_by_event(world: &mut World, end: Time) -> Vec<usize> {
    let mut counts = Vec::new();
    while let Some(wakeup) = world.scheduler.next_wakeup().filter(|wakeup| wakeup.at <= end) {
        let before = world.answers.len();
        world.handle(wakeup.at, Event::Wake);
        counts.push(world.answers.len() - before);
    }
    counts
}

#[test]
fn one_event_starts_some_waiting_requests_and_the_next_goes_on_at_once() {
    let algorithm = Algorithm::FixedWindow(Alignment::Epoch);
    let mut world = World::new(&resource(vec![counted(algorithm, limit("requests", 1000.0, span(1000)))]));
    world.ask(ms(0), &wish(Mode::Reserve, &[("requests", 1000.0)]));
    let waiting: Vec<usize> = (0..1000).map(|_| world.ask(ms(0), &wish(Mode::Wait, &[]))).collect();
    let counts = answers_by_event(&mut world, ms(960));
    assert!(counts.iter().all(|count| *count <= 256), "{counts:?}");
    assert!(waiting.iter().all(|request| world.start(*request) == Some(ms(1000))), "the horizon is 50 ms");
}

/// Reaches `plan::MAX_STEPS`.
#[test]
fn one_event_refuses_some_late_requests_and_the_next_goes_on_at_once() {
    let mut world = World::new(&resource(vec![limit("requests", 1000.0, span(1000))]));
    world.ask(ms(0), &wish(Mode::Reserve, &[("requests", 1000.0)]).named("dear"));
    let late = Wish { max_wait: Some(span(5000)), ..wish(Mode::Wait, &[]) };
    let waiting: Vec<usize> = (0..1000).map(|_| world.ask(ms(0), &late)).collect();
    let before = world.answers.len();
    world.settle(ms(1), "dear", Outcome::Used(vec![("requests".to_owned(), amount(1e6))]));
    let mut counts = vec![world.answers.len() - before - 1];
    counts.extend(answers_by_event(&mut world, ms(2)));
    assert!(counts.iter().all(|count| *count <= 256), "{counts:?}");
    let refused = waiting.iter().filter(|request| matches!(world.last_answer(**request), Some(SentAnswer::Refused(_))));
    assert_eq!(refused.count(), 950, "all but those that were to start within the horizon");
}

/// A resource with `count` waiting requests, behind one that has taken all of this second.
fn crowd(spec: &ResourceSpec, count: usize) -> World {
    let mut world = World::new(spec);
    world.ask(ms(0), &wish(Mode::Reserve, &[("requests", 1000.0)]).named("dear"));
    for _ in 0..count {
        world.ask(ms(0), &wish(Mode::Wait, &[]));
    }
    world
}

#[test]
fn one_event_refuses_some_requests_for_a_spent_quota_and_the_next_goes_on_at_once() {
    let day = Span::from_secs(86_400);
    let quota = LimitSpec { name: name("daily"), algorithm: Algorithm::Quota(None), ..limit("requests", 1e6, day) };
    let mut world = crowd(&resource(vec![limit("requests", 1000.0, span(1000)), quota]), 1000);
    let (before, waiting) = (world.answers.len(), world.scheduler.waiting());
    let verdict = Verdict::Exhausted { scope: Scope::Limit("daily".to_owned()), reset: Some(day) };
    world.settle_answered(ms(1), "dear", said(verdict));
    let mut counts = vec![world.answers.len() - before - 1];
    counts.extend(answers_by_event(&mut world, ms(2)));
    assert!(counts.iter().all(|count| *count <= 256), "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), waiting, "{counts:?}");
}

/// A request that took another's turn and then waited for its key gets a turn of its own.
#[test]
fn a_request_that_returns_from_a_key_queue_takes_no_turn_away() {
    let spec = resource(vec![by("key", limit("requests", 1.0, span(4_000)))]);
    let mut world = World::fenced(&spec, Time::ORIGIN);
    world.checkpointed(Time::ORIGIN);
    let ask = |world: &mut World, now, id: &'static str, key, mode, max_wait| {
        world.ask(now, &Wish { max_wait, ..wish(mode, &[]).named(id).labelled("key", key) });
    };
    ask(&mut world, Time::ORIGIN, "used", "two", Mode::Reserve, None);
    // The checkpoint covers no more grants, so requests are held in the class queue.
    ask(&mut world, ms(3_000), "late", "one", Mode::Wait, Some(span(60_000)));
    ask(&mut world, ms(3_000), "urgent", "two", Mode::Wait, Some(span(20_000)));
    world.run_until(ms(4_500));
    for id in ["late", "urgent"] {
        assert!(matches!(world.settle(ms(4_500), id, Outcome::Unused), SentAnswer::Settled), "{id}");
    }
}
