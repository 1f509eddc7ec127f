//! The classes of workers, and their calls.

use serde::Serialize;
use std::ops::{Index, IndexMut};
use std::time::Duration;

/// A priority class, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A few workers with small calls and pauses, such as a map that waits for a picture.
    Interactive,
    /// More workers, with longer pauses.
    Standard,
    /// All other workers, with large calls and no pause. They saturate the account.
    Bulk,
}

/// A value for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ByClass<T> {
    /// The value of [`Class::Interactive`].
    pub interactive: T,
    /// The value of [`Class::Standard`].
    pub standard: T,
    /// The value of [`Class::Bulk`].
    pub bulk: T,
}

/// In each group of this many workers, the classes have fixed shares.
const MIXED: u32 = 20;
/// The number of mixed workers. All further workers are bulk, so that the headroom covers the
/// urgent classes in a fleet of any size.
const LAST_MIXED: u32 = 200;

impl Class {
    /// All classes.
    pub const ALL: [Class; 3] = [Class::Interactive, Class::Standard, Class::Bulk];

    /// The name in the configuration and in figures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Interactive => "interactive",
            Class::Standard => "standard",
            Class::Bulk => "bulk",
        }
    }

    /// The class of the worker with this number, from 0.
    pub(super) fn of_worker(number: u32) -> Self {
        match number % MIXED {
            _ if number >= LAST_MIXED => Class::Bulk,
            1 => Class::Interactive,
            2..=5 => Class::Standard,
            _ => Class::Bulk,
        }
    }

    /// The processing units of a call, beside one request.
    pub(super) fn processing_units(self) -> u32 {
        match self {
            Class::Interactive => 1,
            Class::Standard => 2,
            Class::Bulk => 3,
        }
    }

    /// The mean pause of its workers between two calls.
    pub(super) fn mean_pause(self) -> Duration {
        match self {
            Class::Interactive => Duration::from_secs(1),
            Class::Standard => Duration::from_secs(4),
            Class::Bulk => Duration::ZERO,
        }
    }
}

impl<T> ByClass<T> {
    /// Makes a value for each class.
    pub(super) fn from_fn(mut of: impl FnMut(Class) -> T) -> Self {
        ByClass { interactive: of(Class::Interactive), standard: of(Class::Standard), bulk: of(Class::Bulk) }
    }
}

impl<T> Index<Class> for ByClass<T> {
    type Output = T;

    fn index(&self, class: Class) -> &T {
        match class {
            Class::Interactive => &self.interactive,
            Class::Standard => &self.standard,
            Class::Bulk => &self.bulk,
        }
    }
}

impl<T> IndexMut<Class> for ByClass<T> {
    fn index_mut(&mut self, class: Class) -> &mut T {
        match class {
            Class::Interactive => &mut self.interactive,
            Class::Standard => &mut self.standard,
            Class::Bulk => &mut self.bulk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(workers: u32, expected: [usize; 3]) {
        let count = |class| (0..workers).filter(|number| Class::of_worker(*number) == class).count();
        assert_eq!(Class::ALL.map(count), expected, "of {workers} workers");
    }

    #[test]
    fn a_larger_fleet_has_more_bulk_and_nothing_else() {
        check(1, [0, 0, 1]);
        check(20, [1, 4, 15]);
        check(200, [10, 40, 150]);
        check(2000, [10, 40, 1950]);
    }
}
