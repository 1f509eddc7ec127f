//! Counting on the permit loop's thread, without locks: plain numbers, copied when somebody asks.

use rampmeter_protocol::code::Code;
use rampmeter_protocol::time::Span;

/// Upper bounds of a histogram's buckets, in seconds: from the cost of a decision to a long wait.
pub const BUCKETS: [f64; 16] =
    [0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 120.0, 600.0];

/// A histogram of durations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Histogram {
    /// All durations together, in seconds.
    pub sum: f64,
    /// How many there were.
    pub count: u64,
    /// How many fell into each bucket, not accumulated; the last is for what is above all.
    pub buckets: [u64; BUCKETS.len() + 1],
}

impl Histogram {
    /// Notes one duration.
    pub fn observe(&mut self, span: Span) {
        let secs = span.secs();
        let bucket = BUCKETS.iter().position(|bound| secs <= *bound).unwrap_or(BUCKETS.len());
        self.buckets[bucket] += 1;
        self.sum += secs;
        self.count += 1;
    }
}

/// Refusals by code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals([u64; Code::ALL.len()]);

impl Refusals {
    /// Notes one refusal.
    pub fn count(&mut self, code: Code) {
        if let Some(index) = Code::ALL.iter().position(|known| *known == code) {
            self.0[index] += 1;
        }
    }

    /// All refusals.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// All codes and how often each was given.
    pub fn iter(&self) -> impl Iterator<Item = (Code, u64)> {
        Code::ALL.into_iter().zip(self.0)
    }
}

/// What one permit loop has counted.
#[derive(Clone, Debug)]
pub struct Tally {
    /// From reading a message to having its answers, beside waiting in line.
    pub decisions: Histogram,
    /// From asking to the start, by class.
    pub waits: Vec<Histogram>,
    /// Refusals by code.
    pub refusals: Refusals,
}

impl Tally {
    /// Nothing counted yet, for this many classes.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        let waits = vec![Histogram::default(); classes];
        Tally { decisions: Histogram::default(), waits, refusals: Refusals::default() }
    }
}
