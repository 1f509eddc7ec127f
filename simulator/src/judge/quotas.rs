//! Checks that no request is refused for a quota that is not spent.

use super::Violation;
use super::buckets::Buckets;
use super::periods::{Window, window};
use super::room::Room;
use crate::outcome::{Outcome, Request};
use crate::world::World;
use rampmeter_policy::spec::{Algorithm, Alignment, LimitSpec, StartPolicy};
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};

/// A refusal is right only if the grants of the period and the request exceed the quota. Waiting
/// requests do not count, because they may never be granted, except against a reservation if the
/// quota has no resets: a reservation gets what they leave. In a pool, each account has to have spent one.
pub(super) fn check_refusals(world: &World, buckets: &Buckets<'_>, outcome: &Outcome) -> Result<(), Violation> {
    for request in &outcome.requests {
        let (Some(name), Some(at)) = (&request.spent, request.returned) else { continue };
        let place = buckets.limits.iter().position(|limit| limit.name == *name).expect("a limit of the resource");
        let places = if world.resource.accounts.is_empty() { place..place + 1 } else { 0..buckets.limits.len() };
        let is_spent_at = |account| {
            places.clone().any(|place| is_spent(world, buckets, outcome, place, &Refused { request, account, at }))
        };
        if !buckets.pool.accounts_for(request).into_iter().all(is_spent_at) {
            return Err(Violation::Refused { limit: name.to_string(), worker: request.worker, at });
        }
    }
    Ok(())
}

fn is_spent(world: &World, buckets: &Buckets<'_>, outcome: &Outcome, place: usize, refused: &Refused<'_>) -> bool {
    let Refused { request, account, at } = *refused;
    let limit = &buckets.limits[place];
    let Algorithm::Quota(alignment) = &limit.algorithm else { return false };
    let (_, fleet) = world.fleet_of(request.worker);
    let is_behind_waiting = fleet.mode == Mode::Reserve && alignment.is_none();
    let period = Period { alignment: alignment.as_ref(), limit, at, is_behind_waiting };
    let Some((bucket, cost)) = buckets.charge_at(account, place, request) else { return false };
    let begun_empty = world.resource.start == StartPolicy::Empty && period.reaches(Time::ORIGIN);
    let others = outcome.requests.iter().filter(|other| period.counts(other));
    // What waits may be served by this account.
    let account_of = |other: &Request| other.granted.map_or(account, |granted| granted.account);
    let charges = others.filter_map(|other| buckets.charge_at(account_of(other), place, other));
    let taken = charges.filter(|(other, _)| *other == bucket).map(|(_, amount)| i128::from(amount.micros()));
    let (taken, calls) = taken.fold((0, 0), |(sum, calls), amount| (sum + amount, calls + 1));
    begun_empty || Room::given_out(limit).excess(taken + i128::from(cost.micros()), calls + 1).is_some()
}

/// A refused request, and an account that might have made its call.
struct Refused<'a> {
    request: &'a Request,
    account: Option<usize>,
    at: Time,
}

struct Period<'a> {
    alignment: Option<&'a Alignment>,
    limit: &'a LimitSpec,
    at: Time,
    is_behind_waiting: bool,
}

impl Period<'_> {
    /// Returns whether a request takes part of the quota: it was granted a start in this period or
    /// a later one. A permit returned at the same time may have been returned after the refusal.
    fn counts(&self, request: &Request) -> bool {
        match request.granted.filter(|granted| granted.at <= self.at) {
            Some(granted) => request.returned.is_none_or(|returned| returned >= self.at) && self.reaches(granted.start),
            None => {
                let waits = request.arrived <= self.at && request.returned.is_none_or(|returned| returned > self.at);
                self.is_behind_waiting && waits
            }
        }
    }

    /// Returns whether a start at `time` may be in the period. A period that begins with its first
    /// call lasts until it has certainly ended.
    fn reaches(&self, time: Time) -> bool {
        let period = self.limit.period;
        match self.alignment {
            Some(Alignment::FirstUse) => time + period + period + SURELY > self.at,
            Some(Alignment::Epoch | Alignment::Day(_) | Alignment::Month(_)) | None => {
                let window = |time| -> Window { window(self.alignment, period, time) };
                window(time) >= window(self.at)
            }
        }
    }
}

/// More than any call can be late.
const SURELY: Span = Span::from_secs(1);
