//! Who is served before whom.

use super::Violation;
use crate::cost::amount_of;
use crate::outcome::{Outcome, Request};
use crate::world::World;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::spec::LimitSpec;
use std::collections::BTreeMap;

/// Whoever waits for the same limits, is at least as cheap, leaves no more to others and is more urgent, goes first. Beside
/// reservations there may be gaps in which others start meanwhile, without any harm to the first in line, who does not fit.
pub(super) fn check_classes(world: &World, outcome: &Outcome) -> Result<(), Violation> {
    if world.fleets.iter().any(|fleet| fleet.mode == Mode::Reserve) {
        return Ok(());
    }
    let waiting = waiting(world, outcome);
    for by in granted(outcome).filter(|by| waits_in_turn(world, by)) {
        let at = by.granted.expect("granted").at;
        let passed = waiting.iter().find(|other| other.waits_at(at) && goes_before(world, other, by));
        if let Some(passed) = passed {
            return Err(Violation::Passed { passed: passed.worker, by: by.worker, at });
        }
    }
    Ok(())
}

/// Start-time fair queueing (Goyal, Vin and Cheng, 1997): while two clients of a class both wait, for the same limits,
/// neither gets ahead of the other by more than the largest call of each, by weight.
pub(super) fn check_clients(world: &World, outcome: &Outcome) -> Result<(), Violation> {
    if world.resource.fair_share.is_none() {
        return Ok(());
    }
    for class in 0..world.resource.classes.len().max(1) {
        let clients = clients_of(world, outcome, class);
        for (number, one) in clients.iter().enumerate() {
            for other in clients[number + 1..].iter().filter(|other| other.units == one.units) {
                if let Some(until) = drawn_apart(world, outcome, [one, other]) {
                    let clients = [one, other].map(|client| client.name.clone());
                    return Err(Violation::Unfair { class, clients, until });
                }
            }
        }
    }
    Ok(())
}

fn granted(outcome: &Outcome) -> impl Iterator<Item = &Request> {
    outcome.grants.iter().map(|request| &outcome.requests[*request])
}

fn waiting<'a>(world: &World, outcome: &'a Outcome) -> Vec<&'a Request> {
    outcome.requests.iter().filter(|request| waits_in_turn(world, request)).collect()
}

/// Reservations are promised at once, and who starves is promoted: neither waits for its turn.
fn waits_in_turn(world: &World, request: &Request) -> bool {
    let class = world.resource.classes.get(request.class.index());
    let (_, fleet) = world.fleet_of(request.worker);
    fleet.mode == Mode::Wait && class.is_none_or(|class| class.max_starvation.is_none())
}

fn goes_before(world: &World, one: &Request, other: &Request) -> bool {
    let classes = &world.resource.classes;
    let cheaper = |limit: &LimitSpec| amount_of(&one.cost, &limit.unit) <= amount_of(&other.cost, &limit.unit);
    one.class < other.class
        && classes[one.class.index()].headroom <= classes[other.class.index()].headroom
        && world.resource.limits.iter().all(cheaper)
}

/// One client of a class, all of whose calls need the same units.
struct Client<'a> {
    name: String,
    weight: f64,
    units: Vec<&'a str>,
    requests: Vec<usize>,
    largest: f64,
}

fn clients_of<'a>(world: &'a World, outcome: &Outcome, class: usize) -> Vec<Client<'a>> {
    let mut clients: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, request) in outcome.requests.iter().enumerate().filter(|(_, one)| one.class.index() == class) {
        let (_, fleet) = world.fleet_of(request.worker);
        let name = fleet.client(request.worker).map_or(String::new(), |name| name.to_string());
        clients.entry(name).or_default().push(number);
    }
    clients.into_iter().filter_map(|(name, requests)| Client::new(world, outcome, name, requests)).collect()
}

impl<'a> Client<'a> {
    /// Nothing for one whose calls differ in what they need, do not wait for their turn, keep a place from before, or were
    /// given back.
    fn new(world: &'a World, outcome: &Outcome, name: String, requests: Vec<usize>) -> Option<Self> {
        let all = || requests.iter().map(|number| &outcome.requests[*number]);
        let units = units_of(world, all().next()?);
        let fits = |request: &Request| units_of(world, request) == units && waits_in_turn(world, request);
        if !all().all(|request| fits(request) && request.returned.is_none() && request.age == Span::ZERO) {
            return None;
        }
        let weight = world.weight(&name);
        let largest = all().map(|request| world.dominant_share(&request.cost)).fold(0.0, f64::max) / weight;
        Some(Client { name, weight, units, requests, largest })
    }

    fn waits_at(&self, outcome: &Outcome, time: Time) -> bool {
        self.requests.iter().any(|number| outcome.requests[*number].waits_at(time))
    }
}

fn units_of<'a>(world: &'a World, request: &Request) -> Vec<&'a str> {
    let units = world.resource.limits.iter().map(|limit| &*limit.unit);
    units.filter(|unit| amount_of(&request.cost, unit) > Amount::ZERO).collect()
}

/// When one was first too far ahead, while both have waited without a break.
fn drawn_apart(world: &World, outcome: &Outcome, pair: [&Client<'_>; 2]) -> Option<Time> {
    let most = pair[0].largest + pair[1].largest;
    let (mut lead, mut least, mut greatest) = (0.0, 0.0, 0.0);
    for number in &outcome.grants {
        let request = &outcome.requests[*number];
        let at = request.granted?.at;
        let share = world.dominant_share(&request.cost);
        match pair.map(|client| client.requests.binary_search(number).is_ok()) {
            [true, _] => lead += share / pair[0].weight,
            [_, true] => lead -= share / pair[1].weight,
            [false, false] => {}
        }
        if !pair.iter().all(|client| client.waits_at(outcome, at)) {
            (lead, least, greatest) = (0.0, 0.0, 0.0);
        }
        (least, greatest) = (f64::min(least, lead), f64::max(greatest, lead));
        if greatest - least > most * (1.0 + 1e-9) {
            return Some(at);
        }
    }
    None
}
