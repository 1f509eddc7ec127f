//! Bounds of counts: each is reached, and items beyond it are left out.

use crate::prelude::*;
use rampmeter_policy::spec::MAX_PERIOD;
use rampmeter_protocol::reason::Reason;
use rampmeter_scheduler_core::durability::snapshot::DebitSnapshot;

/// One request per period for each guild.
fn each_in(period: Span) -> ResourceSpec {
    resource(vec![LimitSpec { name: name("per-guild"), ..by("guild", limit("requests", 1.0, period)) }])
}

/// Asks for a call of this guild, and returns the request.
fn ask(world: &mut World, now: u64, guild: usize, mode: Mode) -> usize {
    world.ask(ms(now), &wish(mode, &[]).labelled("guild", &guild.to_string()))
}

/// Whether a call of this guild may start at once.
fn is_allowed(world: &mut World, now: u64, guild: usize) -> bool {
    let request = ask(world, now, guild, Mode::Allow);
    world.start(request).is_some()
}

/// A world in which the upstream has demanded a pause of half a minute for `count` keys.
fn with_frozen_keys(count: usize) -> World {
    let call = |key: usize| {
        format!("0 allow a{key} guild:{key} -> a{key}@0\n0 answered a{key} 429 after=30000 -> a{key}:settled\n")
    };
    play(&each_in(span(1000)), &(0..count).map(call).collect::<String>())
}

/// Reaches `keys::MAX_THAWED`.
#[test]
fn one_order_thaws_four_thousand_keys() {
    for (frozen, left) in [(4000, 0), (4001, 1)] {
        let mut world = with_frozen_keys(frozen);
        for (at, expected) in [(10_000, left), (20_000, 0)] {
            let paused = world.scheduler.paused(ms(at), None);
            world.handle(ms(at), Event::Thaw(paused));
            let refused = (0..frozen).filter(|guild| !is_allowed(&mut world, at, *guild)).count();
            assert_eq!(refused, expected, "{frozen} keys at {at}");
        }
    }
}

/// Reaches `limit_snapshots::FREEZES_PART`: every frozen key stays frozen, in the list or out of it.
#[test]
fn freezes_without_room_in_a_record_hold_all_other_keys() {
    for (frozen, all_listed) in [(1_000, true), (3_000, false), (7_000, false)] {
        let snapshot = with_frozen_keys(frozen).scheduler.snapshot(ms(0), usize::MAX);
        assert_eq!(snapshot.freezes.len() == frozen, all_listed, "{frozen}");
        let mut after = World::restored(&each_in(span(1000)), ms(0), ms(0), &snapshot);
        assert!((0..frozen).all(|guild| !is_allowed(&mut after, 29_000, guild)), "{frozen}");
        assert_eq!(is_allowed(&mut after, 29_000, frozen), all_listed, "a key without a freeze, beside {frozen}");
        assert!(is_allowed(&mut after, 31_000, 0) && is_allowed(&mut after, 31_000, frozen));
    }
}

/// The debit that the steps have at this time, in millionths.
fn owed(steps: &[DebitSnapshot], nanos: u64) -> u64 {
    steps.iter().find(|step| nanos < step.ends_in.nanos()).map_or(0, |step| step.micros)
}

/// Reaches `level_snapshots::MAX_DEBITS`.
#[test]
fn a_snapshot_merges_debits_beyond_128_steps_and_forgets_none() {
    let spec = resource(vec![limit("requests", 1000.0, span(3_600_000))]);
    for inherited in [100, 200] {
        let mut snapshot = World::new(&spec).scheduler.snapshot(ms(0), usize::MAX);
        let step = |number: u64| DebitSnapshot {
            ends_in: span(number * 10_000),
            micros: (inherited + 1 - number) * 1_000_000,
        };
        let given: Vec<DebitSnapshot> = (1..=inherited).map(step).collect();
        snapshot.levels[0].pending_debits.clone_from(&given);
        let mut restored = World::restored(&spec, ms(0), ms(0), &snapshot);
        let kept = restored.scheduler.snapshot(ms(0), usize::MAX).levels.remove(0).pending_debits;
        assert!((100..=128).contains(&kept.len()), "{} of {inherited}", kept.len());
        assert!(given.iter().all(|step| owed(&kept, step.ends_in.nanos() - 1) >= step.micros), "{inherited}");
    }
}

/// Reaches `grant_budget::MAX_OPEN`.
#[test]
fn a_ninth_checkpoint_waits_until_the_store_confirms_one() {
    let mut world = World::fenced(&ten_per_second(), ms(0));
    let open: Vec<Checkpoint> = (0..100).map_while(|second| world.scheduler.checkpoint(ms(1000 * second))).collect();
    assert_eq!(open.len(), 8);
    let asked: Vec<usize> = (0..20).map(|_| world.ask(ms(8000), &wish(Mode::Allow, &[]))).collect();
    world.handle(ms(8000), Event::CheckpointStored(open[0].number));
    assert!(world.scheduler.checkpoint(ms(8000)).is_none(), "all eight may still be in the store");
    world.handle(ms(8000), Event::CheckpointStored(open[6].number));
    assert!(world.scheduler.checkpoint(ms(8000)).is_some());
    let granted = asked.iter().filter(|request| world.start(**request).is_some()).count();
    assert!(granted <= 10, "{granted} calls were granted, beyond what the store says");
}

/// Reaches `record_space::MAX_KEYS_AT_STOP`: a successor counts keys beyond the list as empty.
#[test]
fn a_stop_lists_ten_thousand_keys_and_frees_no_other() {
    const KEYS: usize = 10_010;
    let spec = each_in(span(20_000));
    let mut world = World::new(&spec);
    for key in 0..KEYS {
        assert!(is_allowed(&mut world, 0, key));
    }
    let snapshot = world.scheduler.snapshot(ms(1), 0);
    assert_eq!(snapshot.keys.listed.len(), 10_000);
    let mut after = World::restored(&spec, ms(1), ms(1), &snapshot);
    for key in 0..KEYS {
        assert!(!is_allowed(&mut after, 1, key), "key {key} is paid twice");
    }
}

/// Reaches `record_space::MAX_FAR_KEYS`: other keys count as empty until the first of the rest.
#[test]
fn a_checkpoint_lists_256_keys_with_far_promises_and_frees_no_other() {
    const KEYS: usize = 300;
    let spec = each_in(span(20_000));
    let mut world = World::fenced(&spec, ms(0));
    world.checkpointed(ms(0));
    (0..KEYS).for_each(|key| {
        ask(&mut world, 0, key, Mode::Allow);
    });
    world.checkpointed(ms(1));
    let far: Vec<usize> = (0..KEYS).map(|key| ask(&mut world, 1, key, Mode::Reserve)).collect();
    let checkpoint = world.checkpointed(ms(2));
    assert!(far.iter().all(|request| world.start(*request) == Some(ms(20_000))));
    assert_eq!(checkpoint.state.keys.listed.len(), 256);
    let mut after = World::restored(&spec, ms(2), ms(2), &checkpoint.state);
    for key in 0..KEYS {
        let again = ask(&mut after, 2, key, Mode::Reserve);
        let start = after.start(again).unwrap();
        assert!(start >= ms(40_000), "key {key} is paid twice at {start}");
    }
}

/// Reaches `level_snapshots::MAX_DEBIT_STEPS`.
#[test]
fn a_far_promise_is_recorded_in_few_steps() {
    let mut world = World::new(&ten_per_second());
    (0..10_000).for_each(|_| {
        world.ask(ms(0), &wish(Mode::Reserve, &[]));
    });
    let debits = world.scheduler.snapshot(ms(0), 0).levels.remove(0).pending_debits;
    assert_eq!(debits.len(), 17, "the near step, and sixteen more");
}

/// Reaches `level_history::MAX_PEAKS`: beyond it, a refund is smaller, never larger.
#[test]
fn an_unused_call_is_returned_as_long_as_every_peak_since_is_known() {
    let returned = |starts: u64| {
        let mut world = World::new(&resource(vec![limit("requests", 1000.0, MAX_PERIOD)]));
        for number in 0..starts {
            world.ask(ms(number), &wish(Mode::Allow, &[("requests", 1.0)]).named(&number.to_string()));
        }
        let before = world.level_micros(ms(starts));
        world.settle(ms(starts), "0", Outcome::Unused);
        world.level_micros(ms(starts)) - before
    };
    assert!((999_990..=1_000_000).contains(&returned(256)), "{}", returned(256));
    assert_eq!(returned(257), 0, "the level may have been full since");
}

/// Reaches `backfill::MAX_CANDIDATES`.
#[test]
fn the_first_64_requests_are_tried_for_the_rest_of_a_window() {
    let window = counted(Algorithm::FixedWindow(Alignment::Epoch), limit("requests", 10.0, span(1000)));
    let starts = |ahead: usize| {
        let mut world = World::new(&resource(vec![window.clone()]));
        world.ask(ms(300), &wish(Mode::Allow, &[("requests", 6.0)]));
        (0..ahead).for_each(|_| {
            world.ask(ms(300), &wish(Mode::Wait, &[("requests", 5.0)]));
        });
        let small = world.ask(ms(300), &wish(Mode::Wait, &[("requests", 1.0)]));
        world.run_until(ms(900));
        world.start(small) == Some(ms(300))
    };
    assert_eq!((starts(63), starts(64)), (true, false));
}

/// A world in which `count` guilds have taken one of ten requests an hour.
fn with_keys(count: usize) -> World {
    let mut world = World::new(&resource(vec![per_guild()]));
    assert!((0..count).all(|guild| is_allowed(&mut world, 0, guild)));
    world
}

/// Reaches `record_space::MAX_PAGE_KEYS`.
#[test]
fn a_page_has_three_thousand_keys() {
    for (keys, pages, listed) in [(3001, vec![3000], 1), (10_000, vec![3000, 3000, 3000], 1000)] {
        let snapshot = with_keys(keys).scheduler.snapshot(ms(0), usize::MAX);
        let written: Vec<usize> = snapshot.new_pages.iter().map(|page| page.keys.len()).collect();
        assert_eq!((written, snapshot.keys.listed.len()), (pages, listed), "{keys} keys");
    }
}

/// Reaches `keys::MAX_SHOWN`.
#[test]
fn four_thousand_keys_are_compared_for_the_lowest_level() {
    for (guild, expected) in [(3999, 4.0), (4000, 9.0)] {
        let mut world = with_keys(5000);
        world.ask(ms(0), &wish(Mode::Allow, &[("requests", 5.0)]).labelled("guild", &guild.to_string()));
        assert_eq!(world.scheduler.limit_status(ms(0))[0].level, expected, "{guild}");
    }
}

/// Reaches `permits::MAX_FORGOTTEN`.
#[test]
fn one_event_forgets_512_permits() {
    let mut world = World::new(&resource(vec![limit("requests", 10_000.0, span(1000))]));
    for number in 0..2000 {
        world.ask(ms(0), &wish(Mode::Reserve, &[]).named(&number.to_string()));
    }
    world.handle(ms(10_000_000), Event::Wake);
    let known = world.scheduler.snapshot(ms(10_000_000), usize::MAX).permits.len();
    assert_eq!(known, 2000 - 512);
}

/// Reaches `key_snapshots::MAX_FIRST_REQUESTS`.
#[test]
fn a_checkpoint_lists_the_keys_of_the_first_64_requests() {
    for (waiting, listed) in [(63, 63), (64, 64), (65, 64), (500, 64)] {
        let mut world = World::fenced(&resource(vec![per_guild(), limit("units", 1.0, span(3_600_000))]), ms(0));
        world.checkpointed(ms(0));
        // The first request needs more of what is shared than there is.
        world.ask(ms(0), &wish(Mode::Reserve, &[("units", 1.0)]));
        (0..waiting)
            .for_each(|guild| wait_for_guild(&mut world, guild, &[("requests", guild.min(1) as f64), ("units", 1.0)]));
        assert_eq!(world.scheduler.waiting(), waiting);
        let checkpoint = world.checkpointed(ms(1));
        assert_eq!(checkpoint.state.keys.listed.len(), listed - 1, "{waiting} wait");
    }
}

/// Ten by the hour for each guild.
fn per_guild() -> LimitSpec {
    keyed("per-guild", 10.0, 3_600_000, &["guild"])
}

fn wait_for_guild(world: &mut World, guild: usize, cost: &[(&str, f64)]) {
    world.ask(ms(0), &wish(Mode::Wait, cost).labelled("guild", &guild.to_string()));
}

/// Reaches `key_queues::MAX_BUDGETED`.
#[test]
fn a_checkpoint_lists_1000_keys_that_wait_for_a_budget() {
    for (waiting, listed) in [(1000, 1000), (1001, 1000), (1500, 1000)] {
        let mut world = World::fenced(&resource(vec![per_guild()]), ms(0));
        world.checkpointed(ms(0));
        (0..waiting).for_each(|guild| wait_for_guild(&mut world, guild, &[]));
        assert_eq!(world.scheduler.waiting(), waiting);
        let checkpoint = world.checkpointed(ms(1));
        world.run_until(ms(2));
        assert_eq!((checkpoint.state.keys.listed.len(), world.scheduler.waiting()), (listed, waiting - listed));
        world.checkpointed(ms(3));
        world.run_until(ms(4));
        assert_eq!(world.scheduler.waiting(), 0);
    }
}

/// Reaches `key_snapshots::MAX_FIRST_OF_KEY`.
#[test]
fn a_key_that_waits_for_a_budget_gets_one_for_four_requests() {
    for (waiting, left) in [(4, 0), (5, 1), (8, 4)] {
        let mut world = World::fenced(&resource(vec![per_guild()]), ms(0));
        world.checkpointed(ms(0));
        (0..waiting).for_each(|_| wait_for_guild(&mut world, 0, &[]));
        world.checkpointed(ms(1));
        assert_eq!(world.scheduler.waiting(), left);
    }
}

/// Reaches `reasons::MAX_COMPARED`.
#[test]
fn a_request_of_another_client_is_seen_among_the_first_64() {
    for (earlier, expected) in [(30.0, Reason::Share), (70.0, Reason::Turn)] {
        let few = limit("requests", 1000.0, span(3_600_000));
        let mut world = World::new(&shared(resource(vec![few]), &[]));
        let mut ask = |at: u64, client: &'static str, requests: f64, called: &str| {
            let wish = wish(Mode::Wait, &[("requests", requests)]);
            world.ask(ms(at), &Wish { client: Some(client), ..wish }.named(called));
        };
        ask(0, "z", 999.0, "taken");
        ask(1, "y", earlier, "earlier");
        (0..100).for_each(|number| ask(2, "x", 1.0, &format!("x{number}")));
        ask(3, "y", 1.0, "later");
        let question = Question { id: Some(PermitId::new("x90").unwrap()), ..Question::default() };
        let explained = world.scheduler.explain(ms(3), &question).unwrap().request.unwrap();
        assert_eq!(explained.reason, Some(expected), "behind a request for {earlier}");
    }
}
