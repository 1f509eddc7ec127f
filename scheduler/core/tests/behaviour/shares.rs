//! How views show the shares of classes and clients.

use crate::prelude::*;
use rampmeter_protocol::shares::{Share, Shares};

/// Ten a second for two classes, shared by client. Bulk starves for a second at most.
fn shared() -> ResourceSpec {
    let spec = with_bulk(resource(vec![limit("requests", 10.0, span(1000))]), 0.0);
    let classes = spec.classes.iter().map(|class| ClassSpec { max_starvation: Some(span(1000)), ..class.clone() });
    ResourceSpec { classes: classes.collect(), ..spec }
}

fn shares(world: &mut World, now: u64) -> Shares {
    world.scheduler.shares(ms(now))
}

/// Name, share, granted, waiting, starved, and the bounds of the percentiles.
fn figures(share: &Share) -> (&str, f64, u64, u64, u64, Option<f64>, Option<f64>) {
    let Share { name, share, granted, waiting, starved, wait_p50_ms, wait_p99_ms } = share;
    (name, *share, *granted, *waiting, *starved, *wait_p50_ms, *wait_p99_ms)
}

#[test]
fn a_share_is_what_was_granted_of_all_that_was() {
    let mut world = play(
        &shared(),
        "
        0    wait a class=urgent client=x requests=6   -> a@0
        0    wait b class=urgent client=y requests=3   -> b@0
        0    wait c class=bulk client=y requests=1     -> c@0
        0    wait d class=bulk client=z requests=1     ->
        0    wait e class=bulk client=z requests=1     ->
        ",
    );
    let first = shares(&mut world, 0);
    let none = (None, None);
    assert_eq!(figures(&first.classes[0]), ("urgent", 0.9, 2, 0, 0, Some(1.0), Some(1.0)));
    assert_eq!(figures(&first.classes[1]), ("bulk", 0.1, 1, 2, 0, Some(1.0), Some(1.0)));
    // A client that waits and got nothing is the first.
    assert_eq!(figures(&first.clients[0]), ("z", 0.0, 0, 2, 0, none.0, none.1));
    assert_eq!(figures(&first.clients[1]), ("x", 0.6, 1, 0, 0, Some(1.0), Some(1.0)));
    assert_eq!(figures(&first.clients[2]), ("y", 0.4, 2, 0, 0, Some(1.0), Some(1.0)));
    world.run_until(ms(300));
    let last = shares(&mut world, 300);
    let z = last.clients.iter().find(|client| client.name == "z").unwrap();
    assert_eq!((z.granted, z.waiting, z.wait_p50_ms, z.wait_p99_ms), (2, 0, Some(100.0), Some(300.0)));
    assert_eq!((last.over_ms, last.more_clients), (300.0, 0));
}

#[test]
fn a_start_ahead_of_its_turn_counts_as_starved() {
    let mut script =
        "0 wait a class=urgent client=x requests=10 -> a@0\n 0 wait late class=bulk client=y requests=10 ->\n"
            .to_owned();
    for number in 0..3 {
        script += &format!("0 wait u{number} class=urgent client=x requests=10 ->\n");
    }
    let mut world = play(&shared(), &script);
    world.run_until(ms(5_000));
    let y = shares(&mut world, 5_000).clients.into_iter().find(|client| client.name == "y").unwrap();
    assert_eq!((y.granted, y.starved), (1, 1));
}

/// Reaches `shares::MAX_CLIENTS_LISTED`.
#[test]
fn the_list_of_clients_is_bounded() {
    let mut world = World::new(&shared());
    let script: String =
        (0..60).map(|number| format!("0 wait r{number} client=c{number:02} requests=0.1 -> r{number}@0\n")).collect();
    world = play_on(world, &script);
    let all = shares(&mut world, 0);
    assert_eq!((all.clients.len(), all.more_clients), (50, 10));
}

/// Reaches `shares::MAX_WAITING_CLIENTS`.
#[test]
fn of_many_waiting_clients_some_are_looked_at() {
    let mut world = play(&shared(), "0 allow x client=x requests=10 -> x@0");
    for number in 0..1100 {
        let client = format!("c{number}");
        world.ask(ms(0), &Wish { client: Some(&client), ..wish(Mode::Wait, &[("requests", 10.0)]) });
    }
    assert_eq!(shares(&mut world, 0).more_clients, 1024 + 1 - 50);
}
