//! Numbers at the edge of what the protocol allows, and equal answers to equal questions.

use crate::prelude::*;
use proptest::prelude::*;
use rampmeter_policy::spec::{
    FairShare, MAX_BOUND, MAX_CLASSES, MAX_HORIZON, MAX_KEY_LABELS, MAX_LIMITS, MAX_PERIOD, MAX_RESERVATION, SpecField,
};
use rampmeter_protocol::clock::Clock;
use rampmeter_scheduler_core::event::{Ask, Settle};
use rampmeter_scheduler_core::identity::Identity;

const MOST: f64 = 1e9;
const LEAST: f64 = 0.000_001;
const YEAR: Span = MAX_PERIOD;

/// The extreme limits, with and without a margin, and the extreme times.
fn extremes() -> impl Iterator<Item = (LimitSpec, Time)> {
    let capacities = [LEAST, 1.0, 999_999_999.999_999, MOST];
    let periods = [1, 7, 999_999_999, 1_000_000_000, YEAR.nanos() - 1, YEAR.nanos()].map(Span::from_nanos);
    let times = [Time::ORIGIN, Clock::START, Time::from_nanos(u64::MAX / 2)];
    let limits = capacities.into_iter().flat_map(move |capacity| {
        periods.into_iter().flat_map(move |period| {
            let limit = limit("units", capacity, period);
            [LimitSpec { margin: Margin::Auto, ..limit.clone() }, limit]
        })
    });
    limits.flat_map(move |limit| times.map(|time| (limit.clone(), time)))
}

/// Costs from the smallest to the largest that the limit can pay.
fn costs(limit: &LimitSpec) -> [f64; 3] {
    let capacity = limit.capacity.micros();
    [1, capacity / 2, capacity].map(|micros| Amount::from_micros(micros).unwrap().units())
}

fn at_the_edge(limit: &LimitSpec) -> ResourceSpec {
    with_bulk(resource(vec![limit.clone(), crate::common::limit("requests", MOST, YEAR)]), 0.999_999)
}

#[test]
#[should_panic(expected = "time does not go back")]
fn time_that_goes_back_is_a_bug_of_the_driver() {
    let mut world = World::new(&resource(vec![limit("units", 1.0, span(1000))]));
    world.handle(Time::from_nanos(1), Event::Wake);
    world.handle(Time::from_nanos(1), Event::Wake);
    world.handle(Time::ORIGIN, Event::Wake);
}

#[test]
fn extreme_limits_neither_overflow_nor_panic() {
    for (limit, now) in extremes() {
        let spec = at_the_edge(&limit);
        let mut world = World::of(Scheduler::new(Resource::new(&spec).unwrap(), Epoch::FIRST, now));
        for (round, class) in (0..6).flat_map(|round| ["urgent", "bulk"].map(|class| (round, class))) {
            for mode in [Mode::Allow, Mode::Reserve, Mode::Wait] {
                for (number, cost) in costs(&limit).into_iter().enumerate() {
                    let id = format!("{mode:?}-{class}-{round}-{number}");
                    world.ask(now, &wish(mode, &[("units", cost)]).of_class(class).named(&id));
                    if round % 2 == 0 {
                        let dear = Outcome::Used(vec![("units".to_owned(), amount(MOST))]);
                        world.settle(now, &id, if number == 0 { Outcome::Unused } else { dear });
                    }
                }
            }
        }
        let later = now + Span::from_secs(1);
        let snapshot = world.scheduler.snapshot(later, usize::MAX);
        let mut successor = World::restored(&spec, now + YEAR, later, &snapshot);
        for world in [&mut world, &mut successor] {
            world.ask(now + YEAR, &wish(Mode::Reserve, &[("units", LEAST)]));
            world.handle(Time::NEVER, Event::Wake);
            assert_eq!(world.scheduler.limit_status(Time::NEVER).len(), 2);
        }
    }
}

/// The largest amounts within the longest period, in numbers without a common divisor.
#[test]
fn nothing_overflows_at_the_bounds() {
    let most = Amount::from_micros(999_999_999_999_999).unwrap();
    let period = YEAR.saturating_sub(Span::from_nanos(1));
    let algorithms = [
        Algorithm::TokenBucket,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::SlidingWindow,
        Algorithm::Concurrency,
        Algorithm::Quota(None),
    ];
    for algorithm in algorithms {
        let spec = LimitSpec { capacity: most, period, algorithm: algorithm.clone(), ..limit("requests", 1.0, period) };
        let mut world = World::new(&resource(vec![spec]));
        let all = [("requests", most.units())];
        world.ask(Time::ORIGIN, &wish(Mode::Reserve, &[("requests", 1.0)]).named("a"));
        for (count, mode) in [(20_000, Mode::Wait), (200, Mode::Reserve)] {
            for _ in 0..count {
                world.ask(Time::ORIGIN, &wish(mode, &all));
            }
        }
        let used = vec![("requests".to_owned(), most)];
        world.settle(Time::from_nanos(1), "a", Outcome::Used(used));
        assert!(!world.scheduler.snapshot(Time::from_nanos(1), 1_000).levels.is_empty());
        world.handle(Time::from_nanos(period.nanos()), Event::Wake);
        assert!(world.scheduler.limit_status(Time::NEVER)[0].level <= most.units(), "{algorithm:?}");
    }
}

#[test]
fn no_number_of_debits_overflows() {
    for (limit, now) in extremes() {
        let mut world = World::of(Scheduler::new(Resource::new(&at_the_edge(&limit)).unwrap(), Epoch::FIRST, now));
        for number in 0..4_000 {
            let id = number.to_string();
            world.ask(now, &wish(Mode::Reserve, &[("units", 0.0)]).named(&id));
            world.settle(now, &id, Outcome::Used(vec![("units".to_owned(), amount(MOST))]));
        }
        let asked = world.ask(now, &wish(Mode::Wait, &[("units", LEAST)]));
        assert_ne!(world.start(asked), Some(now), "{limit:?} is deep in debt");
    }
}

#[test]
fn debts_have_a_floor() {
    let limit = limit("units", LEAST, YEAR);
    let mut world = World::new(&at_the_edge(&limit));
    let mut levels = (0..4_000).map(|number: u32| {
        let id = number.to_string();
        world.ask(Time::ORIGIN, &wish(Mode::Reserve, &[("units", 0.0)]).named(&id));
        world.settle(Time::ORIGIN, &id, Outcome::Used(vec![("units".to_owned(), amount(MOST))]));
        world.level_micros(Time::ORIGIN)
    });
    let (third, last) = (levels.nth(1_333).unwrap(), levels.last().unwrap());
    assert_eq!(third, last, "a deeper debt is not remembered");
}

/// A call with a huge actual cost must not keep later requests from answers.
#[test]
fn an_unpayable_debt_holds_every_request_and_nothing_else() {
    let mut world = World::new(&with_bulk(resource(vec![limit("units", 1.0, YEAR)]), 0.0));
    world.ask(Time::ORIGIN, &wish(Mode::Allow, &[("units", 1.0)]).named("a"));
    world.settle(Time::ORIGIN, "a", Outcome::Used(vec![("units".to_owned(), amount(MOST))]));
    for class in ["urgent", "bulk", "urgent"] {
        world.ask(Time::ORIGIN, &wish(Mode::Wait, &[("units", 1.0)]).of_class(class));
    }
    world.run_until(Time::ORIGIN + YEAR);
    assert_eq!(world.scheduler.waiting(), 3);
    let asked = world.ask(Time::ORIGIN + YEAR, &wish(Mode::Reserve, &[("units", LEAST)]));
    assert!(matches!(world.last_answer(asked), Some(SentAnswer::Refused(_))), "further ahead than can be foreseen");
}

#[test]
fn the_least_cost_and_the_largest_capacity_are_exact() {
    // A year's refill is a thousand million units: a millionth of a unit takes 31.6224 ns.
    let spec = resource(vec![limit("requests", MOST, YEAR)]);
    let mut world = World::new(&spec);
    world.ask(Time::ORIGIN, &wish(Mode::Reserve, &[("requests", MOST)]));
    for nanos in [32, 64, 95, 127, 159] {
        let asked = world.ask(Time::ORIGIN, &wish(Mode::Reserve, &[("requests", LEAST)]));
        assert_eq!(world.start(asked), Some(Time::from_nanos(nanos)));
    }
    let asked = world.ask(Time::ORIGIN, &wish(Mode::Reserve, &[("requests", MOST)]));
    assert!(matches!(world.last_answer(asked), Some(SentAnswer::Refused(_))), "further ahead than can be foreseen");
}

/// Reaches `spec::MAX_LIMITS`, `spec::MAX_CLASSES`, `spec::MAX_HORIZON` and `spec::MAX_BOUND`.
#[test]
fn wrong_specifications_say_where_and_why() {
    let good = ten_per_second;
    type Spoil = fn(&mut ResourceSpec);
    let table: [(Spoil, SpecField); 20] = [
        (|spec| spec.limits.clear(), SpecField::Resource("limits")),
        (|spec| spec.limits = vec![spec.limits[0].clone(); MAX_LIMITS + 1], SpecField::Resource("limits")),
        (|spec| spec.limits.push(spec.limits[0].clone()), SpecField::Limit(1, "name")),
        (|spec| spec.limits[0].capacity = Amount::ZERO, SpecField::Limit(0, "capacity")),
        (|spec| spec.limits[0].period = Span::ZERO, SpecField::Limit(0, "period")),
        (|spec| spec.limits[0].period = YEAR + Span::from_nanos(1), SpecField::Limit(0, "period")),
        (
            |spec| spec.limits[0].applies.key = (0..=MAX_KEY_LABELS).map(|label| label.to_string()).collect(),
            SpecField::Limit(0, "key"),
        ),
        (|spec| spec.discover_key = vec!["guild".to_owned(); 2], SpecField::Resource("discover_key")),
        (|spec| spec.discover_key = vec![String::new()], SpecField::Resource("discover_key")),
        (|spec| spec.horizon = MAX_HORIZON + Span::from_nanos(1), SpecField::Resource("horizon")),
        (|spec| spec.bounds.max_waiting = 0, SpecField::Resource("max_waiting")),
        (|spec| spec.bounds.max_permits = 0, SpecField::Resource("max_permits")),
        (|spec| spec.bounds.max_keys = MAX_BOUND + 1, SpecField::Resource("max_keys")),
        (|spec| spec.reservation = MAX_RESERVATION + Span::from_nanos(1), SpecField::Resource("reservation")),
        (|spec| spec.limits[0].margin = Margin::Fixed(spec.limits[0].capacity), SpecField::Limit(0, "margin")),
        (|spec| spec.classes = vec![class("a", 0.0), class("a", 0.5)], SpecField::Class(1, "name")),
        (|spec| spec.classes = vec![class("a", 1.0)], SpecField::Class(0, "headroom")),
        (|spec| spec.classes = vec![class("a", f64::NAN)], SpecField::Class(0, "headroom")),
        (|spec| spec.default_class = Some(name("nobody")), SpecField::Resource("default_class")),
        (
            |spec| spec.classes = (0..=MAX_CLASSES).map(|at| class(&format!("c{at}"), 0.0)).collect(),
            SpecField::Resource("classes"),
        ),
    ];
    Resource::new(&good()).unwrap();
    for (spoil, place) in table {
        let mut spec = good();
        spoil(&mut spec);
        assert_eq!(Resource::new(&spec).unwrap_err().field, place);
    }
    let mut at_once = with_bulk(good(), 0.0);
    at_once.classes[1].max_starvation = Some(Span::ZERO);
    assert_eq!(Resource::new(&at_once).unwrap_err().field, SpecField::Class(1, "max_starvation"));
}

#[test]
fn all_faults_of_a_specification_are_told() {
    let mut spec = with_bulk(ten_per_second(), 1.5);
    spec.default_class = Some(name("nobody"));
    spec.limits[0].capacity = Amount::ZERO;
    spec.limits[0].period = Span::ZERO;
    let faults = Resource::faults(&spec);
    let places: Vec<SpecField> = faults.iter().map(|fault| fault.field).collect();
    let expected = [
        SpecField::Resource("default_class"),
        SpecField::Limit(0, "capacity"),
        SpecField::Limit(0, "period"),
        SpecField::Class(1, "headroom"),
    ];
    assert_eq!(places, expected);
    assert_eq!(faults[0].reason, "there is no class `nobody`; there are `urgent`, `bulk`");
    assert_eq!(Resource::faults(&ten_per_second()), []);
}

#[test]
fn a_cost_is_refused_with_the_limit_that_can_not_pay_it() {
    let resource = Resource::new(&ten_per_second()).unwrap();
    let bill = |cost: &[(&str, f64)]| {
        let cost: Vec<(&str, Amount)> = cost.iter().map(|(unit, units)| (*unit, amount(*units))).collect();
        resource
            .bill(&Labels::new(), cost.into_iter())
            .map(|bill| bill.charged().count())
            .map_err(|refusal| refusal.to_string())
    };
    let too_much = "the cost of 10.000001 exceeds the limit's capacity of 10; split the call";
    let unknown = "`cost.pages`: no limit counts this unit; limits count `requests`";
    assert_eq!(bill(&[]), Ok(1));
    assert_eq!(bill(&[("requests", 0.0)]), Ok(0));
    assert_eq!(bill(&[("requests", 10.0)]), Ok(1));
    assert_eq!(bill(&[("requests", 10.000_001)]), Err(too_much.to_owned()));
    assert_eq!(bill(&[("pages", 1.0)]), Err(unknown.to_owned()));
}

/// Any event, after a pause.
fn event() -> impl Strategy<Value = (u64, Kind)> {
    let mode = prop_oneof![Just(Mode::Allow), Just(Mode::Reserve), Just(Mode::Wait)];
    let ask = (0..60_u8, 0..6_u8, 0..=10_u64, any::<bool>(), mode, prop::option::of(0..6_u64)).prop_map(
        |(id, client, cost, bulk, mode, within)| {
            let id = (id < 50).then_some(id);
            Kind::Ask { id, client, cost, bulk, mode, within }
        },
    );
    let settle = (0..50_u8, prop::option::of(0..15_u64), any::<bool>());
    let kind = prop_oneof![
        60 => ask,
        20 => settle.prop_map(|(id, actual, is_refused)| Kind::Settle { id, actual, is_refused }),
        3 => Just(Kind::Checkpoint),
        1 => Just(Kind::HandOver),
    ];
    (prop_oneof![Just(0), 0..500_u64], kind)
}

#[derive(Clone, Debug)]
enum Kind {
    Ask { id: Option<u8>, client: u8, cost: u64, bulk: bool, mode: Mode, within: Option<u64> },
    Settle { id: u8, actual: Option<u64>, is_refused: bool },
    Checkpoint,
    HandOver,
}

/// Two limits, one for each of few clients, whose shares are fair, and a window.
fn crowded() -> ResourceSpec {
    let each = LimitSpec { name: name("each"), ..by("client", limit("requests", 10.0, span(900))) };
    let mut spec = with_bulk(ten_per_second(), 0.2);
    let window =
        LimitSpec { name: name("window"), algorithm: Algorithm::SlidingWindow, ..limit("requests", 40.0, span(3000)) };
    spec.limits.extend([each, window]);
    spec.classes[1].max_starvation = Some(span(700));
    spec.bounds.max_keys = 3;
    spec.fair_share = Some(FairShare { label: "client".to_owned(), weights: [].into() });
    spec
}

/// All commands and levels, as text. `is_viewed`: between the events, people look at everything.
fn transcript(events: &[(u64, Kind)], is_viewed: bool) -> String {
    let mut scheduler = Scheduler::new(Resource::new(&crowded()).unwrap(), Epoch::new(3), Time::ORIGIN).fenced();
    let (mut now, mut text) = (Time::ORIGIN, String::new());
    for (number, (pause, kind)) in events.iter().enumerate() {
        now += span(*pause);
        while let Some(wakeup) = scheduler.next_wakeup().filter(|wakeup| wakeup.at <= now) {
            scheduler.handle(wakeup.at, Event::Wake);
            text += &format!("{wakeup:?}\n");
        }
        if is_viewed {
            view(&mut scheduler, now);
        }
        for event in events_of(&mut scheduler, now, number, kind) {
            scheduler.handle(now, event);
        }
        while let Some(command) = scheduler.poll_command() {
            text += &format!("{now} {command:?}\n");
        }
    }
    format!("{text}{:?}", scheduler.snapshot(now, usize::MAX))
}

fn view(scheduler: &mut Scheduler<usize>, now: Time) {
    let _ = scheduler.limit_status(now);
    let _ = scheduler.class_status(now);
    let _ = scheduler.explain(now, &Question::default());
    let _ = scheduler.left(now, &PermitId::new("1").unwrap());
}

fn events_of(scheduler: &mut Scheduler<usize>, now: Time, to: usize, kind: &Kind) -> Vec<Event<usize>> {
    if let Kind::Checkpoint = kind {
        return scheduler
            .checkpoint(now)
            .map(|checkpoint| Event::CheckpointStored(checkpoint.number))
            .into_iter()
            .collect();
    }
    vec![event_of(scheduler.resource(), to, kind)]
}

fn labels(client: u8) -> Labels<'static> {
    let mut labels = Labels::new();
    labels.set("client", client.to_string()).unwrap();
    labels
}

fn event_of(resource: &Resource, to: usize, kind: &Kind) -> Event<usize> {
    let permit = |id: u8| PermitId::new(&id.to_string()).unwrap();
    let units = |count: u64| amount(count as f64);
    match kind {
        Kind::Ask { id, client, cost, bulk, mode, within } => Event::Ask(Ask {
            to,
            id: id.map_or(PermitId::secret(to as u128), permit),
            identity: Identity::default(),
            bill: resource.bill(&labels(*client), [("requests", units(*cost))].into_iter()).unwrap(),
            class: resource.class(if *bulk { "bulk" } else { "urgent" }).unwrap(),
            mode: *mode,
            // Few values, so that several are late at once.
            max_wait: within.map(|within| span(within * 300)),
            age: Span::ZERO,
            progress: true,
            client: Some(client.to_string().into()),
            counted_for: None,
            call: None,
        }),
        Kind::Settle { id, actual, is_refused } => {
            let used = |count| Outcome::Used(vec![("requests".to_owned(), units(count))]);
            Event::Settle(Settle {
                to: Some(to),
                id: permit(*id),
                outcome: actual.map_or(Outcome::Unused, used),
                observation: is_refused.then(|| said(limited(Some(400)))),
                is_throttled: *is_refused,
                call: None,
            })
        }
        Kind::Checkpoint => unreachable!("a checkpoint is made, not told"),
        Kind::HandOver => Event::HandOver,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_same_events_give_the_same_commands(events in prop::collection::vec(event(), 1..150)) {
        prop_assert_eq!(transcript(&events, false), transcript(&events, false));
    }

    #[test]
    fn views_change_nothing(events in prop::collection::vec(event(), 1..150)) {
        prop_assert_eq!(transcript(&events, true), transcript(&events, false));
    }
}

/// The sets of keys have one entry for each bucket, whatever was promised, returned or frozen before.
#[test]
fn returned_promises_and_former_freezes_of_a_key_are_forgotten() {
    let spec = resource(vec![by("client", limit("requests", 10.0, span(1000)))]);
    let mut script = "0 reserve first client:x requests=10 -> first@0\n".to_owned();
    for number in 1..=10 {
        let far = 100 * number;
        script += &format!("0 reserve a{number} client:x requests={number} -> a{number}@{far}\n");
        script += &format!("0 unused a{number} -> a{number}:settled\n");
    }
    (0..10).for_each(|number| script += &format!("0 reserve b{number} client:y -> b{number}@0\n"));
    for number in 0..10 {
        let pause = 1000 + number;
        script += &format!("{number} answered b{number} 429 after={pause} -> b{number}:settled\n");
    }
    play(&spec, &script);
}
