//! Who calls, and how.

use serde::Serialize;
use std::ops::{Index, IndexMut};
use std::time::Duration;

/// A priority class, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Few, with small calls and pauses between them: people who wait for a picture.
    Interactive,
    /// More of them, with longer pauses.
    Standard,
    /// All others, with large calls and no pause: what saturates the account.
    Bulk,
}

/// Something for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ByClass<T> {
    /// That of [`Class::Interactive`].
    pub interactive: T,
    /// That of [`Class::Standard`].
    pub standard: T,
    /// That of [`Class::Bulk`].
    pub bulk: T,
}

/// Among so many workers the classes are mixed evenly …
const MIXED: u32 = 20;
/// … up to this one. Who comes later is bulk, so that the headroom covers the urgent classes in a fleet of any size.
const LAST_MIXED: u32 = 200;

impl Class {
    /// All of them.
    pub const ALL: [Class; 3] = [Class::Interactive, Class::Standard, Class::Bulk];

    /// Its name, in the configuration and in figures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Interactive => "interactive",
            Class::Standard => "standard",
            Class::Bulk => "bulk",
        }
    }

    /// The class of the worker of this number, from 0.
    pub(super) fn of_worker(number: u32) -> Self {
        match number % MIXED {
            _ if number >= LAST_MIXED => Class::Bulk,
            1 => Class::Interactive,
            2..=5 => Class::Standard,
            _ => Class::Bulk,
        }
    }

    /// What one of its calls costs, beside one request.
    pub(super) fn processing_units(self) -> u32 {
        match self {
            Class::Interactive => 1,
            Class::Standard => 2,
            Class::Bulk => 3,
        }
    }

    /// How long its workers pause between a call and the next, on average.
    pub(super) fn mean_pause(self) -> Duration {
        match self {
            Class::Interactive => Duration::from_secs(1),
            Class::Standard => Duration::from_secs(4),
            Class::Bulk => Duration::ZERO,
        }
    }
}

impl<T> ByClass<T> {
    /// Something made for each class.
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
