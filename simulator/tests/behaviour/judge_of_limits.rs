//! The judge bites, whatever a limit counts: for each kind one trace passes, and one is convicted.

use crate::prelude::*;
use rampmeter_policy::Resource;
use rampmeter_protocol::cost::Cost;
use std::sync::Arc;

/// A worker's call: the worker, its first and last millisecond, and the units it took.
type Made = (usize, u64, u64, f64);

fn ms(millis: u64) -> Time {
    Time::ORIGIN + Span::from_millis(millis)
}

/// Ten units in a second.
fn ten(algorithm: Algorithm) -> LimitSpec {
    let margin = Margin::Fixed(amount(0.0));
    LimitSpec { algorithm, margin, ..limit("units", 10.0, Span::from_secs(1)) }
}

/// Two workers, each a client of its own, which have made exactly these calls.
fn world(limit: LimitSpec, made: &[Made]) -> World {
    let fleet = |worker: usize| {
        let calls = made.iter().filter(|(by, ..)| *by == worker).count() as u32;
        Fleet { calls: Some(calls), ..Fleet::new(["one", "other"][worker], 1) }.of_clients(Clients::One)
    };
    World::new(resource(limit), 1).with(fleet(0)).with(fleet(1))
}

fn resource(limit: LimitSpec) -> ResourceSpec {
    shared(vec![limit])
}

fn request(limit: &LimitSpec, (worker, from, until, units): Made) -> Request {
    let mut cost = Cost::new();
    cost.set("units", amount(units)).unwrap();
    Request {
        worker,
        not: Vec::new(),
        class: Resource::new(&resource(limit.clone())).unwrap().default_class(),
        cost: Arc::new(cost),
        arrived: ms(from),
        age: Span::ZERO,
        estimate: None,
        granted: Some(Granted { at: ms(from), start: ms(from), account: None }),
        returned: None,
        spent: None,
        settled: Some(ms(until)),
    }
}

/// Calls that were granted when the workers asked for them.
fn outcome(limit: &LimitSpec, made: &[Made]) -> Outcome {
    let mut outcome = Outcome { fleets: vec![FleetOutcome::default(); 2], ..Outcome::default() };
    for one in made {
        let request = request(limit, *one);
        let number = outcome.requests.len();
        outcome.fleets[request.worker].calls.push(Call {
            worker: request.worker,
            account: None,
            at: request.arrived,
            cost: Arc::clone(&request.cost),
            wait: Span::ZERO,
            request: Some(number),
            ok: true,
            answered: request.settled.unwrap(),
        });
        outcome.grants.push(number);
        outcome.requests.push(request);
    }
    outcome
}

fn found(limit: &LimitSpec, made: &[Made]) -> String {
    let judged = judge(&world(limit.clone(), made), &outcome(limit, made));
    judged.err().map_or_else(String::new, |violation| violation.to_string())
}

/// A time zone in which a day and a month begin two seconds after the origin of time.
fn zone() -> TimeZone {
    TimeZone::fixed(Offset::from_seconds(-2).unwrap())
}

/// A little less than a day, in milliseconds.
const DAY: u64 = 86_000_000;

#[test]
fn each_kind_of_limit_is_judged() {
    use Alignment::{Day, Epoch, FirstUse, Month};
    let fixed = Algorithm::FixedWindow;
    let quota = |alignment| Algorithm::Quota(Some(alignment));
    #[rustfmt::skip]
    let table: [(LimitSpec, &[Made], &[Made]); 12] = [
        // limit                        a trace that passes                              too much
        (ten(Algorithm::TokenBucket),   &[(0, 0, 1, 10.0), (1, 900, 901, 9.0)],          &[(0, 0, 1, 10.0), (1, 900, 901, 10.0)]),
        (ten(Algorithm::LeakyBucket),   &[(0, 0, 1, 10.0), (1, 900, 901, 9.0)],          &[(0, 0, 1, 10.0), (1, 900, 901, 10.0)]),
        (ten(fixed(Epoch)),             &[(0, 900, 901, 10.0), (1, 1000, 1001, 10.0)],   &[(0, 1000, 1001, 6.0), (1, 1900, 1901, 5.0)]),
        (ten(fixed(FirstUse)),          &[(0, 300, 301, 10.0), (1, 1300, 1301, 10.0)],   &[(0, 300, 301, 6.0), (1, 1200, 1201, 5.0)]),
        (ten(fixed(Day(zone()))),       &[(0, 1999, 2001, 10.0), (1, 2000, 2001, 10.0)], &[(0, 2000, 2001, 6.0), (1, DAY, DAY, 5.0)]),
        (ten(fixed(Month(zone()))),     &[(0, 1999, 2001, 10.0), (1, 2000, 2001, 10.0)], &[(0, 2000, 2001, 6.0), (1, 30 * DAY, 30 * DAY, 5.0)]),
        (ten(Algorithm::SlidingWindow), &[(0, 300, 301, 6.0), (1, 1300, 1301, 10.0)],    &[(0, 900, 901, 6.0), (1, 1899, 1900, 5.0)]),
        // The place of a call that sends no report is free after a second.
        (ten(Algorithm::Concurrency),   &[(0, 500, 9000, 10.0), (1, 1500, 1501, 10.0)],  &[(0, 0, 500, 6.0), (1, 499, 600, 5.0)]),
        (ten(Algorithm::Quota(None)),   &[(0, 0, 1, 5.0), (1, DAY, DAY, 5.0)],           &[(0, 0, 1, 5.0), (1, DAY, DAY, 6.0)]),
        (ten(quota(Epoch)),             &[(0, 900, 901, 10.0), (1, 1000, 1001, 10.0)],   &[(0, 1000, 1001, 6.0), (1, 1900, 1901, 5.0)]),
        // Each client has the full limit.
        (by_client(fixed(Epoch)),       &[(0, 0, 1, 10.0), (1, 0, 1, 10.0)],             &[(0, 0, 1, 10.0), (1, 0, 1, 8.0), (1, 0, 1, 3.0)]),
        // A call that costs more than the scheduler gives out besides a margin has a window to
        // itself.
        (beside(2.0, fixed(Epoch)),     &[(0, 0, 1, 8.0), (1, 1000, 1001, 9.5)],         &[(0, 0, 1, 8.0), (1, 900, 901, 1.0)]),
    ];
    for (limit, passes, convicted) in table {
        let what = format!("{:?} by {:?}", limit.algorithm, limit.applies.key);
        assert_eq!(found(&limit, passes), "", "{what}");
        let found = found(&limit, convicted);
        assert!(found.contains("take 1000000 millionths more"), "{what}: {found}");
    }
}

fn by_client(algorithm: Algorithm) -> LimitSpec {
    let applies = Applies { key: vec!["client".to_owned()], ..Applies::default() };
    LimitSpec { applies, ..ten(algorithm) }
}

fn beside(margin: f64, algorithm: Algorithm) -> LimitSpec {
    LimitSpec { margin: Margin::Fixed(amount(margin)), ..ten(algorithm) }
}

#[test]
fn a_refusal_needs_a_spent_quota() {
    let limit = ten(Algorithm::Quota(Some(Alignment::Epoch)));
    // What one worker has taken, and when the other, which needs four, is refused.
    for (made, refused, right) in
        [((0, 0, 1, 7.0), 999, true), ((0, 0, 1, 6.0), 999, false), ((0, 0, 1, 7.0), 1000, false)]
    {
        let mut outcome = outcome(&limit, &[made]);
        let returned = Some(ms(refused));
        let spent = Some(name("units"));
        let other =
            Request { granted: None, settled: None, returned, spent, ..request(&limit, (1, refused, refused, 4.0)) };
        outcome.requests.push(other);
        let judged = judge(&world(limit.clone(), &[made]), &outcome);
        assert_eq!(judged.is_ok(), right, "{made:?} {refused}: {judged:?}");
    }
}
