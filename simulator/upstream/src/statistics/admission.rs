//! The record of decisions.

use crate::Cost;
use std::{collections::VecDeque, time::Duration};

/// One decision of the upstream, for judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When the call arrived, since the start of the upstream, to the nanosecond. It never
    /// decreases along the log.
    pub at: Duration,
    /// The cost of the call, whether it was charged or not.
    pub cost: Cost,
    /// Whether it was admitted.
    pub accepted: bool,
}

/// The latest admissions, up to a bound.
#[derive(Debug)]
pub(crate) struct AdmissionLog {
    kept: VecDeque<Admission>,
    limit: usize,
}

impl AdmissionLog {
    pub(crate) fn keeping(limit: usize) -> Self {
        Self { kept: VecDeque::new(), limit }
    }

    pub(crate) fn record(&mut self, at: Duration, cost: &Cost, accepted: bool) {
        if self.limit == 0 {
            return;
        }
        if self.kept.len() == self.limit {
            self.kept.pop_front();
        }
        self.kept.push_back(Admission { at, cost: cost.clone(), accepted });
    }

    pub(crate) fn kept(&self) -> Vec<Admission> {
        self.kept.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_are_kept() {
        for (limit, recorded, kept) in [(0, 3, vec![]), (2, 1, vec![0]), (2, 2, vec![0, 1]), (2, 5, vec![3, 4])] {
            let mut log = AdmissionLog::keeping(limit);
            for second in 0..recorded {
                log.record(Duration::from_secs(second), &Cost::new(), true);
            }
            let seconds: Vec<u64> = log.kept().iter().map(|admission| admission.at.as_secs()).collect();
            assert_eq!(seconds, kept, "{recorded} recorded, {limit} kept");
        }
    }
}
