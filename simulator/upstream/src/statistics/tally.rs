//! Counts of answers.

/// Counts of calls by their response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Admitted and charged, counted on arrival, before the response time has passed.
    pub ok: u64,
    /// Rejected with 429.
    pub rate_limited: u64,
    /// Rejected with 400, and not charged.
    pub bad: u64,
}

impl Tally {
    /// Returns the number of calls that arrived.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.ok + self.rate_limited + self.bad
    }
}
