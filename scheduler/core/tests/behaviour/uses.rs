//! What clients use: each call counts once, at its actual cost.

use crate::prelude::*;
use proptest::prelude::*;
use rampmeter_scheduler_core::views::{ClientUse, OTHERS, Use};

/// Millionths of units by client, class and unit; calls have no unit.
type Sums = BTreeMap<(String, String, String), i64>;

fn spec() -> ResourceSpec {
    let limits = vec![limit("requests", 1e6, span(3_600_000)), limit("units", 1e6, span(3_600_000))];
    shared(with_bulk(resource(limits), 0.0), &[])
}

fn add(sums: &mut Sums, of: &Use) {
    for ClientUse { client, class, calls, micros } in &of.clients {
        let key = |unit: &str| (client.to_string(), class.to_string(), unit.to_owned());
        *sums.entry(key("calls")).or_default() += calls;
        micros.iter().for_each(|(unit, micros)| *sums.entry(key(unit)).or_default() += micros);
    }
    sums.retain(|_, sum| *sum != 0);
}

fn taken(world: &mut World) -> Sums {
    let mut sums = Sums::new();
    add(&mut sums, &world.scheduler.take_use());
    sums
}

fn sums(rows: &[(&str, &str, &str, i64)]) -> Sums {
    let row = |(client, class, unit, sum): &(&str, &str, &str, i64)| {
        (((*client).to_owned(), (*class).to_owned(), (*unit).to_owned()), *sum)
    };
    rows.iter().map(row).collect()
}

/// The store takes the next checkpoint, if the scheduler wants one.
fn confirm(world: &mut World, now: Time) {
    let checkpoint = world.scheduler.checkpoint(now).map(|checkpoint| checkpoint.number);
    checkpoint.into_iter().for_each(|number| world.handle(now, Event::CheckpointStored(number)));
}

fn of_client<'a>(client: &'a str, id: &'a str, units: f64) -> Wish<'a> {
    let asked = wish(Mode::Wait, &[("requests", 1.0), ("units", units)]);
    Wish { client: Some(client), id: Some(id), cost: asked.cost.clone(), ..asked }
}

#[test]
fn a_call_counts_at_its_estimate_and_then_at_its_cost() {
    let mut world = World::new(&spec());
    let million = 1_000_000;
    world.ask(ms(0), &of_client("a", "1", 5.0));
    world.ask(ms(0), &of_client("b", "2", 7.0).of_class("bulk"));
    let first = sums(&[
        ("a", "urgent", "calls", 1),
        ("a", "urgent", "requests", million),
        ("a", "urgent", "units", 5 * million),
        ("b", "bulk", "calls", 1),
        ("b", "bulk", "requests", million),
        ("b", "bulk", "units", 7 * million),
    ]);
    assert_eq!(taken(&mut world), first);
    assert_eq!(taken(&mut world), Sums::new(), "it is told once");
    world.settle(ms(2), "1", Outcome::Used(vec![("units".to_owned(), amount(1.5))]));
    world.settle(ms(2), "1", Outcome::Used(vec![("units".to_owned(), amount(9.0))]));
    world.settle(ms(2), "2", Outcome::Unused);
    let then = sums(&[
        ("a", "urgent", "units", -7 * million / 2),
        ("b", "bulk", "calls", -1),
        ("b", "bulk", "requests", -million),
        ("b", "bulk", "units", -7 * million),
    ]);
    assert_eq!(taken(&mut world), then);
}

#[test]
fn a_flood_of_names_counts_together_and_nothing_is_lost() {
    let mut world = World::new(&spec());
    for number in 0..9000 {
        let (client, id) = (format!("client-{number}"), format!("id-{number}"));
        world.ask(ms(0), &of_client(&client, &id, 1.0));
    }
    let used = world.scheduler.take_use();
    let others = used.clients.iter().find(|used| &*used.client == OTHERS).unwrap();
    assert_eq!((used.clients.len(), others.calls), (4096, 9000 - 4095));
    assert_eq!(used.limits.iter().map(|(_, micros)| *micros).collect::<Vec<_>>(), [9_000_000_000, 9_000_000_000]);
}

/// One step of a random play.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask { client: u8, bulk: bool, units: u16 },
    Used { call: usize, units: u16 },
    Unused { call: usize },
    HandOver,
    Change { capacity: u16 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ask = (0..4_u8, any::<bool>(), 1..500_u16).prop_map(|(client, bulk, units)| Step::Ask { client, bulk, units });
    let used = (0..64_usize, 0..900_u16).prop_map(|(call, units)| Step::Used { call, units });
    let unused = (0..64_usize).prop_map(|call| Step::Unused { call });
    let change = (1000..2000_u16).prop_map(|capacity| Step::Change { capacity });
    let step = prop_oneof![6 => ask, 4 => used, 2 => unused, 1 => Just(Step::HandOver), 1 => change];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    /// An independent judge adds up grants and settles: no call counts twice or is lost, whichever
    /// leader counts it.
    #[test]
    fn the_sum_is_what_was_granted_less_what_was_given_back(steps in steps()) {
        let mut world = World::new(&spec());
        let (mut counted, mut calls) = (Sums::new(), Vec::<(String, String, String, f64, bool)>::new());
        for (number, step) in steps.iter().enumerate() {
            let now = ms(number as u64 * 1000);
            match *step {
                Step::Ask { client, bulk, units } => {
                    let (client, id) = (format!("client-{client}"), format!("id-{number}"));
                    let class = if bulk { "bulk" } else { "urgent" };
                    world.ask(now, &of_client(&client, &id, f64::from(units)).of_class(class));
                    calls.push((id, client, class.to_owned(), f64::from(units), true));
                }
                Step::Used { call, units } => if let Some((id, .., cost, is_open)) = calls.get_mut(call) && *is_open {
                    world.settle(now, id, Outcome::Used(vec![("units".to_owned(), amount(f64::from(units)))]));
                    (*cost, *is_open) = (f64::from(units), false);
                },
                Step::Unused { call } => if calls.get(call).is_some_and(|(.., is_open)| *is_open) {
                    let (id, ..) = calls.remove(call);
                    world.settle(now, &id, Outcome::Unused);
                },
                Step::HandOver => {
                    add(&mut counted, &world.scheduler.take_use());
                    let (resource, epoch) = (world.scheduler.resource().clone(), world.scheduler.epoch().next());
                    let snapshot = world.scheduler.snapshot(now, 1000);
                    world.scheduler = Scheduler::restore(resource, epoch, now, now, &snapshot);
                    confirm(&mut world, now);
                }
                Step::Change { capacity } => {
                    let mut spec = spec();
                    spec.limits[1].capacity = amount(f64::from(capacity) * 1000.0);
                    world.handle(now, Event::Limits(Box::new(Resource::new(&spec).unwrap())));
                    confirm(&mut world, now);
                }
            }
            world.run_until(now);
        }
        add(&mut counted, &world.scheduler.take_use());
        let mut expected = Sums::new();
        for (_, client, class, units, _) in &calls {
            for (unit, sum) in [("calls", 1), ("requests", 1_000_000), ("units", (units * 1e6) as i64)] {
                *expected.entry((client.clone(), class.clone(), unit.to_owned())).or_default() += sum;
            }
        }
        expected.retain(|_, sum| *sum != 0);
        prop_assert_eq!(counted, expected);
    }
}
