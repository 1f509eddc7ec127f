//! Checks what happened, without a line of the core.

use crate::fleet::Fleet;
use crate::outcome::{Call, Outcome};
use crate::world::World;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::spec::LimitSpec;

/// What must not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The upstream answered 429.
    #[error("{0} × 429")]
    Rejected(usize),
    /// In some window calls took more of a limit than it holds and refills.
    #[error(
        "limit `{limit}`: {too_much} millionths more than capacity and refill allow, in a window that ends at {end}"
    )]
    Overdrawn {
        /// The limit.
        limit: String,
        /// What was too much, in millionths of its unit, rounded down.
        too_much: i128,
        /// The end of the window.
        end: Time,
    },
    /// Somebody waited for ever, or was refused.
    #[error("fleet `{fleet}` made {made} of {wanted} calls")]
    Unserved {
        /// The fleet.
        fleet: String,
        /// Calls made.
        made: usize,
        /// Calls that its workers had to make.
        wanted: usize,
    },
}

/// Checks a world that has run.
///
/// # Errors
/// The first violation.
pub fn judge(world: &World, outcome: &Outcome) -> Result<(), Violation> {
    if outcome.rejected() > 0 {
        return Err(Violation::Rejected(outcome.rejected()));
    }
    for limit in &world.resource.limits {
        check_windows(limit, &taken(world, outcome, limit))?;
    }
    world.fleets.iter().zip(&outcome.fleets).try_for_each(|(fleet, fared)| match fleet.calls {
        Some(calls) if world.until.min(fleet.until) == Time::NEVER => {
            let (made, wanted) = (fared.ok(), fleet.workers * calls as usize);
            let unserved = Violation::Unserved { fleet: fleet.name.clone(), made, wanted };
            if made == wanted { Ok(()) } else { Err(unserved) }
        }
        Some(_) | None => Ok(()),
    })
}

/// What each call took of `limit`, in the order in which the upstream saw them.
fn taken(world: &World, outcome: &Outcome, limit: &LimitSpec) -> Vec<(Time, Amount)> {
    let fleets = world.fleets.iter().zip(&outcome.fleets);
    let of_fleet = |(fleet, fared): (&Fleet, _)| {
        let (usual, shifted) = (fleet.amount(&limit.unit, false), fleet.amount(&limit.unit, true));
        let of_call = move |call: &Call| (call.at, if call.shifted { shifted } else { usual });
        let fared: &crate::outcome::FleetOutcome = fared;
        fared.calls.iter().filter(|call| call.ok).map(of_call).collect::<Vec<_>>()
    };
    let mut taken: Vec<(Time, Amount)> = fleets.flat_map(of_fleet).collect();
    taken.sort_by_key(|(at, _)| *at);
    taken
}

/// In any window of length T no more than capacity + rate · T: calls that began with a full bucket would have emptied it.
fn check_windows(limit: &LimitSpec, taken: &[(Time, Amount)]) -> Result<(), Violation> {
    let (capacity, period) = (i128::from(limit.capacity.micros()), i128::from(limit.period.nanos()));
    // Everything times the period, so that nothing is rounded.
    let (mut sum, mut lowest) = (0, i128::MAX);
    for (at, amount) in taken {
        let refilled = capacity * i128::from(at.nanos());
        lowest = lowest.min(sum - refilled);
        sum += i128::from(amount.micros()) * period;
        let too_much = sum - refilled - lowest - capacity * period;
        if too_much > 0 {
            let limit = limit.name.to_string();
            return Err(Violation::Overdrawn { limit, too_much: too_much / period, end: *at });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::name::Name;
    use rampmeter_protocol::time::Span;
    use rampmeter_scheduler_core::spec::Margin;

    #[test]
    fn a_window_may_take_what_a_full_bucket_and_its_refill_give() {
        let name = Name::new("ten-per-second").unwrap();
        let (capacity, margin) = (Amount::new(10.0).unwrap(), Margin::Fixed(Amount::ZERO));
        let limit = LimitSpec { name: name.clone(), unit: name, capacity, period: Span::from_secs(1), margin };
        let at = |millis| Time::ORIGIN + Span::from_millis(millis);
        let calls = |calls: &[(u64, f64)]| -> Vec<(Time, Amount)> {
            calls.iter().map(|(millis, units)| (at(*millis), Amount::new(*units).unwrap())).collect()
        };
        for allowed in [&[(0, 10.0)][..], &[(0, 5.0), (500, 10.0)], &[(0, 10.0), (100, 1.0), (1100, 10.0)]] {
            assert_eq!(check_windows(&limit, &calls(allowed)), Ok(()), "{allowed:?}");
        }
        for (denied, too_much) in
            [(&[(0, 10.0), (99, 1.0)][..], 10_000), (&[(0, 5.0), (5000, 6.0), (5100, 6.0)], 1_000_000)]
        {
            let overdrawn = check_windows(&limit, &calls(denied)).unwrap_err();
            assert!(
                matches!(overdrawn, Violation::Overdrawn { too_much: found, .. } if found == too_much),
                "{overdrawn}"
            );
        }
    }
}
