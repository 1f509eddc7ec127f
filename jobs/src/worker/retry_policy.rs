//! Decides what happens to a job next, without a clock or a connection.

use crate::Failure;
use rampmeter_worker_sdk::Error;
use rampmeter_worker_sdk::error::{Code, ErrorKind, Remedy};
use std::time::Duration;

/// The longest wait for a permit in a slot, however often the job has been put back.
const MAX_SLOT_WAIT: Duration = Duration::from_secs(60);
/// How long a job is put back if its refusal contains no time.
const USUAL_PAUSE: Duration = Duration::from_secs(1);
/// The longest time for which a job is put back. After that the scheduler's estimate is outdated.
const MAX_PAUSE: Duration = Duration::from_secs(3600);
/// The longest pause that a handler can set. Servers count such times in nanoseconds.
const MAX_NAMED: Duration = Duration::from_secs(366 * 86_400);

#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    pub(crate) patience: Duration,
    pub(crate) max_attempts: u32,
    pub(crate) first_pause: Duration,
    pub(crate) most_pause: Duration,
    pub(crate) deadline: Option<Duration>,
}

/// The next step for a job without a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoPermit {
    /// Ask again and keep the slot. No scheduler answers, so another worker would get no answer either.
    Ask,
    PutBack(Duration),
    Dead(String),
}

impl RetryPolicy {
    /// Returns how long a job that was put back `times` times waits for its permit in a slot. The time doubles, so
    /// that a job with estimates that are always too short eventually stays in the scheduler's queue.
    pub(crate) fn patience(&self, times: u32) -> Duration {
        self.patience.saturating_mul(1 << times.min(16)).min(MAX_SLOT_WAIT.max(self.patience))
    }

    /// Returns how long to put a job back whose permit is due in `due`. It returns some time before.
    fn put_back(&self, due: Duration) -> Duration {
        due.saturating_sub(self.patience / 2).min(MAX_PAUSE)
    }

    pub(crate) fn without_permit(&self, error: &Error) -> NoPermit {
        match (error.kind(), error.retry_after()) {
            (ErrorKind::TimedOut, _) => NoPermit::Ask,
            (ErrorKind::Refused(Code::NotInTime), Some(due)) => NoPermit::PutBack(self.put_back(due)),
            (_, Some(due)) => NoPermit::PutBack(due.min(MAX_PAUSE)),
            (ErrorKind::Refused(code), None) if code.remedy() == Remedy::Change => NoPermit::Dead(error.to_string()),
            (ErrorKind::InvalidArgument, None) => NoPermit::Dead(error.to_string()),
            (_, None) => NoPermit::PutBack(USUAL_PAUSE),
        }
    }

    /// Returns the pause before the next attempt after a failure, or why the job is given up.
    pub(crate) fn failed(&self, attempts: u32, failure: &Failure) -> Result<Duration, String> {
        if failure.is_final() || self.is_spent(attempts) {
            return Err(failure.to_string());
        }
        if let Some(named) = failure.named_pause() {
            return Ok(named.min(MAX_NAMED));
        }
        let pause = self.first_pause.saturating_mul(1 << attempts.saturating_sub(1).min(30));
        Ok(pause.min(self.most_pause))
    }

    pub(crate) fn is_spent(&self, attempts: u32) -> bool {
        attempts >= self.max_attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        patience: Duration::from_millis(500),
        max_attempts: 4,
        first_pause: Duration::from_secs(1),
        most_pause: Duration::from_secs(3),
        deadline: None,
    };

    #[test]
    fn pauses_double_up_to_their_bound_and_attempts_end() {
        let failure = Failure::for_now("no");
        let again = |secs| Ok(Duration::from_secs(secs));
        let dead = Err("no".to_owned());
        let found = [1, 2, 3, 4, 5].map(|attempts| POLICY.failed(attempts, &failure));
        assert_eq!(found, [again(1), again(2), again(3), dead.clone(), dead.clone()]);
        assert_eq!(POLICY.failed(1, &Failure::for_good("no")), dead);
    }

    #[test]
    fn a_handler_names_the_pause() {
        let named = |secs| Failure::for_now("no").retry_after(Duration::from_secs(secs));
        assert_eq!(POLICY.failed(1, &named(86_400)), Ok(Duration::from_secs(86_400)));
        assert_eq!(POLICY.failed(1, &named(u64::MAX)), Ok(MAX_NAMED));
        assert_eq!(POLICY.failed(4, &named(1)), Err("no".to_owned()), "the attempts end all the same");
    }

    /// Reaches `MAX_SLOT_WAIT`: a minute, unless the worker waits longer from the beginning.
    #[test]
    fn patience_grows_with_each_time() {
        let found = [0, 1, 3, 7, 40].map(|times| POLICY.patience(times).as_millis());
        assert_eq!(found, [500, 1000, 4000, 60_000, 60_000]);
        let patient = RetryPolicy { patience: Duration::from_secs(90), ..POLICY };
        assert_eq!(patient.patience(7).as_secs(), 90);
    }

    /// Reaches `MAX_PAUSE`: an hour.
    #[test]
    fn a_job_is_back_before_its_permit_is_due() {
        let put_back = |due| POLICY.put_back(Duration::from_millis(due)).as_millis();
        assert_eq!([100, 250, 10_000].map(put_back), [0, 0, 9750]);
        assert_eq!([3_600_249, 3_600_251, u64::MAX].map(put_back), [3_599_999, 3_600_000, 3_600_000]);
    }
}
