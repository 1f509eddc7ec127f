//! Counts of answers.

/// Counts of calls by their answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Admitted and charged. A call counts from its arrival, before its response time has passed.
    pub ok: u64,
    /// Refused with 429.
    pub rate_limited: u64,
    /// Refused with 400, and not charged.
    pub bad: u64,
}

impl Tally {
    /// All calls that arrived.
    ///
    /// ```
    /// use rampmeter_upstream::Tally;
    ///
    /// let tally = Tally { ok: 7, rate_limited: 2, bad: 1 };
    /// assert_eq!(tally.sent(), 10);
    /// ```
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.ok + self.rate_limited + self.bad
    }
}
