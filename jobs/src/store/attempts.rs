//! The note of the attempts that have begun in a lane. An attempt that its worker does not survive counts.

use serde::{Deserialize, Serialize};

/// Each job contributes one part in this many to the lane's pace, which thus follows the last dozen.
const LATEST_PART: u64 = 8;

/// The attempts at jobs that are still in the lane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempts {
    #[serde(flatten)]
    latest: Begun,
    /// The attempts at other jobs, if several jobs of the lane may run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    others: Vec<Begun>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pace_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Begun {
    job: u64,
    attempts: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    failed: bool,
}

impl Attempts {
    /// Returns how many attempts at `job` have begun.
    pub(crate) fn at(&self, job: u64) -> u32 {
        self.all().find(|begun| begun.job == job).map_or(0, |begun| begun.attempts)
    }

    /// Returns the jobs whose last attempt has not failed.
    pub(crate) fn running(&self) -> impl Iterator<Item = u64> {
        self.all().filter(|begun| !begun.failed).map(|begun| begun.job)
    }

    /// Returns the mean time from one job to the next, once a job has ended.
    pub(crate) fn pace_ms(&self) -> Option<u64> {
        self.pace_ms
    }

    pub(crate) fn begun(self, job: u64, attempts: u32) -> Self {
        let Attempts { latest, others, pace_ms } = self.without(job);
        let others = std::iter::once(latest).chain(others).filter(|begun| begun.job != 0).collect();
        Attempts { latest: Begun { job, attempts, failed: false }, others, pace_ms }
    }

    pub(crate) fn failed(mut self, job: u64) -> Self {
        let all = std::iter::once(&mut self.latest).chain(&mut self.others);
        all.filter(|begun| begun.job == job).for_each(|begun| begun.failed = true);
        self
    }

    /// Removes the attempts at `job`, which has left the lane.
    pub(crate) fn without(self, job: u64) -> Self {
        let pace_ms = self.pace_ms;
        let mut rest = self.all().copied().filter(|begun| begun.job != job).collect::<Vec<_>>().into_iter();
        Attempts { latest: rest.next().unwrap_or_default(), others: rest.collect(), pace_ms }
    }

    /// Updates the pace by a job that took this long.
    pub(crate) fn paced(self, taken_ms: u64) -> Self {
        let mean = self.pace_ms.unwrap_or(taken_ms);
        Attempts { pace_ms: Some(mean - mean / LATEST_PART + taken_ms / LATEST_PART), ..self }
    }

    /// Sets the pace, if a later one is known.
    pub(crate) fn at_pace(self, pace_ms: Option<u64>) -> Self {
        Attempts { pace_ms: pace_ms.or(self.pace_ms), ..self }
    }

    fn all(&self) -> impl Iterator<Item = &Begun> {
        std::iter::once(&self.latest).chain(&self.others).filter(|begun| begun.job != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_can_be_read_by_later_versions() {
        let one = Attempts::default().begun(7, 2);
        let two = one.clone().begun(9, 1).failed(7).paced(1500);
        let table = [
            (one, r#"{"job":7,"attempts":2}"#),
            (two, r#"{"job":9,"attempts":1,"others":[{"job":7,"attempts":2,"failed":true}],"pace_ms":1500}"#),
        ];
        for (attempts, json) in table {
            assert_eq!(serde_json::to_string(&attempts).unwrap(), json);
            assert_eq!(serde_json::from_str::<Attempts>(json).unwrap(), attempts);
        }
    }

    #[test]
    fn attempts_count_for_their_job_until_it_has_left() {
        let attempts = Attempts::default().begun(7, 2).begun(8, 1);
        assert_eq!([7, 8, 9].map(|job| attempts.at(job)), [2, 1, 0]);
        assert_eq!(attempts.clone().without(8).begun(9, 1).running().collect::<Vec<_>>(), [9, 7]);
        assert_eq!(attempts.clone().failed(8).running().collect::<Vec<_>>(), [7]);
        assert_eq!(attempts.without(7).without(8), Attempts::default());
    }

    #[test]
    fn the_pace_follows_the_last_jobs() {
        let slow = Attempts::default().paced(800);
        let faster = (0..20).fold(slow.clone(), |attempts, _| attempts.paced(80));
        assert_eq!(slow.pace_ms(), Some(800));
        assert!((80..150).contains(&faster.pace_ms().unwrap()), "{faster:?}");
    }
}
