//! Arriving calls.

use crate::Cost;
use std::fmt;

/// An arriving call.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    /// The call's cost.
    pub cost: &'a Cost,
    /// Returns the value of a label, such as its method or its route.
    pub label: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Arrival<'a> {
    /// Creates a call without labels.
    #[must_use]
    pub fn of(cost: &'a Cost) -> Self {
        Self { cost, label: &|_| None }
    }
}

impl fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("cost", self.cost).finish_non_exhaustive()
    }
}
