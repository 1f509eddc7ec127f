//! Checks that urgent classes go first and clients get equal shares.

use super::Violation;
use super::buckets::Buckets;
use super::limits::is_windowed;
use crate::outcome::{Granted, Outcome, Request};
use crate::world::World;
use rampmeter_policy::spec::Algorithm;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// Of two requests that wait for the same limits, the more urgent one goes first if it costs no more and leaves no more
/// headroom. Worlds with reservations, whose gaps may fit only the less urgent one, are not checked.
pub(super) fn check_classes(world: &World, buckets: &Buckets<'_>, outcome: &Outcome) -> Result<(), Violation> {
    if world.fleets.iter().any(|fleet| fleet.mode == Mode::Reserve) {
        return Ok(());
    }
    let waiting = waiting(world, outcome);
    for by in granted(outcome).filter(|by| waits_in_turn(world, by)) {
        let at = by.granted.expect("granted").at;
        let in_line: Vec<&Request> = waiting.iter().copied().filter(|other| other.waits_at(at)).collect();
        let passed = in_line.iter().find(|other| goes_before(world, buckets, other, by));
        if let Some(passed) = passed.filter(|passed| !is_behind_dearer(buckets, passed, by, &in_line)) {
            return Err(Violation::Passed { passed: passed.worker, by: by.worker, at });
        }
    }
    Ok(())
}

/// A reservation is promised its start on arrival, so a later one of the same class, buckets and cost starts no
/// earlier. What is given back or settled allows earlier starts, so the order counts only between such events. Worlds
/// with waiting requests, which reservations queue behind and which may need less than they seemed to, are not checked.
pub(super) fn check_reservations(world: &World, buckets: &Buckets<'_>, outcome: &Outcome) -> Result<(), Violation> {
    if world.fleets.iter().any(|fleet| fleet.mode != Mode::Reserve) {
        return Ok(());
    }
    let makes_room = |request: &Request| request.returned.into_iter().chain(request.settled);
    let mut room: Vec<Time> = outcome.requests.iter().flat_map(makes_room).collect();
    room.sort_unstable();
    let is_same = |one: &Request, other: &Request| {
        let accounts = buckets.pool.accounts_for(one);
        let is_same_at = |account: &Option<usize>| {
            let charge = |limit, request| buckets.charge_at(*account, limit, request);
            (0..buckets.limits.len()).all(|limit| charge(limit, one) == charge(limit, other))
        };
        one.class == other.class && accounts == buckets.pool.accounts_for(other) && accounts.iter().all(is_same_at)
    };
    let mut before: Vec<&Request> = Vec::new();
    for by in granted(outcome) {
        let Granted { at, start, .. } = by.granted.expect("granted");
        before.retain(|request| {
            let promised = request.granted.expect("granted").at;
            room.partition_point(|time| *time < promised) == room.partition_point(|time| *time <= at)
        });
        let passed =
            before.iter().find(|earlier| is_same(earlier, by) && earlier.granted.expect("granted").start > start);
        if let Some(passed) = passed {
            return Err(Violation::Overtaken { passed: passed.worker, by: by.worker, at: start });
        }
        before.push(by);
    }
    Ok(())
}

/// Start-time fair queueing (Goyal, Vin and Cheng, 1997): while two clients of a class wait for the same limits, their
/// weighted service differs by at most one largest call of each. If costs in a window differ, small calls use its rest
/// and get more. In a pool, each account may be kept for a large call that small ones pass at the others.
pub(super) fn check_clients(world: &World, buckets: &Buckets<'_>, outcome: &Outcome) -> Result<(), Violation> {
    if world.resource.fair_share.is_none() {
        return Ok(());
    }
    for class in 0..world.resource.classes.len().max(1) {
        let clients = clients_of(world, buckets, outcome, class);
        if clients.iter().any(|client| client.uses_windows(buckets)) && !are_alike(outcome, class) {
            continue;
        }
        for (number, one) in clients.iter().enumerate() {
            for other in clients[number + 1..].iter().filter(|other| other.limits == one.limits) {
                if let Some(until) = drawn_apart(world, outcome, buckets.pool.size(), [one, other]) {
                    let clients = [one, other].map(|client| client.name.clone());
                    return Err(Violation::Unfair { class, clients, until });
                }
            }
        }
    }
    Ok(())
}

fn are_alike(outcome: &Outcome, class: usize) -> bool {
    let mut costs =
        outcome.requests.iter().filter(|request| request.class.index() == class).map(|request| &request.cost);
    costs.next().is_none_or(|first| costs.all(|cost| cost == first))
}

fn granted(outcome: &Outcome) -> impl Iterator<Item = &Request> {
    outcome.grants.iter().map(|request| &outcome.requests[*request])
}

fn waiting<'a>(world: &World, outcome: &'a Outcome) -> Vec<&'a Request> {
    outcome.requests.iter().filter(|request| waits_in_turn(world, request)).collect()
}

/// Reservations are promised at once and starving requests promoted; neither waits for its turn.
fn waits_in_turn(world: &World, request: &Request) -> bool {
    let class = world.resource.classes.get(request.class.index());
    let (_, fleet) = world.fleet_of(request.worker);
    fleet.mode == Mode::Wait && class.is_none_or(|class| class.max_starvation.is_none())
}

fn goes_before(world: &World, buckets: &Buckets<'_>, one: &Request, other: &Request) -> bool {
    let classes = &world.resource.classes;
    let account = other.granted.and_then(|granted| granted.account);
    let cheaper = |limit| match [one, other].map(|request| buckets.charge_at(account, limit, request)) {
        [Some((bucket, amount)), Some((same, more))] => bucket == same && amount <= more,
        [Some(_), None] => false,
        [None, Some(_) | None] => true,
    };
    one.class < other.class
        && classes[one.class.index()].headroom <= classes[other.class.index()].headroom
        && buckets.pool.may_make(account, one)
        && (0..buckets.limits.len()).all(cheaper)
}

/// Returns whether a request of the same or a more urgent class takes more of a limit of calls in
/// flight than `one`. The free places may be too few for it, so other classes may use them, as `by` did.
fn is_behind_dearer(buckets: &Buckets<'_>, one: &Request, by: &Request, in_line: &[&Request]) -> bool {
    let account = by.granted.and_then(|granted| granted.account);
    let counted = |limit: &usize| buckets.limits[*limit].algorithm == Algorithm::Concurrency;
    let charge = |limit, request: &Request| buckets.charge_at(account, limit, request);
    (0..buckets.limits.len()).filter(counted).filter_map(|limit| Some((limit, charge(limit, one)?))).any(
        |(limit, (bucket, amount))| {
            let dearer =
                |other: &Request| charge(limit, other).is_some_and(|(same, more)| same == bucket && more > amount);
            in_line.iter().any(|other| other.class <= one.class && dearer(other))
        },
    )
}

/// A client of a class, all of whose calls need the same shared limits.
struct Client {
    name: String,
    weight: f64,
    limits: Vec<usize>,
    requests: Vec<usize>,
    largest: f64,
}

fn clients_of(world: &World, buckets: &Buckets<'_>, outcome: &Outcome, class: usize) -> Vec<Client> {
    let mut clients: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, request) in outcome.requests.iter().enumerate().filter(|(_, one)| one.class.index() == class) {
        let (_, fleet) = world.fleet_of(request.worker);
        let name = fleet.client(request.worker).map_or(String::new(), |name| name.to_string());
        clients.entry(name).or_default().push(number);
    }
    clients.into_iter().filter_map(|(name, requests)| Client::new(world, buckets, outcome, name, requests)).collect()
}

impl Client {
    /// `None` for a client whose calls need different limits, may wait for other limits, or do not wait for their turn,
    /// or that has a request with an age, a refusal, a returned permit, or accounts that may not make its call.
    fn new(
        world: &World,
        buckets: &Buckets<'_>,
        outcome: &Outcome,
        name: String,
        requests: Vec<usize>,
    ) -> Option<Self> {
        let all = || requests.iter().map(|number| &outcome.requests[*number]);
        let charged = |request: &Request| buckets.charged(request.worker, &request.cost);
        let limits = charged(all().next()?);
        if !limits.iter().all(|limit| buckets.is_for_all(*limit)) {
            return None;
        }
        let is_free = |request: &Request| buckets.pool.accounts_for(request).len() == buckets.pool.size();
        let fits = |request: &Request| charged(request) == limits && waits_in_turn(world, request) && is_free(request);
        if !all().all(|request| fits(request) && request.returned.is_none() && request.age == Span::ZERO) {
            return None;
        }
        let weight = world.weight(&name);
        let largest = all().map(|request| world.dominant_share(&request.cost)).fold(0.0, f64::max) / weight;
        Some(Client { name, weight, limits, requests, largest })
    }

    fn uses_windows(&self, buckets: &Buckets<'_>) -> bool {
        self.limits.iter().any(|limit| is_windowed(&buckets.limits[*limit]))
    }

    fn waits_at(&self, outcome: &Outcome, time: Time) -> bool {
        self.requests.iter().any(|number| outcome.requests[*number].waits_at(time))
    }
}

/// Returns when a client first got too far ahead while both waited without a break.
fn drawn_apart(world: &World, outcome: &Outcome, accounts: usize, pair: [&Client; 2]) -> Option<Time> {
    let most = (pair[0].largest + pair[1].largest) * accounts as f64;
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
