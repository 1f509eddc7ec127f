//! Bounds of counts: each is reached, and what is beyond it is left out.

use crate::common::{Said, World, limit, ms, name, resource, span, wish};
use rampmeter_protocol::explain::Question;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::request::Mode;
use rampmeter_scheduler_core::adaptation::observation::{Observation, Scope, Verdict};
use rampmeter_scheduler_core::durability::snapshot::DebitSnapshot;
use rampmeter_scheduler_core::event::{Event, Outcome};
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::{Applies, LimitSpec, ResourceSpec};
use rampmeter_scheduler_core::scheduler::Scheduler;

/// One request a second for each guild.
fn one_each() -> ResourceSpec {
    let applies = Applies { key: vec!["guild".to_owned()], ..Applies::default() };
    resource(vec![LimitSpec { name: name("per-guild"), applies, ..limit("requests", 1.0, span(1000)) }])
}

/// Asks at `at` for a call of this guild. Returns whether it may start at once.
fn is_allowed(world: &mut World, at: u64, guild: usize) -> bool {
    let (guild, id) = (guild.to_string(), format!("{guild}-at-{at}"));
    let mut wish = wish(Mode::Allow, &[]).named(&id);
    wish.labels.push(("guild", &guild));
    let number = world.ask(ms(at), &wish);
    matches!(world.said(number), Some(Said::Granted(_)))
}

/// A world in which the upstream has demanded a pause of half a minute for so many keys.
fn with_frozen_keys(count: usize) -> World {
    let mut world = World::new(&one_each());
    for guild in 0..count {
        assert!(is_allowed(&mut world, 0, guild));
        let verdict =
            Verdict::Limited { scope: Scope::Unnamed, retry_after: Some(span(30_000)), by_other_accounts: false };
        let observation = Observation { verdict, readings: Vec::new(), spent: Vec::new() };
        world.settle_observed(ms(0), &format!("{guild}-at-0"), Outcome::Used(Vec::new()), Some(observation));
    }
    world
}

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

#[test]
fn a_snapshot_has_the_freezes_of_256_keys() {
    for (frozen, kept) in [(256, 256), (257, 256)] {
        assert_eq!(with_frozen_keys(frozen).scheduler.snapshot(ms(0), usize::MAX).freezes.len(), kept);
    }
}

/// What is owed at this time by the steps.
fn owed(steps: &[DebitSnapshot], nanos: u64) -> u64 {
    steps.iter().find(|step| nanos < step.ends_in.nanos()).map_or(0, |step| step.micros)
}

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
        let restored = Scheduler::restore(Resource::new(&spec).unwrap(), 2, ms(0), ms(0), &snapshot);
        let kept = World::of(restored).scheduler.snapshot(ms(0), usize::MAX).levels.remove(0).pending_debits;
        assert!((100..=128).contains(&kept.len()), "{} of {inherited}", kept.len());
        assert!(given.iter().all(|step| owed(&kept, step.ends_in.nanos() - 1) >= step.micros), "{inherited}");
    }
}

#[test]
fn an_explanation_counts_ten_thousand_requests_of_key_queues() {
    for (waiting, more) in [(10_020, 9_999), (10_021, 10_000), (10_030, 10_000)] {
        let mut world = World::new(&one_each());
        for number in 0..waiting {
            let id = number.to_string();
            let mut wish = wish(Mode::Wait, &[]).named(&id);
            wish.labels.push(("guild", "a"));
            world.ask(ms(0), &wish);
        }
        let question = Question { id: None, after: Some(PermitId::new("10").unwrap()) };
        let explanation = world.scheduler.explain(ms(0), &question).unwrap();
        assert_eq!(explanation.more, more, "{waiting}");
    }
}
