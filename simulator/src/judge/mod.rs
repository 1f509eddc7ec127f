//! Checks the outcome of a world by the core's settings, without its arithmetic.

mod accounts;
mod buckets;
mod holdings;
mod limits;
mod periods;
mod pool;
mod quotas;
mod room;
mod tokens;
mod turns;
mod violation;

pub use violation::Violation;

use self::buckets::Buckets;
use crate::outcome::{Outcome, Request};
use crate::world::World;
use rampmeter_protocol::time::Time;

/// Checks a world that ran under [late binding](crate::workers::strategy::Strategy::LateBinding),
/// whose upstream enforces exactly the configured limits and whose network loses nothing: no call
/// may get a 429, and [the rules for every world](judge_grants) hold.
///
/// # Errors
/// The first violation.
pub fn judge(world: &World, outcome: &Outcome) -> Result<(), Violation> {
    if outcome.rejected() > 0 {
        return Err(Violation::Rejected(outcome.rejected()));
    }
    let buckets = Buckets::of(world);
    limits::check_calls(&buckets, outcome)?;
    quotas::check_refusals(world, &buckets, outcome)?;
    judge_grants(world, outcome)
}

/// Checks a world with incidents by the rules of [`judge`], except for the order of requests.
///
/// # Errors
/// The first violation.
pub fn judge_calls(world: &World, outcome: &Outcome) -> Result<(), Violation> {
    if outcome.rejected() > 0 {
        return Err(Violation::Rejected(outcome.rejected()));
    }
    let buckets = Buckets::of(world);
    limits::check_calls(&buckets, outcome)?;
    accounts::check_accounts(world, &buckets, outcome)?;
    check_times(outcome)?;
    check_served(world, outcome)
}

/// Checks grants, whatever network and upstream did: no limit has more starts than it can pay, each call has an account
/// that may make it, none is early, no request passes a more urgent one, two waiting clients are served evenly,
/// reservations keep their order, and every request is served unless it needs a spent quota that never resets.
///
/// # Errors
/// The first violation.
pub fn judge_grants(world: &World, outcome: &Outcome) -> Result<(), Violation> {
    let buckets = Buckets::of(world);
    limits::check_starts(&buckets, outcome)?;
    accounts::check_accounts(world, &buckets, outcome)?;
    check_times(outcome)?;
    turns::check_classes(world, &buckets, outcome)?;
    turns::check_clients(world, &buckets, outcome)?;
    turns::check_reservations(world, &buckets, outcome)?;
    check_served(world, outcome)
}

/// Checks that no call is made before its start.
fn check_times(outcome: &Outcome) -> Result<(), Violation> {
    for call in outcome.fleets.iter().flat_map(|fleet| &fleet.calls) {
        let granted = call.request.and_then(|request| outcome.requests[request].granted);
        if let Some(granted) = granted.filter(|granted| call.at < granted.start) {
            return Err(Violation::Early { worker: call.worker, at: call.at, start: granted.start });
        }
    }
    Ok(())
}

/// Checks that no request waits forever. A worker that dies before its answer makes the call again.
fn check_served(world: &World, outcome: &Outcome) -> Result<(), Violation> {
    let ended = |until: Time| world.until.min(until) < Time::NEVER;
    for (fleet, result) in world.fleets.iter().zip(&outcome.fleets).filter(|(fleet, _)| !ended(fleet.until)) {
        let (made, wanted) = (result.ok(), fleet.workers * fleet.calls.unwrap_or(0) as usize);
        if made + (result.given_up as usize) < wanted {
            return Err(Violation::Unserved { fleet: fleet.name.clone(), made, wanted });
        }
    }
    Ok(())
}

impl Request {
    fn waits_at(&self, time: Time) -> bool {
        let ended = self.granted.map(|granted| granted.at).into_iter().chain(self.returned).min();
        self.arrived < time && ended.is_none_or(|ended| ended > time)
    }
}
