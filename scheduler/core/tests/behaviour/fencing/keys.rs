//! Keys of limits with long periods: what a crash leaves to each of them.

use super::*;

/// Whether `client` is granted `units` at once.
fn gets(play: &mut Play, client: &'static str, units: u64) -> bool {
    let now = play.now;
    let wish = wish(Mode::Allow, &[("c", units as f64)]).labelled("client", client);
    let request = play.leader().world.ask(now, &wish);
    // By then a checkpoint lists the client's key, even if a checkpoint with a page came first.
    play.pass(span(450));
    play.leader().world.start(request).is_some()
}

/// Empty keys would take up to an hour to refill.
#[test]
fn a_crash_leaves_keys_of_long_limits_what_they_have() {
    let quota = Algorithm::Quota(None);
    for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow(Alignment::Epoch), Algorithm::SlidingWindow, quota]
    {
        let mut play = Play::new(by_the_hour(algorithm.clone(), 12));
        assert!(gets(&mut play, "x", 4) && gets(&mut play, "y", 1), "{algorithm:?}");
        play.pass(span(20_000));
        play.take_over(Span::ZERO, true);
        assert!(!gets(&mut play, "x", 9), "{algorithm:?}");
        for (client, units) in [("x", 8), ("y", 11), ("z", 12)] {
            assert!(gets(&mut play, client, units), "{algorithm:?}: {units} of {client}");
            assert!(!gets(&mut play, client, 1), "{algorithm:?}: more of {client}");
        }
    }
}

/// A key on a page may be granted a small call before a checkpoint lists it again. A successor
/// charges that call, and knows later usage.
#[test]
fn a_key_that_rests_is_charged_what_it_may_have_been_granted_since() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow(Alignment::Epoch)] {
        for more in [0, 5] {
            let mut play = Play::new(by_the_hour(algorithm.clone(), 64));
            assert!(gets(&mut play, "x", 10));
            play.crowd();
            play.pass(span(5_000));
            assert!(play.store.levels.keys.pages.len() == 1 && more == 0 || gets(&mut play, "x", more));
            play.pass(span(5_000));
            let now = play.now;
            let request = play.leader().world.ask(now, &wish_of(Mode::Allow, [0, 0, 1], 0));
            assert_eq!(play.leader().world.start(request), Some(now), "{algorithm:?}");
            play.take_over(Span::ZERO, true);
            play.pass(span(3_000));
            let left = 64 - 10 - more - 1;
            assert!(!gets(&mut play, "x", left + 1), "{algorithm:?}, after {more}: more than {left}");
            // The charge is that of the largest recent call, which was one of ten.
            assert!(gets(&mut play, "x", left - 3), "{algorithm:?}, after {more}: not even {left}");
        }
    }
}

/// A call that takes little of its key needs no checkpoint. Every key loses as much when the leader
/// dies.
#[test]
fn a_small_call_of_a_new_key_waits_for_no_checkpoint() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow(Alignment::Epoch)] {
        let mut play = Play::new(by_the_hour(algorithm, 64));
        play.pass(span(1_000));
        let now = play.now;
        for client in 0..CLIENTS.len() {
            let request = play.leader().world.ask(now, &wish_of(Mode::Allow, [0, 0, 1], client));
            assert_eq!(play.leader().world.start(request), Some(now));
        }
        play.take_over(Span::ZERO, true);
        // The refill during the time of such a call is lost.
        play.pass(span(3_000));
        for (client, left) in [("x", 63), ("another", 63)] {
            assert!(!gets(&mut play, client, left + 1) && gets(&mut play, client, left), "{client}");
        }
    }
}

/// A bucket that was full until a call is less full than one whose call was earlier.
#[test]
fn a_call_under_a_checkpoint_is_no_earlier_call() {
    let mut play = Play::new(by_the_hour(Algorithm::TokenBucket, 7200));
    play.pass(span(3_000));
    while play.now.since(play.store.taken) < span(900) {
        play.pass(span(10));
    }
    let now = play.now;
    let request = play.leader().world.ask(now, &wish_of(Mode::Allow, [0, 0, 1], 0));
    assert_eq!(play.leader().world.start(request), Some(now));
    play.take_over(span(1_000), true);
    assert!(!gets(&mut play, "x", 7200), "half a second after another");
    play.pass(span(5_000));
    assert!(gets(&mut play, "x", 7200));
}

/// A far start of an unlisted key waits until a checkpoint lists this key, whatever other keys are
/// listed.
#[test]
fn far_starts_of_keys_are_listed_first() {
    let mut play = Play::new(spec());
    let reserve = |play: &mut Play, client| {
        let now = play.now;
        (0..4).for_each(|_| play.leader().ask(now, [0, 0, 5], client, Mode::Reserve));
    };
    reserve(&mut play, 1);
    play.pass(span(50));
    reserve(&mut play, 0);
    play.take_over(Span::ZERO, true);
    reserve(&mut play, 0);
    play.pass(span(30_000));
    let lowest = lowest(&play.spec.limits[2], &play.calls(2, Some(0)));
    assert!(lowest >= 0, "{lowest}");
}

/// The budget of a key in a checkpoint covers all calls together.
#[test]
fn a_key_stays_within_its_budget_under_a_checkpoint() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindow] {
        let mut play = Play::new(by_the_hour(algorithm, 24));
        assert!(gets(&mut play, "x", 1));
        let now = play.now;
        let asked: Vec<usize> =
            (0..30).map(|_| play.leader().world.ask(now, &wish_of(Mode::Allow, [0, 0, 1], 0))).collect();
        let at_once = asked.iter().filter(|request| play.leader().world.start(**request).is_some()).count();
        play.take_over(Span::ZERO, true);
        let later = (0..30).filter(|_| gets(&mut play, "x", 1)).count();
        assert!(at_once > 0 && 1 + at_once + later <= 24, "{at_once} and {later}");
    }
}

/// A crash loses at most the budget of each key in the last checkpoint.
#[test]
fn a_crash_costs_a_busy_key_little() {
    let mut play = Play::new(by_the_hour(Algorithm::Quota(None), 12));
    assert!(gets(&mut play, "x", 1) && gets(&mut play, "x", 1));
    play.take_over(Span::ZERO, true);
    assert!(gets(&mut play, "x", 6));
}

#[test]
fn once_there_are_few_keys_again_they_are_known() {
    let mut play = Play::new(by_the_hour(Algorithm::FixedWindow(Alignment::Epoch), 12));
    assert!(clients(1100).all(|client| gets(&mut play, client, 1)));
    play.pass(HOUR + HOUR);
    assert!(gets(&mut play, "x", 4));
    play.pass(span(20_000));
    play.take_over(Span::ZERO, true);
    assert!(gets(&mut play, "x", 8) && gets(&mut play, "another", 12));
}

/// With any number of keys, a crash leaves each its stock, and so does the next crash.
#[test]
fn a_crash_leaves_thousands_of_keys_what_they_have() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow(Alignment::Epoch), Algorithm::Quota(None)] {
        let mut play = Play::new(by_the_hour(algorithm.clone(), 12));
        let names: Vec<&str> = clients(3000).collect();
        for at_once in names.chunks(100) {
            let now = play.now;
            for client in at_once {
                play.leader().world.ask(now, &wish(Mode::Reserve, &[("c", 10.0)]).labelled("client", client));
            }
            play.pass(span(300));
        }
        for crash in 0..2 {
            play.pass(span(5_000));
            play.take_over(Span::ZERO, true);
            for client in names.iter().step_by(97).skip(crash * 10).take(10) {
                assert!(!gets(&mut play, client, 3), "{algorithm:?}: too much of {client}");
                assert!(gets(&mut play, client, 2), "{algorithm:?}: {client}");
                assert!(!gets(&mut play, client, 1), "{algorithm:?}: more of {client}");
            }
        }
        assert!(gets(&mut play, "another", 12), "{algorithm:?}");
    }
}

/// A key in debt stays empty for a successor, even if its promise was returned.
#[test]
fn a_debt_is_known_behind_a_promise_that_was_given_back() {
    let mut spec = by_the_hour(Algorithm::TokenBucket, 100);
    spec.limits[2].period = span(100_000);
    let mut play = Play::new(spec);
    for (id, units) in [("a", 100.0), ("p", 50.0)] {
        let now = play.now;
        play.leader().world.ask(now, &wish(Mode::Reserve, &[("c", units)]).named(id).labelled("client", "x"));
    }
    play.pass(span(1_000));
    let now = play.now;
    let cost = vec![("c".to_owned(), whole(140))];
    play.leader().world.settle(now, "a", Outcome::Used(cost));
    play.leader().world.settle(now, "p", Outcome::Unused);
    play.pass(span(1_000));
    play.take_over(Span::ZERO, true);
    play.pass(span(8_000));
    assert!(!gets(&mut play, "x", 1), "its debt of forty is paid after forty seconds");
}

/// A request for this client's key, which waits for at most 100 ms.
fn waits(play: &mut Play, client: usize) -> usize {
    let (now, wish) = (play.now, wish_of(Mode::Wait, [1, 0, 1], client));
    play.leader().world.ask(now, &Wish { max_wait: Some(span(100)), ..wish })
}

#[test]
fn a_key_that_waits_for_its_budget_holds_no_other_key() {
    let mut play = Play::new(by_the_hour(Algorithm::TokenBucket, 5));
    assert!(gets(&mut play, "x", 1));
    while play.now.since(play.store.taken) > span(20) {
        play.pass(span(10));
    }
    let now = play.now;
    let [new, known] = [1, 0].map(|client| waits(&mut play, client));
    assert_eq!((play.leader().world.start(new), play.leader().world.start(known)), (None, Some(now)));
    play.pass(span(100));
    assert!(play.leader().world.start(new).is_some());
}

/// However the calls fall between checkpoints, the store answers in a few milliseconds.
#[test]
fn no_call_of_a_key_waits_long_for_the_store() {
    for capacity in [5, 20, 64] {
        for pause in [0, 1, 7, 30, 60, 150, 220, 400, 1_000] {
            let mut play = Play::new(by_the_hour(Algorithm::TokenBucket, capacity));
            play.pass(span(pause));
            for call in 0..capacity {
                let (asked, request) = (play.now, waits(&mut play, 0));
                play.pass(span(100));
                let start = play.leader().world.start(request);
                let waited = start.map(|start| start.since(asked));
                assert!(waited <= Some(span(50)) && waited.is_some(), "call {call} of {capacity}: {waited:?}");
                play.pass(span(pause));
            }
        }
    }
}

#[test]
fn a_thousand_new_keys_are_listed_by_the_next_checkpoints() {
    let mut play = Play::new(ResourceSpec { ..crowd_each() });
    play.pass(span(500));
    let now = play.now;
    let wish = |client| wish(Mode::Wait, &[("c", 1.0)]).labelled("client", client);
    let asked: Vec<usize> = clients(1_000).map(|client| play.leader().world.ask(now, &wish(client))).collect();
    play.pass(span(600));
    let started = asked.iter().filter(|request| play.leader().world.start(**request).is_some()).count();
    assert_eq!(started, asked.len());
}

/// Five by the hour for each client, and no other limit.
fn crowd_each() -> ResourceSpec {
    let mut spec = by_the_hour(Algorithm::TokenBucket, 5);
    spec.limits.drain(..2);
    spec
}
