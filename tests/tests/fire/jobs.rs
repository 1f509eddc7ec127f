//! Delayed jobs whose workers and scheduler are killed: all are done, in order, and nobody is told 429.

use crate::{JOBS_WORKER, RAMPMETER};
use rampmeter_tests::fire::{Run, is_long};
use rampmeter_tests::job_run::{Size, discord_under_fire};
use std::time::Duration;

/// Ten roles in ten seconds on each of fifty servers, five thousand in all; in a usual run fewer, in one second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord() {
    let (period, guilds, jobs, schedulers) =
        if is_long() { (Duration::from_secs(10), 50, 100, 2) } else { (Duration::from_secs(1), 10, 20, 12) };
    let pauses = (Duration::from_millis(300), Duration::from_secs(2));
    let size = Size { guilds, jobs, capacity: 10, period, pauses, schedulers };
    discord_under_fire(&Run::of("jobs::discord"), RAMPMETER, JOBS_WORKER, size).await;
}
