//! Where a job is in its lane.

use crate::lane::{Lane, LaneMessage};
use crate::status;
use crate::store::Store;
use std::time::Duration;

/// Where a job is in its group.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Position {
    /// The group.
    pub group: String,
    /// The class; absent for jobs without one.
    pub class: Option<String>,
    /// How many jobs of its group and class are before it. Those that run count.
    pub ahead: u64,
    /// Whether it runs.
    pub running: bool,
    /// When it is likely to begin, at the pace of the last jobs of its group. Unknown before the
    /// first of them has ended.
    pub starts_in: Option<Duration>,
}

/// The position of the job at `sequence`; `None` if there is none.
pub(crate) async fn of(store: &Store, sequence: u64) -> Option<Position> {
    let job = store.job(sequence).await?;
    let lane = store.layout.subjects.lane(LaneMessage::Job, &job.subject)?;
    let ahead = ahead(store, &lane, sequence).await;
    let running = status::running(store, &lane).await.contains(&sequence);
    let pace = pace_ms(store, &lane).await.map(Duration::from_millis);
    let starts_in = pace.map(|pace| pace.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX)));
    let Lane { class, group } = lane;
    let class = class.map(|class| class.to_string());
    Some(Position { group, class, ahead, running, starts_in: if running { Some(Duration::ZERO) } else { starts_in } })
}

/// The lane's pace, as its holder has noted it last.
async fn pace_ms(store: &Store, lane: &Lane) -> Option<u64> {
    let asleep = store.lane_lease(lane).await.and_then(|lane_lease| lane_lease.value.pace_ms());
    match asleep {
        Some(pace_ms) => Some(pace_ms),
        None => store.attempts(lane).await?.value.pace_ms(),
    }
}

async fn ahead(store: &Store, lane: &Lane, sequence: u64) -> u64 {
    let (mut ahead, mut from) = (0, 1);
    while let Some(job) = store.next_job(lane, from).await.filter(|job| job.sequence < sequence) {
        (ahead, from) = (ahead + 1, job.sequence + 1);
    }
    ahead
}
