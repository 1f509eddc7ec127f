//! Clients that are gone cost others neither time nor tokens, and operators end waits.

use crate::prelude::*;
use rampmeter_scheduler_core::scheduler::waiting::QueueCursor;
use rampmeter_scheduler_core::scheduler::waiting::Selection;

scripts! {
    /// A client is between two connections when an update reaches nobody, and is back for its grant.
    a_late_notice_of_an_update_takes_back_no_grant(ten_per_second()): "
        0    reserve x requests=10         -> x@0
        0    wait a progress               -> a#0~100
        100                                -> a@100
        101  undelivered update a          ->
        101  levels                        -> requests=0.01
        101  used a                        -> a:settled
    "

    /// All stock is granted to a client that is gone, and then at once to another client.
    a_grant_that_reaches_no_client_takes_nothing_whatever_the_limit_counts(
        [
            Algorithm::TokenBucket,
            Algorithm::LeakyBucket,
            Algorithm::FixedWindow(Alignment::Epoch),
            Algorithm::FixedWindow(Alignment::FirstUse),
            Algorithm::SlidingWindow,
            Algorithm::Concurrency,
            Algorithm::Quota(None),
        ]
        .map(ten)
    ): "
        300  reserve a requests=10     -> a@300
        305  undelivered a             ->
        305  levels                    -> requests=10
        305  wait b requests=10        -> b@305
        305  levels                    -> requests=0
    "

    a_probe_behind_a_freeze_that_reaches_no_client_lets_another_go_first(
        [Algorithm::TokenBucket, Algorithm::SlidingWindow].map(ten)
    ): "
        0    wait a                    -> a@0
        0    answered a 429 after=300  -> a:settled
        310  wait b                    -> b@310
        310  wait c                    ->
        312  undelivered b             -> c@312
    "

    the_next_takes_the_start_of_a_client_that_is_gone(ten_per_second()): "
        0    reserve x requests=10         -> x@0
        0    wait a                        ->
        0    wait b                        ->
        # Ahead of its start, and behind it: no time passes until the next is sent.
        50                                 -> a@100
        51   undelivered a                 -> b@100
        60   wait c                        ->
        102  undelivered b                 -> c@102
        102  levels                        -> requests=0.02
    "

    a_request_whose_client_is_gone_holds_no_place(ten_per_second()): "
        0    reserve x requests=10         -> x@0
        0    wait a requests=9 progress    -> a#0~900
        0    wait b                        ->
        0    wait c progress               -> c#2~1100
        60   undelivered a                 -> b@100
        150                                -> c@200
    "

    a_client_that_was_only_cut_off_asks_again_under_its_id(ten_per_second()): "
        0    reserve x requests=9          -> x@0
        0    wait a                        -> a@0
        5    undelivered a                 ->
        5    levels                        -> requests=1.05
        5    wait a                        -> a@5
        5    levels                        -> requests=0.05
        5    used a                        -> a:settled
        # What was settled was heard of, whatever is said of the answer.
        6    undelivered a                 ->
        6    levels                        -> requests=0.06
        6    wait b progress               -> b#0~94
        7    undelivered b                 ->
        8    wait b                        ->
        50                                 -> b@100
    "

    a_successor_knows_a_permit_that_was_asked_for_again(ten_per_second()): "
        0    wait a                        -> a@0
        5    undelivered a                 ->
        5    wait a requests=4             -> a@5
        10   restart                       ->
        10   wait a requests=4             -> a@10
    "
}

/// Requests of two clients in two classes, and whether they want progress.
fn crowd(requests: usize) -> World {
    let mut spec = shared(ten_per_second(), &[]);
    spec.classes = vec![class("urgent", 0.0), class("bulk", 0.0)];
    let mut world = World::new(&spec);
    world.ask(ms(0), &wish(Mode::Reserve, &[("requests", 10.0)]));
    for request in 0..requests {
        let (class, client) = (["urgent", "bulk"][request % 2], ["a", "b"][request / 2 % 2]);
        let asked = wish(Mode::Wait, &[("requests", 10.0)]).of_class(class);
        let asked = Wish { client: Some(client), progress: request % 3 == 0, ..asked };
        world.ask(ms(0), &asked);
    }
    world.answers.clear();
    world
}

/// Takes steps until the walk is over, and returns the answers of each.
fn steps(
    world: &mut World,
    mut step: impl FnMut(&mut Scheduler<usize>, QueueCursor) -> Option<QueueCursor>,
) -> Vec<usize> {
    let (mut walk, mut sent) = (Some(QueueCursor::default()), Vec::new());
    while let Some(from) = walk {
        let before = world.answers.len();
        walk = step(&mut world.scheduler, from);
        while let Some(command) = world.scheduler.poll_command() {
            world.note(ms(1), command);
        }
        sent.push(world.answers.len() - before);
    }
    sent
}

#[test]
fn a_possibly_gone_client_gets_its_position_or_a_refusal_and_no_other_is() {
    let mut world = crowd(600);
    // The first of all was not in the class queue.
    let sent = steps(&mut world, |scheduler, walk| scheduler.probe(ms(1), walk, |to| *to > 300));
    assert_eq!(sent.iter().sum::<usize>(), 300);
    assert!(sent.iter().all(|sent| *sent <= 64), "steps are short: {sent:?}");
    for (_, to, answer) in &world.answers {
        assert!(*to > 300, "{to} was not meant");
        let wants_to_know = (to - 1) % 3 == 0;
        assert_eq!(matches!(answer, SentAnswer::Queued(..)), wants_to_know, "{to}: {answer:?}");
        assert_eq!(*answer == SentAnswer::Refused(Refusal::MayBeGone), !wants_to_know, "{to}: {answer:?}");
    }
    assert_eq!(world.scheduler.waiting(), 400);
}

/// Reaches `walk::MAX_WALKED`.
#[test]
fn a_step_of_a_walk_examines_1024_permits() {
    for (requests, steps_taken) in [(1022, 1), (1023, 2), (2047, 3)] {
        // The first permit is no waiting request.
        let sent = steps(&mut crowd(requests), |scheduler, walk| scheduler.probe(ms(1), walk, |_| false));
        assert_eq!(sent, vec![0; steps_taken], "{requests}");
    }
}

#[test]
fn a_purge_ends_the_waits_that_it_names_and_no_others() {
    let class = |name: &str| crowd(0).scheduler.resource().class(name).unwrap();
    let table = [
        (Selection::default(), 600),
        (Selection { client: Some("a".to_owned()), class: None }, 300),
        (Selection { client: None, class: Some(class("bulk")) }, 300),
        (Selection { client: Some("b".to_owned()), class: Some(class("urgent")) }, 150),
        (Selection { client: Some("c".to_owned()), class: None }, 0),
    ];
    for (selection, expected) in table {
        let (mut world, mut ended) = (crowd(600), 0);
        let sent = steps(&mut world, |scheduler, walk| {
            let (count, walk) = scheduler.purge(walk, &selection);
            ended += count;
            walk
        });
        assert_eq!((ended, world.answers.len()), (expected, expected), "{selection:?}");
        assert!(sent.iter().all(|sent| *sent <= 64), "steps are short: {sent:?}");
        for (_, to, answer) in &world.answers {
            let (class, client) = (["urgent", "bulk"][(to - 1) % 2], ["a", "b"][(to - 1) / 2 % 2]);
            assert_eq!(*answer, SentAnswer::Refused(Refusal::Purged));
            assert!(selection.client.as_deref().is_none_or(|wanted| wanted == client), "{selection:?}: {to}");
            let resource = world.scheduler.resource();
            assert!(selection.class.is_none_or(|wanted| resource.class(class) == Ok(wanted)), "{selection:?}: {to}");
        }
        assert_eq!(world.scheduler.waiting(), 600 - expected);
    }
}

/// Requests behind the purged ones start without a further event.
#[test]
fn those_behind_a_purged_request_start_at_once() {
    let mut world = play(
        &ten_per_second(),
        "
        0    reserve x requests=9          -> x@0
        0    wait a requests=10 client=a   ->
        0    wait b client=b               ->
        ",
    );
    let selection = Selection { client: Some("a".to_owned()), class: None };
    assert_eq!(world.scheduler.purge(QueueCursor::default(), &selection), (1, None));
    world.handle(ms(0), Event::Wake);
    assert_eq!(world.start(2), Some(ms(0)));
}
