//! The lease of a lane: the worker that has it works on the lane.
//!
//! A lane with jobs has a lease, which is one message. JetStream hands it to one worker at a time,
//! and to another worker if that one dies. Only a worker that checks the lane *after* the lease was
//! marked as closing deletes it. An arriving job revives a closing lease. So no job is forgotten,
//! whichever process dies at whatever time.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The content of a lane lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LaneLease {
    /// Work on the lane.
    Go,
    /// Work on the lane later.
    Later(PutBack),
    /// The lane looked empty. If it still is, delete the lane lease; otherwise revive it.
    Closing,
}

/// Why the first job of a lane waits, and what its next holder needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PutBack {
    /// How long to wait after the lane lease is first handed out.
    pub(crate) after_ms: u64,
    /// The job that waits.
    pub(crate) job: u64,
    /// How long it will have waited for a permit by then. Its age decides its place in the
    /// scheduler's queue.
    pub(crate) age_ms: u64,
    /// How often it has been put back for a permit.
    pub(crate) times: u32,
}

/// What to do with a received lane lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// Return the lane lease for this time.
    Sleep(Duration),
    /// Work on the lane. The first job may have been put back before.
    Work(Option<PutBack>),
    /// Check whether the lane is empty.
    Look,
}

impl LaneLease {
    /// What to do with this lane lease at its `deliveries`th delivery.
    pub(crate) fn receipt(self, deliveries: i64) -> Receipt {
        match self {
            LaneLease::Go => Receipt::Work(None),
            LaneLease::Later(put_back) if deliveries <= 1 => Receipt::Sleep(Duration::from_millis(put_back.after_ms)),
            LaneLease::Later(put_back) => Receipt::Work(Some(put_back)),
            LaneLease::Closing => Receipt::Look,
        }
    }
}

/// The attempt that began last in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastAttempt {
    /// The job.
    pub(crate) job: u64,
    /// How many attempts at the job have begun.
    pub(crate) attempts: u32,
}

impl LastAttempt {
    /// How many attempts at `job` have begun.
    pub(crate) fn attempts_at(self, job: u64) -> u32 {
        if self.job == job { self.attempts } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: LaneLease = LaneLease::Later(PutBack { after_ms: 1500, job: 7, age_ms: 2000, times: 1 });

    #[test]
    fn what_is_stored_can_be_read_by_later_versions() {
        let table = [
            (LaneLease::Go, r#""go""#),
            (LATER, r#"{"later":{"after_ms":1500,"job":7,"age_ms":2000,"times":1}}"#),
            (LaneLease::Closing, r#""closing""#),
        ];
        for (lane_lease, json) in table {
            assert_eq!(serde_json::to_string(&lane_lease).unwrap(), json);
            assert_eq!(serde_json::from_str::<LaneLease>(json).unwrap(), lane_lease);
        }
        let begun = LastAttempt { job: 7, attempts: 2 };
        assert_eq!(serde_json::to_string(&begun).unwrap(), r#"{"job":7,"attempts":2}"#);
    }

    #[test]
    fn a_lane_lease_for_later_sleeps_once() {
        let LaneLease::Later(put_back) = LATER else { unreachable!() };
        assert_eq!(LATER.receipt(1), Receipt::Sleep(Duration::from_millis(1500)));
        assert_eq!(LATER.receipt(2), Receipt::Work(Some(put_back)));
        assert_eq!(LATER.receipt(9), Receipt::Work(Some(put_back)));
        assert_eq!(LaneLease::Go.receipt(1), Receipt::Work(None));
        assert_eq!(LaneLease::Closing.receipt(3), Receipt::Look);
    }

    #[test]
    fn attempts_at_another_job_do_not_count() {
        assert_eq!(LastAttempt { job: 7, attempts: 2 }.attempts_at(7), 2);
        assert_eq!(LastAttempt { job: 7, attempts: 2 }.attempts_at(8), 0);
    }
}
