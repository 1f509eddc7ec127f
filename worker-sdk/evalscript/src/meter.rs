//! The steps, the memory and the depth of a script so far.

use crate::bounds::{MAX_BYTES, MAX_DEPTH, MAX_STEPS};
use crate::error::Problem;

/// Counts what a script uses, and fails if a bound is exceeded.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    steps: u64,
    bytes: u64,
    depth: u32,
}

impl Meter {
    /// Counts `steps` more.
    pub(crate) fn step(&mut self, steps: usize) -> Result<(), Problem> {
        self.steps = self.steps.saturating_add(steps as u64);
        if self.steps > MAX_STEPS { Err(Problem::TooManySteps) } else { Ok(()) }
    }

    /// Counts `bytes` more. Called before the memory is taken.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.bytes > MAX_BYTES { Err(Problem::TooMuchMemory) } else { Ok(()) }
    }

    /// Enters a level, until [`Meter::leave`].
    pub(crate) fn enter(&mut self) -> Result<(), Problem> {
        if self.depth == MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        self.depth += 1;
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }
}
