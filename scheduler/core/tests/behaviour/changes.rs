//! Changes of limits, and hand-overs, while many requests wait.

use crate::prelude::*;
use rampmeter_policy::spec::Pattern;

/// More waiting requests than one dispatch examines.
const MANY: usize = 300;

/// Later than answers may wait for the store.
fn at(millis: u64) -> Time {
    Time::ORIGIN + span(1_000 + millis)
}

fn per_second(requests: f64) -> ResourceSpec {
    resource(vec![limit("requests", requests, span(1000))])
}

/// A world whose bucket is empty, and the `MANY` requests that wait in it: `w0` and later ones.
fn crowd(spec: &ResourceSpec, wish_of: impl Fn(usize) -> Wish<'static>) -> (World, Vec<usize>) {
    let mut world = World::new(spec);
    world.ask(at(0), &wish(Mode::Reserve, &[("requests", 10.0)]));
    let ask = |number: usize| world.ask(at(0), &wish_of(number).named(&format!("w{number}")));
    let asked = (0..MANY).map(ask).collect();
    assert_eq!(world.scheduler.waiting(), MANY);
    (world, asked)
}

fn plain(_: usize) -> Wish<'static> {
    wish(Mode::Wait, &[])
}

fn change(world: &mut World, spec: &ResourceSpec) {
    world.handle(at(0), Event::Limits(Box::new(Resource::new(spec).unwrap())));
}

/// The starts of requests in milliseconds.
fn starts(world: &mut World, asked: &[usize]) -> Vec<f64> {
    world.run_until(at(100_000));
    let start = |asked: &usize| world.start(*asked).expect("it starts").since(at(0)).millis();
    asked.iter().map(start).collect()
}

/// `count` times at intervals of `pace` milliseconds, from the first interval on.
fn paced(pace: f64, count: usize) -> Vec<f64> {
    (1..=count).map(|number| number as f64 * pace).collect()
}

#[test]
fn requests_keep_their_order_through_a_change() {
    let (mut world, mut asked) = crowd(&per_second(10.0), plain);
    change(&mut world, &per_second(20.0));
    assert_eq!(world.scheduler.waiting(), MANY - 1, "the first starts soon");
    asked.push(world.ask(at(0), &plain(MANY)));
    assert_eq!(starts(&mut world, &asked), paced(50.0, MANY + 1));
}

/// Requests of one client are in order, and the other client has its share, as without the change.
#[test]
fn clients_share_fairly_after_a_change() {
    let of = |client| Wish { client: Some(client), ..wish(Mode::Wait, &[]) };
    let spec = |requests| shared(per_second(requests), &[]);
    let (mut world, mut asked) = crowd(&spec(10.0), |number| of(if number + 2 < MANY { "x" } else { "y" }));
    change(&mut world, &spec(20.0));
    let late = world.ask(at(0), &of("x"));
    asked.push(world.ask(at(0), &of("y")));
    let starts = starts(&mut world, &asked);
    assert_eq!(starts[..4], [50.0, 150.0, 250.0, 350.0], "x has every other turn");
    assert_eq!(starts[MANY - 2..], [100.0, 200.0, 300.0], "y has the turns between");
    assert_eq!(world.start(late), Some(at(50 * (MANY as u64 + 2))));
}

fn of_routes(routes: &[&str]) -> ResourceSpec {
    let routes = Pattern::OneOf(routes.iter().map(ToString::to_string).collect());
    let applies = Applies { matching: [("route".to_owned(), routes)].into(), ..Applies::default() };
    shared(resource(vec![LimitSpec { applies, ..limit("requests", 10.0, span(1000)) }]), &[])
}

scripts! {
    /// The small requests have their share of what the first large one took.
    requests_keep_their_turns_when_a_limit_applies_to_another_route(
        of_routes(&["a"]),
        "more": of_routes(&["a", "b"])
    ): "
        0    reserve x route:a requests=10        -> x@0
        0    wait l1 client=p route:a requests=5  ->
        0    wait l2 client=p route:a requests=5  ->
        0    wait s1 client=q route:a             ->
        0    wait s2 client=q route:a             ->
        0    wait s3 client=q route:a             ->
        650                                       -> l1@500 s1@600 s2@700
        650  limits more                          ->
        1400                                      -> s3@800 l2@1300
        # It is charged for the other route as well.
        1400 reserve y route:b                    -> y@1400
        1400 levels                               -> requests=0
    "
}

/// A limit of half the rate serves half of the requests in time.
#[test]
fn deadlines_hold_after_a_change() {
    let within = |number: usize| Wish { max_wait: Some(span(100 * (number as u64 + 1))), ..plain(number) };
    let (mut world, asked) = crowd(&per_second(10.0), within);
    change(&mut world, &per_second(5.0));
    world.run_until(at(100_000));
    let in_time = |asked: &&usize| world.start(**asked).is_some();
    let late =
        |asked: &&usize| matches!(world.last_answer(**asked), Some(SentAnswer::Refused(Refusal::NotInTime { .. })));
    let (in_time, late) = (asked.iter().filter(in_time).count(), asked.iter().filter(late).count());
    assert_eq!(in_time + late, MANY);
    assert!(late > MANY / 3 && in_time > MANY / 3, "{in_time} in time, {late} late");
}

/// A request whose call is not stored is charged by the cost that its bill implies, by limits of
/// other names, too.
#[test]
fn a_cost_survives_changes_that_rename_its_limit() {
    let called = |called: &str| resource(vec![LimitSpec { name: name(called), ..limit("requests", 30.0, span(1000)) }]);
    let (mut world, asked) = crowd(&per_second(10.0), |_| wish(Mode::Wait, &[("requests", 3.0)]));
    change(&mut world, &called("second"));
    change(&mut world, &called("third"));
    let starts = starts(&mut world, &asked);
    assert_eq!(starts[..20], [0.0; 20], "each of both limits begins full");
    assert_eq!(starts[20..], paced(100.0, MANY - 20));
}

/// Requests in the queues of keys keep their order, and the buckets of keys are forgotten later.
#[test]
fn requests_that_wait_for_keys_are_charged_anew() {
    let by = |label: &str, called: &str, requests| LimitSpec {
        name: name(called),
        ..by(label, limit("requests", requests, span(1000)))
    };
    let both = resource(vec![by("client", "each", 10.0), by("route", "routes", 1000.0)]);
    let faster = resource(vec![by("route", "routes", 1000.0), by("client", "each", 20.0)]);
    let mut world = World::new(&both);
    let clients = ["x", "y", "z"];
    let of = |client: &'static str| {
        let labels = vec![("client", client), ("route", client)];
        Wish { labels, client: Some(client), ..wish(Mode::Wait, &[]) }
    };
    for client in clients {
        world.ask(at(0), &Wish { cost: vec![("requests", 10.0)], ..of(client) });
    }
    let asked: Vec<[usize; 3]> = (0..MANY).map(|_| clients.map(|client| world.ask(at(0), &of(client)))).collect();
    change(&mut world, &faster);
    change(&mut world, &both);
    change(&mut world, &faster);
    for place in 0..clients.len() {
        let of_client: Vec<usize> = asked.iter().map(|asked| asked[place]).collect();
        assert_eq!(starts(&mut world, &of_client), paced(50.0, MANY));
    }
    (0..100).for_each(|later| world.handle(at(200_000 + later), Event::Wake));
    assert_eq!(world.scheduler.limit_status(at(201_000)).iter().map(|limit| limit.keys).sum::<u64>(), 0);
}
