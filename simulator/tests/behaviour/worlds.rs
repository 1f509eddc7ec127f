//! Worlds that cannot run.

use crate::prelude::*;

/// Reaches `world::MAX_NAME`.
#[test]
fn the_names_of_fleets_and_clients_are_bounded() {
    const LONGEST: usize = 200;
    let run = |of_fleet: usize, of_client: usize| {
        let fleet =
            Fleet { calls: Some(1), client: Some("c".repeat(of_client)), ..Fleet::new(&"f".repeat(of_fleet), 1) };
        let api = ResourceSpec::new(name("api"), vec![limit("requests", 10.0, Span::from_secs(1))]);
        World::new(api, 1).with(fleet).run().map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(run(LONGEST, LONGEST), Ok(()));
    for (name, client) in [(LONGEST + 1, 1), (1, LONGEST + 1)] {
        let expected = format!("fleet `{}`: a fleet and its client have names of at most 200 bytes", "f".repeat(name));
        assert_eq!(run(name, client), Err(expected));
    }
}
