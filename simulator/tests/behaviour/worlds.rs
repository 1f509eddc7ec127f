//! Worlds that cannot run.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::policy::spec::{LimitSpec, ResourceSpec};
use rampmeter_simulator::fleet::Fleet;
use rampmeter_simulator::world::World;

fn world(unit: &str, period: Span) -> World {
    let name = |name: &str| Name::new(name).unwrap();
    let capacity = Amount::new(10.0).unwrap();
    let limit = LimitSpec::new(name(unit), name(unit), capacity, period);
    World::new(ResourceSpec::new(name("api"), vec![limit]), 1)
}

#[test]
fn a_world_that_can_not_be_says_why() {
    let second = Span::from_secs(1);
    let fleet = Fleet { calls: Some(1), ..Fleet::new("workers", 1) };
    let eleven = Amount::new(11.0).unwrap();
    let table = [
        (world("requests", Span::ZERO).with(fleet.clone()), "the resource: a period is above 0 and at most 366 days"),
        (
            world("Requests", second).with(fleet.clone()),
            "the upstream: Requests: a unit is a letter followed by letters, digits and hyphens, all lower case, 64 at most",
        ),
        (
            world("requests", second).with(fleet.clone().of_class("nobody")),
            "fleet `workers`: `class`: no such class; there are `default`",
        ),
        (
            world("requests", second).with(fleet.costing("requests", eleven)),
            "fleet `workers`: limit `requests`: the cost of 11 exceeds the limit's capacity of 10; split the call",
        ),
        (
            world("requests", second).with(Fleet::new("workers", 1)),
            "fleet `workers` never stops; say how many calls it makes, or when it or the world ends",
        ),
    ];
    for (world, reason) in table {
        assert_eq!(world.run().unwrap_err().to_string(), reason);
    }
}

/// Reaches `world::MAX_NAME`.
#[test]
fn the_names_of_fleets_and_clients_are_bounded() {
    const LONGEST: usize = 200;
    let run = |name: usize, client: usize| {
        let fleet = Fleet { calls: Some(1), client: Some("c".repeat(client)), ..Fleet::new(&"f".repeat(name), 1) };
        world("requests", Span::from_secs(1)).with(fleet).run().map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(run(LONGEST, LONGEST), Ok(()));
    for (name, client) in [(LONGEST + 1, 1), (1, LONGEST + 1)] {
        let expected = format!("fleet `{}`: a fleet and its client have names of at most 200 bytes", "f".repeat(name));
        assert_eq!(run(name, client), Err(expected));
    }
}
