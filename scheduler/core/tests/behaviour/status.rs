//! Views for people: the status of limits, and the reason of a wait.

use crate::prelude::*;
use rampmeter_protocol::explain::Explanation;

/// Ten requests of a client in ten seconds.
fn by_client() -> LimitSpec {
    keyed("each", 10.0, 10_000, &["client"])
}

/// The first listed requests, each with its position and the milliseconds until its start.
fn first(explanation: &Explanation) -> Vec<(&str, u64, f64)> {
    explanation.first.iter().map(|one| (one.id.as_str(), one.position, one.eta_ms)).collect()
}

fn about(id: &str) -> Question {
    Question { id: Some(PermitId::new(id).unwrap()), ..Question::default() }
}

fn explained(world: &mut World, id: &str) -> Explanation {
    world.scheduler.explain(ms(0), &about(id)).unwrap()
}

/// A world in which `x` has used up all stock, and then these requests wait: id, cost, class and
/// client.
fn waiting(shared: f64, asked: &[(&str, f64, &str, &str)]) -> World {
    let spec = with_bulk(resource(vec![limit("requests", shared, span(1000)), by_client()]), 0.0);
    let mut world = World::new(&spec);
    for &(id, cost, class, client) in [("x", 10.0, "urgent", "x")].iter().chain(asked) {
        let asked = Wish { labels: vec![("client", client)], ..wish(Mode::Wait, &[("requests", cost)]) };
        world.ask(ms(0), &asked.named(id).of_class(class));
    }
    world
}

#[test]
fn the_first_requests_are_listed_class_by_class() {
    let asked =
        [("a", 2.0, "bulk", "a"), ("b", 3.0, "urgent", "b"), ("c", 1.0, "bulk", "c"), ("d", 1.0, "urgent", "d")];
    let mut world = waiting(10.0, &asked);
    let all = world.scheduler.explain(ms(0), &Question::default()).unwrap();
    let in_line = [("b", 0, 300.0), ("d", 1, 400.0), ("a", 2, 600.0), ("c", 3, 700.0)];
    assert_eq!((all.waiting, first(&all)), (4, in_line.to_vec()));
    let last = explained(&mut world, "c");
    assert_eq!((last.waiting, first(&last)), (3, in_line[..3].to_vec()));
    let request = last.request.unwrap();
    assert_eq!((request.limited_by.as_deref(), request.held_by.unwrap().level), (Some("requests"), 0.0));
    assert_eq!(request.takes.into_values().collect::<Vec<_>>(), [1.0, 1.0]);
}

#[test]
fn the_first_requests_of_a_key_queue_are_listed_with_its_key() {
    let asked = [("k", 1.0, "bulk", "x"), ("l", 2.0, "bulk", "x"), ("m", 1.0, "urgent", "x")];
    let mut world = waiting(100.0, &asked);
    let all = world.scheduler.explain(ms(0), &Question::default()).unwrap();
    assert_eq!((all.waiting, first(&all)), (3, vec![("m", 0, 1000.0), ("k", 1, 2000.0), ("l", 2, 4000.0)]));
    let last = explained(&mut world, "l");
    assert_eq!((last.waiting, first(&last)), (2, vec![("m", 0, 1000.0), ("k", 1, 2000.0)]));
    let held_by = last.request.unwrap().held_by.unwrap();
    assert_eq!((held_by.key.as_deref(), held_by.level, held_by.next_free_ms), (Some("x"), 0.0, 0.0));
}

#[test]
fn a_granted_permit_waits_for_no_request() {
    let mut world = waiting(10.0, &[("a", 1.0, "bulk", "a")]);
    let granted = explained(&mut world, "x");
    assert_eq!((granted.waiting, granted.first.len(), granted.request.unwrap().eta_ms), (0, 0, 0.0));
    let stranger = world.scheduler.explain(ms(0), &about("stranger"));
    assert_eq!(stranger, Err(Refusal::UnknownPermit));
}

/// Reaches `explain::MAX_LISTED`.
#[test]
fn the_first_waiting_requests_are_listed() {
    let class = |number| if number % 2 == 0 { "urgent" } else { "bulk" };
    // Some requests wait for the shared limit, and others for the key of `x`, whose stock is gone.
    let ids: Vec<String> = (0..48).map(|number| format!("r{number:02}")).collect();
    let client = |number: usize| if number < 24 { "x" } else { ["a", "b", "c"][number % 3] };
    let asked = ids.iter().enumerate().map(|(number, id)| (&**id, 1.0, class(number), client(number)));
    let mut world = waiting(10.0, &asked.collect::<Vec<_>>());
    assert_eq!(explained(&mut world, "r45").first.len(), 10, "ahead of one request, too");
    let all = world.scheduler.explain(ms(0), &Question::default()).unwrap();
    let listed: Vec<String> = all.first.iter().map(|one| one.id.to_string()).collect();
    let of = |numbers: std::ops::Range<usize>, class: usize| numbers.filter(move |number| number % 2 == class);
    let in_order = of(24..48, 0).map(|number| ids[number].clone()).take(10);
    assert_eq!((listed, all.more), (in_order.collect(), 38));
}

/// Reaches `explain::MAX_SCANNED`: of 1 010 requests of one class, a thousand are compared.
#[test]
fn the_requests_of_a_class_a_client_or_a_limit_are_listed() {
    let ids: Vec<String> = (0..1012).map(|number| format!("r{number:04}")).collect();
    let class = |number: usize| if number < 2 { "urgent" } else { "bulk" };
    let asked = ids.iter().enumerate().map(|(number, id)| (&**id, 1.0, class(number), ["a", "b"][number % 2]));
    let mut world = waiting(10.0, &asked.collect::<Vec<_>>());
    let mut listed = |question: Question| {
        let explanation = world.scheduler.explain(ms(0), &question).unwrap();
        (explanation.waiting, explanation.first.len() as u64 + explanation.more, explanation.first[0].id.to_string())
    };
    let of_class = |class: &str| Question { class: Some(name(class)), ..Question::default() };
    assert_eq!(listed(of_class("urgent")), (2, 2, "r0000".to_owned()));
    assert_eq!(listed(of_class("bulk")), (1010, 1010, "r0002".to_owned()));
    let (found, ..) = listed(Question { limit: Some(name("requests")), ..of_class("bulk") });
    assert!((1..=1000).contains(&found), "{found}");
    let unknown = world.scheduler.explain(ms(0), &of_class("none"));
    assert!(matches!(unknown, Err(Refusal::UnknownClass { .. })));
}

/// There are more keys than the status examines.
#[test]
fn the_key_in_debt_is_shown_among_many() {
    const KEYS: usize = 6_000;
    let mut world = World::new(&resource(vec![by_client()]));
    for number in 0..KEYS {
        let client = format!("client-{number}");
        let asked = Wish { labels: vec![("client", &*client)], ..wish(Mode::Allow, &[("requests", 2.0)]) };
        world.ask(ms(0), &asked.named(&client));
    }
    let status = |world: &mut World| world.scheduler.limit_status(ms(0)).remove(0);
    assert_eq!((status(&mut world).level, status(&mut world).keys), (8.0, KEYS as u64));
    let cost = amount(25.0);
    world.settle(ms(0), &format!("client-{}", KEYS - 1), Outcome::Used(vec![("requests".to_owned(), cost)]));
    assert_eq!((status(&mut world).level, status(&mut world).next_free_ms), (-15.0, 15_000.0));
}
