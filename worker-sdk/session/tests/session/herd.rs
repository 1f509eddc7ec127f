//! An outage of half a minute, and the return of a fleet.
//!
//! The bounds are derived, not measured. If many clients send at random and independently of each
//! other, their number within a time is nearly Poisson distributed. Six deviations above its mean
//! do not happen.

use crate::fleet::{Fleet, Sent, Weather, peak};
use crate::prelude::*;

const HUB: ResourceNumber = ResourceNumber(0);
/// Clients with a single request each.
const WORKERS: usize = 1000;
/// A client beside them that has more to repeat than its budget allows.
const GIANT: usize = WORKERS;
const GIANT_ASKS: u64 = 10_000;

const BEGINS: Time = Time::from_nanos(5_000_000_000);
const ENDS: Time = Time::from_nanos(35_000_000_000);
/// How long a return is observed. In this time no client takes a silence for another outage.
const REST: Span = Span::from_secs(11);
const OVER: Time = Time::from_nanos(46_000_000_000);

const TEN: Span = Span::from_millis(10);
const HUNDRED: Span = Span::from_millis(100);
const SECOND: Span = Span::from_secs(1);

/// The messages that a client's budget allows at once, and the time until one more.
const BURST: u64 = 64;
const PACE: Span = Span::from_millis(50);
/// The longest wait of a client without other information.
const BACK_OFF: Span = Span::from_millis(250);

/// All requests wait in the queue, and were told so in the same moment.
fn waiting_fleet() -> Fleet {
    let mut fleet = Fleet::new(WORKERS + 1, Weather::Fair { epoch: Epoch::FIRST });
    (0..WORKERS).for_each(|worker| fleet.ask(Time::ORIGIN, worker, HUB, 0..1));
    fleet.ask(Time::ORIGIN, GIANT, HUB, 0..GIANT_ASKS);
    fleet
}

/// A fleet whose servers stay while the scheduler is gone. In the end another scheduler announces
/// to all clients at once that it leads.
fn without_scheduler() -> Fleet {
    let mut fleet = waiting_fleet();
    fleet.change(BEGINS, Weather::NoScheduler);
    fleet.change(ENDS, Weather::Fair { epoch: Epoch::new(2) });
    fleet.pass_until(OVER);
    fleet
}

/// A fleet whose servers are gone. In the end all clients are connected again in one moment.
fn without_server(until: Time) -> Fleet {
    let mut fleet = waiting_fleet();
    fleet.change(BEGINS, Weather::Disconnected);
    fleet.change(until, Weather::Fair { epoch: Epoch::FIRST });
    fleet.pass_until(until + REST);
    fleet
}

fn times<'a>(sent: impl Iterator<Item = &'a Sent>, chosen: impl Fn(usize) -> bool) -> Vec<Time> {
    sent.filter(|sent| chosen(sent.by)).map(|sent| sent.at).collect()
}

fn is_worker(client: usize) -> bool {
    client != GIANT
}

/// A number of messages that is never exceeded if `mean` is their mean.
fn bound(mean: f64) -> usize {
    (mean + 6.0 * mean.sqrt()) as usize
}

/// Checks that every worker asks once, at a random time within `spread` milliseconds.
fn check_return(fleet: &Fleet, ends: Time, spread: u64) {
    let back = times(fleet.sent_in(ends, ends + REST), is_worker);
    assert_eq!(back.len(), WORKERS, "no worker asks twice");
    assert!(back.iter().all(|at| *at <= ends + Span::from_millis(spread)), "the last one asks at {:?}", back.last());
    let most = |window: f64| bound(1000.0 * window / spread as f64);
    assert!(peak(&back, TEN) <= most(10.0), "{} within 10 ms", peak(&back, TEN));
    assert!(peak(&back, HUNDRED) <= most(100.0), "{} within 100 ms", peak(&back, HUNDRED));
}

/// Checks that the giant keeps to its budget, and has repeated everything in the end.
fn check_giant(fleet: &Fleet) {
    let all = times(fleet.sent_in(BEGINS, OVER), |client| client == GIANT);
    for span in [TEN, HUNDRED, SECOND, Span::from_secs(10), Span::from_secs(40)] {
        let budget = BURST + 1 + span.nanos() / PACE.nanos();
        assert!(peak(&all, span) as u64 <= budget, "{} within {span}", peak(&all, span));
    }
    let back = fleet.sent_in(ENDS, OVER).filter(|sent| sent.by == GIANT);
    let mut asks: Vec<u64> = back.flat_map(|sent| sent.asks.clone()).collect();
    asks.sort_unstable();
    assert!(asks.into_iter().eq(0..GIANT_ASKS), "each is asked again, and once");
}

#[test]
fn a_fleet_returns_from_an_outage_of_the_scheduler_without_a_herd() {
    let fleet = without_scheduler();
    check_return(&fleet, ENDS, 250);
    check_giant(&fleet);
}

#[test]
fn a_fleet_returns_from_an_outage_of_the_servers_without_a_herd() {
    let fleet = without_server(ENDS);
    assert_eq!(fleet.sent_in(BEGINS, ENDS).count(), 0);
    check_return(&fleet, ENDS, 250);
    check_giant(&fleet);
}

/// The outage ends before silent requests are repeated. A sixty-fourth of it is 100 ms.
#[test]
fn there_is_no_herd_after_some_seconds() {
    let ends = BEGINS + Span::from_millis(6400);
    check_return(&without_server(ends), ends, 100);
}

/// Settles that wait after an outage are sent over the same quarter of a second, and workers that were
/// started before their servers are no herd either.
#[test]
fn what_waits_for_a_connection_is_no_herd() {
    let settle = |session: &mut Session| {
        session.handle(Time::ORIGIN, Event::Connected);
        session.handle(BEGINS, Event::Disconnected);
        let settle = Box::new(Settle::used(session.id(AskNumber(1))));
        session.handle(BEGINS, Event::Settled { resource: HUB, settle });
    };
    let ask = |session: &mut Session| {
        let (ask, request) = (AskNumber(1), Box::new(PermitRequest::default()));
        session.handle(BEGINS, Event::Asked { ask, resource: HUB, request, deadline: Time::NEVER });
    };
    for wants in [&settle as &dyn Fn(&mut Session), &ask] {
        let sent = |seed: u64| {
            let mut session = Session::new(seed.into());
            wants(&mut session);
            session.handle(ENDS, Event::Connected);
            session.next_wakeup().expect("something waits")
        };
        let sent: Vec<Time> = (0..WORKERS as u64).map(sent).collect();
        assert!(peak(&sent, TEN) <= bound(1000.0 * 10.0 / 250.0), "{} within 10 ms", peak(&sent, TEN));
    }
}

/// Each worker tries once in 5 to 250 ms and a round trip, 128.5 ms in the mean. A thousand workers
/// notice within 1.5 s, and try six times more while their back-off grows.
#[test]
fn a_fleet_without_schedulers_makes_no_waves() {
    let fleet = without_scheduler();
    let tries = times(fleet.sent_in(BEGINS, ENDS), is_worker);
    let most = |window: f64| bound(1000.0 * window / 128.5 + 7.0 * 1000.0 * window / 1500.0);
    assert!(peak(&tries, TEN) <= most(10.0), "{} within 10 ms", peak(&tries, TEN));
    assert!(peak(&tries, HUNDRED) <= most(100.0), "{} within 100 ms", peak(&tries, HUNDRED));
}

/// A healthy fleet has its whole budgets left.
#[test]
fn a_new_leader_is_asked_everything_within_twenty_milliseconds() {
    let mut fleet = Fleet::new(WORKERS + 1, Weather::Fair { epoch: Epoch::FIRST });
    (0..WORKERS).for_each(|worker| fleet.ask(Time::ORIGIN, worker, HUB, 0..1));
    fleet.ask(Time::ORIGIN, GIANT, HUB, 0..64 * BURST);
    fleet.change(BEGINS, Weather::Fair { epoch: Epoch::new(2) });
    fleet.pass_until(BEGINS + Span::from_millis(20));
    let asks: usize = fleet.sent_in(BEGINS, OVER).map(|sent| sent.asks.len()).sum();
    assert_eq!(asks as u64, WORKERS as u64 + 64 * BURST);
}

#[test]
fn a_first_request_does_not_wait_for_the_budget_of_resends() {
    let mut fleet = waiting_fleet();
    fleet.change(BEGINS, Weather::NoScheduler);
    let late = BEGINS + Span::from_secs(25);
    fleet.ask(late, GIANT, HUB, GIANT_ASKS..GIANT_ASKS + 1);
    fleet.pass_until(late + BACK_OFF);
    assert!(fleet.sent_in(late, OVER).any(|sent| sent.asks == [GIANT_ASKS]), "at the next try, and by itself");
}

/// A hundred resources without a scheduler. Without a common budget the client would try 780 times
/// a second.
#[test]
fn the_resources_of_a_client_share_its_budget_and_take_turns() {
    const RESOURCES: u32 = 100;
    let mut fleet = Fleet::new(1, Weather::NoScheduler);
    for resource in 0..RESOURCES {
        fleet.ask(Time::ORIGIN, 0, ResourceNumber(resource), asks_of(resource));
    }
    fleet.pass_until(OVER);
    let tries = times(fleet.sent_in(Time::ORIGIN + TEN, OVER), |_| true);
    assert!(peak(&tries, SECOND) as u64 <= BURST + 1 + SECOND.nanos() / PACE.nanos(), "{}", peak(&tries, SECOND));
    // A round of all resources takes 5 s. In twice that time each had its turn.
    for resource in 0..RESOURCES {
        let turns = fleet.sent_in(OVER - Span::from_secs(10), OVER).filter(|sent| sent.of == ResourceNumber(resource));
        assert!(turns.count() > 0, "resource {resource} has no turn");
    }
}

/// Budgets that emptied in the same moment take their next message at random: 4 000 a second in
/// all.
#[test]
fn empty_budgets_are_not_in_step() {
    const CLIENTS: usize = 200;
    let mut fleet = Fleet::new(CLIENTS, Weather::NoScheduler);
    for resource in 0..40 {
        (0..CLIENTS).for_each(|client| fleet.ask(Time::ORIGIN, client, ResourceNumber(resource), asks_of(resource)));
    }
    fleet.pass_until(BEGINS + Span::from_secs(5));
    let tries = times(fleet.sent_in(BEGINS, OVER), |_| true);
    assert!(peak(&tries, TEN) <= bound(CLIENTS as f64 * 10.0 / 50.0), "{} within 10 ms", peak(&tries, TEN));
}

/// A call in 10 s from each of a thousand clients is a hundred a second, from the first moment on.
#[test]
fn a_fleet_at_its_safe_rate_is_even_and_within_it() {
    let interval = Span::from_secs(10);
    let rate = SafeRate::new(1, interval.duration()).expect("a safe rate");
    let mut fleet = Fleet::new(WORKERS, Weather::Fair { epoch: Epoch::FIRST });
    fleet.set_unreachable(Unreachable::SafeRate { after: Patience::default(), rate });
    (0..WORKERS).for_each(|worker| fleet.ask(Time::ORIGIN, worker, HUB, 0..4));
    fleet.change(BEGINS, Weather::NoScheduler);
    fleet.pass_until(ENDS);
    let of = |worker| fleet.granted().iter().filter(move |(_, by)| *by == worker).map(|(at, _)| *at).collect();
    for calls in (0..WORKERS).map(of).collect::<Vec<Vec<Time>>>() {
        assert!(calls.len() >= 2, "two rounds at least in thirty seconds less the patience");
        assert_eq!(peak(&calls, interval), 1);
    }
    let all: Vec<Time> = fleet.granted().iter().map(|(at, _)| *at).collect();
    assert!(peak(&all, SECOND) <= bound(WORKERS as f64 / 10.0), "{} within a second", peak(&all, SECOND));
}

/// One ask, with a number that no other ask has.
fn asks_of(resource: u32) -> Range<u64> {
    u64::from(resource)..u64::from(resource) + 1
}
