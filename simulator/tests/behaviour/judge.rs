//! The judge bites: it finds every fault that a test plants in a correct trace.

use crate::prelude::*;
use std::collections::BTreeMap;

/// Ten a second for two urgent workers and two clients of ten workers each.
fn world() -> World {
    let resource = ResourceSpec {
        classes: vec![ClassSpec::new(name("urgent")), ClassSpec::new(name("bulk"))],
        ..shared(vec![limit("requests", 10.0, Span::from_secs(1))])
    };
    let urgent = Fleet { calls: Some(4), ..Fleet::new("urgent", 2) }.of_class("urgent");
    let bulk = ["one", "other"].map(|name| {
        let fleet = Fleet { calls: Some(5), ..Fleet::new(name, 10) };
        fleet.of_class("bulk").of_clients(Clients::One)
    });
    bulk.into_iter().fold(World::new(resource, 2).with(urgent), World::with)
}

/// The first request of a class that was granted after other requests had waited for it.
fn granted_late(outcome: &Outcome, class: usize) -> usize {
    let waited = |request: &usize| {
        let request = &outcome.requests[*request];
        request.class.index() == class && request.granted.unwrap().at > request.arrived + Span::from_millis(100)
    };
    outcome.grants.iter().copied().find(waited).unwrap()
}

fn grant(outcome: &mut Outcome, request: usize, at: Time) {
    outcome.requests[request].granted = Some(Granted { at, start: at, account: None });
}

/// Grants one request only at the end, as if its call had been made then.
fn hold_back(outcome: &mut Outcome, request: usize, end: Time) {
    grant(outcome, request, end);
    let calls = outcome.fleets.iter_mut().flat_map(|fleet| &mut fleet.calls);
    calls.filter(|call| call.request == Some(request)).for_each(|call| call.at = end);
}

/// A change of a trace, and the judge's verdict on it.
type Tampering<'a> = (&'a dyn Fn(&mut Outcome), &'a str);

#[test]
fn every_planted_fault_is_found() {
    let world = world();
    let right = world.run().unwrap();
    judge(&world, &right).unwrap();
    let violations = |tamper: &dyn Fn(&mut Outcome), violation: &str| {
        let mut outcome = right.clone();
        tamper(&mut outcome);
        judge(&world, &outcome).map_or_else(|found| found.to_string(), |()| panic!("nothing about `{violation}`"))
    };
    let end = Time::ORIGIN + right.finished();
    #[rustfmt::skip]
    let table: [Tampering<'_>; 7] = [
        (&|outcome| outcome.fleets[1].calls[3].ok = false,                     "1 × 429"),
        (&|outcome| (30..35).for_each(|call| outcome.fleets[1].calls[call].at = Time::ORIGIN),   "calls take"),
        (&|outcome| (60..65).for_each(|request| grant(outcome, request, Time::ORIGIN)), "starts take"),
        (&|outcome| {
            let call = outcome.fleets[2].calls[40].clone();
            outcome.requests[call.request.unwrap()].granted.as_mut().unwrap().start = call.at + Span::from_secs(20);
        },                                                                     "and was permitted to at"),
        (&|outcome| hold_back(outcome, granted_late(&right, 0), end),          "is less urgent"),
        (&|outcome| drop(outcome.fleets[2].calls.pop()),                       "fleet `other` made 49 of 50 calls"),
        (&|outcome| favour(outcome, &right),                                   "drew apart by more than a call of each"),
    ];
    for (tamper, violation) in table {
        let found = violations(tamper, violation);
        assert!(found.contains(violation), "{found}, not {violation}");
    }
}

/// Puts one client's calls before those of the other, at the same starts.
fn favour(outcome: &mut Outcome, right: &Outcome) {
    let bulk: Vec<usize> = right.grants.iter().copied().filter(|one| right.requests[*one].class.index() == 1).collect();
    let (mut order, others): (Vec<usize>, Vec<usize>) =
        bulk.iter().partition(|request| right.requests[**request].worker < 12);
    order.extend(others);
    for (earlier, request) in bulk.iter().zip(&order) {
        outcome.requests[*request].granted = right.requests[*earlier].granted;
        outcome.requests[*request].arrived = Time::ORIGIN;
    }
    outcome.fleets.iter_mut().for_each(|fleet| fleet.calls.iter_mut().for_each(|call| call.request = None));
    let place = |grants: &[usize], request| grants.iter().position(|one| *one == request).unwrap();
    let moved: BTreeMap<usize, usize> = bulk.iter().map(|one| place(&right.grants, *one)).zip(order).collect();
    moved.into_iter().for_each(|(place, request)| outcome.grants[place] = request);
}
