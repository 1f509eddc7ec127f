//! Limits of all kinds together: independent judges see no overdraft, and no request is forgotten.

use crate::prelude::*;
use proptest::prelude::*;

const UNITS: [&str; 4] = ["a", "b", "c", "d"];
const CLIENTS: [&str; 3] = ["x", "y", "z"];
/// The longest lease of a call without a report.
const TIME_TO_LIVE: Span = Span::from_secs(3);

/// A request, `pause` milliseconds after the previous one.
#[derive(Clone, Debug)]
struct Ask {
    pause: u64,
    cost: [u64; 4],
    client: usize,
    bulk: bool,
    mode: Mode,
    end: End,
}

/// The fate of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The call ends this many milliseconds after its start.
    Over(u64),
    /// The call ends this many milliseconds after its start, and costs less than its charge.
    Cheaper(u64),
    /// The call is never reported.
    Unheard,
    /// The call is not made, and its permit returns this many milliseconds after its start.
    GivenBack(u64),
}

fn ask() -> impl Strategy<Value = Ask> {
    let pause = prop_oneof![3 => Just(0_u64), 3 => 0..300_u64, 1 => 0..4_000_u64];
    let mode = prop_oneof![1 => Just(Mode::Reserve), 1 => Just(Mode::Allow), 2 => Just(Mode::Wait)];
    let end = prop_oneof![
        4 => (0..2_500_u64).prop_map(End::Over),
        2 => (0..2_500_u64).prop_map(End::Cheaper),
        2 => Just(End::Unheard),
        2 => (0..2_000_u64).prop_map(End::GivenBack),
    ];
    let cost = (0..=10_u64, 0..=12_u64, 0..=15_u64, 0..=6_u64).prop_map(|(a, b, c, d)| [a, b, c, d]);
    let cost =
        prop_oneof![1 => cost, 2 => (0..2_u64, 0..3_u64, 0..3_u64, 0..2_u64).prop_map(|(a, b, c, d)| [a, b, c, d])];
    (pause, cost, 0..CLIENTS.len(), any::<bool>(), mode, end).prop_map(|(pause, cost, client, bulk, mode, end)| Ask {
        pause,
        cost,
        client,
        bulk,
        mode,
        end,
    })
}

fn spec() -> impl Strategy<Value = ResourceSpec> {
    let alignment = prop_oneof![Just(Alignment::Epoch), Just(Alignment::FirstUse)];
    (alignment, any::<[bool; 4]>(), 0..4_usize).prop_map(|(alignment, keyed, bulk)| {
        let of = |unit, capacity, millis, algorithm| LimitSpec { algorithm, ..limit(unit, capacity, span(millis)) };
        let mut limits = vec![
            of("a", 10.0, 1_000, Algorithm::TokenBucket),
            of("b", 12.0, 1_500, Algorithm::FixedWindow(alignment)),
            of("c", 15.0, 2_000, Algorithm::SlidingWindow),
            LimitSpec { period: TIME_TO_LIVE, ..of("d", 6.0, 1, Algorithm::Concurrency) },
        ];
        for (limit, keyed) in limits.iter_mut().zip(keyed) {
            let key = if keyed { vec!["client".to_owned()] } else { Vec::new() };
            limit.applies = Applies { key, ..Applies::default() };
        }
        with_bulk(resource(limits), bulk as f64 / 10.0)
    })
}

/// A request and its outcome.
struct Asked {
    ask: Ask,
    request: usize,
    settled: Option<Time>,
}

fn play(spec: &ResourceSpec, asks: Vec<Ask>) -> (World, Vec<Asked>) {
    let (mut world, mut now, mut all) = (World::new(spec), Time::ORIGIN, Vec::<Asked>::new());
    for ask in asks {
        pass(&mut world, &mut all, now + span(ask.pause));
        now += span(ask.pause);
        let id = format!("p{}", all.len());
        let cost = UNITS.iter().zip(ask.cost).map(|(unit, units)| (*unit, units as f64)).collect();
        let asked = Wish {
            cost,
            labels: vec![("client", CLIENTS[ask.client])],
            class: Some(if ask.bulk { "bulk" } else { "urgent" }),
            ..wish(ask.mode, &[])
        };
        let request = world.ask(now, &asked.named(&id));
        all.push(Asked { ask, request, settled: None });
    }
    pass(&mut world, &mut all, now + Span::from_secs(3_600));
    (world, all)
}

/// Time passes, with every wake-up and every settle.
fn pass(world: &mut World, all: &mut [Asked], end: Time) {
    loop {
        let settle = all.iter().enumerate().filter_map(|(place, asked)| Some((asked.due(world)?, place))).min();
        let settle = settle.filter(|(at, _)| *at <= end);
        let wakeup = world.scheduler.next_wakeup().map(|wakeup| wakeup.at).filter(|at| *at <= end);
        match (settle, wakeup) {
            (Some((at, place)), wakeup) if wakeup.is_none_or(|wakeup| at < wakeup) => {
                all[place].settled = Some(at);
                world.settle(at, &format!("p{place}"), all[place].outcome());
            }
            (_, Some(at)) => world.handle(at, Event::Wake),
            (_, None) => return,
        }
    }
}

impl Asked {
    /// The time of its settle, if it was granted.
    fn due(&self, world: &World) -> Option<Time> {
        let start = world.start(self.request)?;
        match self.ask.end {
            End::Over(after) | End::Cheaper(after) | End::GivenBack(after) => {
                self.settled.is_none().then_some(start + span(after))
            }
            End::Unheard => None,
        }
    }

    fn outcome(&self) -> Outcome {
        match self.ask.end {
            End::GivenBack(_) => Outcome::Unused,
            End::Cheaper(_) => Outcome::Used(cheaper(self.ask.cost)),
            End::Over(_) | End::Unheard => Outcome::Used(Vec::new()),
        }
    }
}

fn cheaper(cost: [u64; 4]) -> Vec<(String, Amount)> {
    UNITS.iter().zip(cost).map(|(unit, units)| ((*unit).to_owned(), amount((units / 2) as f64))).collect()
}

/// The calls that a limit counts; with keys, those of one client.
fn calls(world: &World, all: &[Asked], limit: usize, client: Option<usize>) -> Vec<Held> {
    let made = all.iter().filter(|asked| !matches!(asked.ask.end, End::GivenBack(_)));
    let made = made.filter(|asked| client.is_none_or(|client| asked.ask.client == client));
    made.filter_map(|asked| {
        let start = world.start(asked.request)?;
        let until = asked.settled.unwrap_or(Time::NEVER).min(start + TIME_TO_LIVE);
        let charged = asked.ask.cost[limit];
        let cost = if matches!(asked.ask.end, End::Cheaper(_)) { charged / 2 } else { charged };
        // In flight, the estimate takes up room, not the actual cost.
        let cost = if limit == 3 { charged } else { cost };
        Some((start, until, amount(cost as f64)))
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_limit_is_overdrawn_and_no_request_forgotten(spec in spec(), asks in prop::collection::vec(ask(), 1..40)) {
        let (world, all) = play(&spec, asks);
        for asked in all.iter().filter(|asked| asked.ask.mode != Mode::Allow) {
            prop_assert!(world.start(asked.request).is_some(), "{:?} never started", asked.ask);
        }
        for (index, limit) in spec.limits.iter().enumerate() {
            let clients = if limit.applies.is_keyed() { (0..CLIENTS.len()).map(Some).collect() } else { vec![None] };
            for client in clients {
                let calls = calls(&world, &all, index, client);
                let lowest = if limit.algorithm == Algorithm::TokenBucket {
                    let calls: Vec<_> = calls.iter().map(|(at, _, cost)| (*at, *cost)).collect();
                    Judge::new(limit).lowest(&calls)
                } else {
                    Counter::new(limit).lowest(&calls)
                };
                prop_assert!(lowest >= 0, "{}, {:?}: {lowest} by {calls:?}", limit.name, limit.algorithm);
            }
        }
    }
}
