//! How long fire drills run: minutes for every change, hours with `RAMPMETER_FIRE=long`.

use crate::rng::Rng;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The number of faults in a usual run and in a long one.
#[derive(Clone, Copy, Debug)]
pub struct Cycles {
    /// The number in a usual run.
    pub usual: usize,
    /// The number in a long run.
    pub long: usize,
}

impl Cycles {
    /// The number for this run.
    pub fn count(self) -> usize {
        if is_long() { self.long } else { self.usual }
    }
}

/// Whether this run is a long one.
pub fn is_long() -> bool {
    std::env::var("RAMPMETER_FIRE").is_ok_and(|length| length == "long")
}

/// One run of one test: its name, and the seed of all random choices.
#[derive(Clone, Debug)]
pub struct Run {
    test: &'static str,
    seed: u64,
}

impl Run {
    /// A run of `test`, named `module::function`. Its seed is `RAMPMETER_FIRE_SEED`, or a new one.
    pub fn of(test: &'static str) -> Self {
        let given = std::env::var("RAMPMETER_FIRE_SEED").ok().and_then(|seed| seed.parse().ok());
        // Six digits are enough, and a person can type them.
        let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish() % 1_000_000);
        Run { test, seed }
    }

    /// A new random generator with the run's seed.
    pub fn dice(&self) -> Rng {
        Rng::new(self.seed)
    }

    /// The seed of all random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The name of the test.
    pub fn test(&self) -> &str {
        self.test
    }

    /// Prints the command that repeats the run.
    #[allow(clippy::print_stdout, reason = "a failure shows how to repeat it")]
    pub fn tell(&self) {
        println!("repeat: {}", self.command());
    }

    fn command(&self) -> String {
        let long = if is_long() { "RAMPMETER_FIRE=long " } else { "" };
        let (seed, test) = (self.seed, self.test);
        format!("{long}RAMPMETER_FIRE_SEED={seed} cargo test -p rampmeter-tests --test fire -- --nocapture {test}")
    }
}
