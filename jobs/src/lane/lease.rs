//! The lease of a lane, whose holder is the one worker of the lane.
//!
//! A lane with jobs has a lease, which is one message. JetStream delivers it to one worker at a time, and to
//! another if that one dies. Only a worker that checks the lane *after* the lease was marked as closing
//! deletes it, and an arriving job revives it. So no job is forgotten, whichever process dies, and when.

use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LaneLease {
    Go,
    Later(PutBack),
    /// The lane looked empty. If it still is, delete the lease, otherwise revive it.
    Closing,
}

/// A lane whose first jobs wait, with what its next holder needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PutBack {
    /// The shortest wait, after which the lease is delivered.
    #[serde(flatten)]
    pub(crate) first: Wait,
    /// The waits of other jobs, from the same moment.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) others: Vec<Wait>,
    /// The last job that was looked at, if another may run beside those that wait. The lease then comes back
    /// again and again, so that its holder looks for later jobs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) room_after: Option<u64>,
    /// The mean time from one job to the next, as in [`Attempts`](crate::store::attempts::Attempts).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) pace_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wait {
    /// How long it waits after the first delivery of the lease.
    pub(crate) after_ms: u64,
    /// The sequence of the job in the stream; 0 if no job waits.
    pub(crate) job: u64,
    /// Its age as a request at the end of that wait, which decides its place in the scheduler's queue.
    pub(crate) age_ms: u64,
    /// How often it was put back for a permit.
    pub(crate) times: u32,
}

/// Another worker has the lane lease, or may have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replaced;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    Sleep(Duration),
    /// Work on the lane, with this knowledge of it.
    Work(Known),
    /// Check whether the lane is empty.
    NextLookup,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The jobs that still wait, or have waited.
    pub(crate) waits: Vec<Wait>,
    /// All other jobs up to this sequence are gone.
    pub(crate) seen: u64,
    pub(crate) pace_ms: Option<u64>,
}

impl LaneLease {
    /// Returns what to do with this lease at its `deliveries`th delivery.
    pub(crate) fn receipt(self, deliveries: i64) -> Receipt {
        match self {
            LaneLease::Go => Receipt::Work(Known::default()),
            LaneLease::Later(put_back) if deliveries <= 1 => {
                Receipt::Sleep(Duration::from_millis(put_back.first.after_ms))
            }
            LaneLease::Later(put_back) => Receipt::Work(put_back.known()),
            LaneLease::Closing => Receipt::NextLookup,
        }
    }

    /// Adds the lane's pace for the next holder, if the lease can carry it.
    pub(crate) fn at_pace(self, pace_ms: Option<u64>) -> Self {
        match self {
            LaneLease::Later(put_back) => LaneLease::Later(PutBack { pace_ms, ..put_back }),
            LaneLease::Go | LaneLease::Closing => self,
        }
    }

    /// Returns the lane's pace, if the last holder has left it here.
    pub(crate) fn pace_ms(&self) -> Option<u64> {
        match self {
            LaneLease::Later(put_back) => put_back.pace_ms,
            LaneLease::Go | LaneLease::Closing => None,
        }
    }
}

impl PutBack {
    /// Puts a lane back until the first of `waits` is over, but for at most `most_ms`.
    pub(crate) fn of(mut waits: Vec<Wait>, room_after: Option<u64>, most_ms: Option<u64>) -> Self {
        waits.sort_by_key(|wait| (wait.after_ms, wait.job));
        let shortest = waits.first().map(|wait| wait.after_ms);
        let bound = most_ms.filter(|most_ms| shortest.is_none_or(|shortest| *most_ms < shortest));
        let bound = bound.map(|after_ms| Wait { after_ms, ..Wait::default() });
        let mut waits = bound.into_iter().chain(waits);
        PutBack { first: waits.next().unwrap_or_default(), others: waits.collect(), room_after, pace_ms: None }
    }

    /// Returns the knowledge after the shortest wait.
    fn known(&self) -> Known {
        let waits = std::iter::once(&self.first).chain(&self.others).filter(|wait| wait.job != 0);
        let waits = waits.map(|wait| wait.shortened(self.first.after_ms)).collect();
        Known { waits, seen: self.room_after.unwrap_or(0), pace_ms: self.pace_ms }
    }
}

impl Wait {
    fn shortened(self, by_ms: u64) -> Self {
        Wait { after_ms: self.after_ms.saturating_sub(by_ms), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Wait = Wait { after_ms: 1500, job: 7, age_ms: 2000, times: 1 };
    const SECOND: Wait = Wait { after_ms: 4000, job: 6, age_ms: 0, times: 0 };

    fn later(waits: &[Wait], room_after: Option<u64>) -> LaneLease {
        LaneLease::Later(PutBack::of(waits.to_vec(), room_after, None))
    }

    fn work(waits: Vec<Wait>, seen: u64) -> Receipt {
        Receipt::Work(Known { waits, seen, pace_ms: None })
    }

    #[test]
    fn what_is_stored_can_be_read_by_later_versions() {
        let first = r#"{"after_ms":1500,"job":7,"age_ms":2000,"times":1"#;
        let others = r#""others":[{"after_ms":4000,"job":6,"age_ms":0,"times":0}],"room_after":9"#;
        let table = [
            (LaneLease::Go, r#""go""#.to_owned()),
            (later(&[FIRST], None), format!(r#"{{"later":{first}}}}}"#)),
            (later(&[SECOND, FIRST], Some(9)), format!(r#"{{"later":{first},{others}}}}}"#)),
            (LaneLease::Closing, r#""closing""#.to_owned()),
        ];
        for (lane_lease, json) in table {
            assert_eq!(serde_json::to_string(&lane_lease).unwrap(), json);
            assert_eq!(serde_json::from_str::<LaneLease>(&json).unwrap(), lane_lease);
        }
    }

    #[test]
    fn a_lane_lease_for_later_sleeps_once() {
        let lane_lease = later(&[FIRST], None);
        let waited = Wait { after_ms: 0, ..FIRST };
        assert_eq!(lane_lease.clone().receipt(1), Receipt::Sleep(Duration::from_millis(1500)));
        assert_eq!(lane_lease.clone().receipt(2), work(vec![waited], 0));
        assert_eq!(lane_lease.receipt(9), work(vec![waited], 0));
        assert_eq!(LaneLease::Go.receipt(1), work(Vec::new(), 0));
        assert_eq!(LaneLease::Closing.receipt(3), Receipt::NextLookup);
    }

    #[test]
    fn other_jobs_go_on_waiting_when_a_lane_wakes() {
        let left = |job: Wait, after_ms| Wait { after_ms, ..job };
        let lane_lease = later(&[FIRST, SECOND], Some(9));
        assert_eq!(lane_lease.receipt(2), work(vec![left(FIRST, 0), left(SECOND, 2500)], 9));
        let bounded = |most_ms| LaneLease::Later(PutBack::of(vec![SECOND, FIRST], Some(9), Some(most_ms)));
        assert_eq!(bounded(500).receipt(1), Receipt::Sleep(Duration::from_millis(500)));
        assert_eq!(bounded(500).receipt(2), work(vec![left(FIRST, 1000), left(SECOND, 3500)], 9));
        assert_eq!(bounded(1500), later(&[FIRST, SECOND], Some(9)), "the first wait is as short");
    }
}
