//! The amounts that make up a request's cost.

use rampmeter_worker_sdk::Cost;

/// Replaces the amounts of these units in `cost`. `None` if there is no cost and no amount.
pub(crate) fn with<'a>(cost: Option<Cost>, amounts: impl IntoIterator<Item = (&'a str, f64)>) -> Option<Cost> {
    amounts.into_iter().fold(cost, |cost, (unit, amount)| {
        Some(match cost {
            Some(cost) => cost.and(unit, amount),
            None => Cost::of(unit, amount),
        })
    })
}
