//! Which epochs a leader can have had.
//!
//! Epochs count changes of leader, or begin at the wall clock in milliseconds if the count was
//! lost. A number beyond the wall clock is therefore a mistake or a lie.

/// How far wall clocks may be apart, as far as epochs are concerned.
pub const CLOCK_TOLERANCE_MS: u64 = 60_000;

/// The highest epoch that a scheduler accepts from a client as another leader's, at the wall time
/// `unix_ms`.
#[must_use]
pub fn highest_of_a_leader(unix_ms: u64) -> u64 {
    unix_ms.saturating_add(CLOCK_TOLERANCE_MS)
}

/// The highest epoch that a client accepts from an event, at the wall time `unix_ms`.
///
/// A leader may count on from [`highest_of_a_leader`], and its clock may be ahead of the client's.
#[must_use]
pub fn highest_of_an_event(unix_ms: u64) -> u64 {
    highest_of_a_leader(unix_ms).saturating_add(2 * CLOCK_TOLERANCE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_believes_whatever_a_leader_may_count_on_from() {
        let (of_client, of_scheduler) = (1_000_000, 1_000_000 + CLOCK_TOLERANCE_MS);
        let next = highest_of_a_leader(of_scheduler) + 1;
        assert!(next <= highest_of_an_event(of_client));
        assert_eq!(highest_of_an_event(u64::MAX), u64::MAX);
    }
}
