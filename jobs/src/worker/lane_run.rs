//! Works on a lane while its lease is held. Each job has its own permit.

use crate::lane::Lane;
use crate::lane::lease::{Known, LaneLease, Replaced, Wait};
use crate::lane::places::{NextLookup, Places};
use crate::worker::held_lease::HeldLease;
use crate::worker::job_runner::{End, JobRunner};
use crate::worker::shared::Shared;
use async_nats::jetstream::message::StreamMessage;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Time;

enum Step {
    Looked(NextLookup, Result<Option<StreamMessage>, Replaced>),
    Handled(u64, Result<End, Replaced>),
}

type Steps<'r> = FuturesUnordered<BoxFuture<'r, Step>>;

/// Runs jobs of `lane`, whose lease has the sequence `lane_lease`, until the lane is empty, its first jobs have to
/// wait, or other lanes get a turn. A replaced worker ends what it has begun.
pub(crate) async fn run_lane(
    shared: &Shared,
    lane: Lane,
    lane_lease: u64,
    hold: HeldLease,
    known: Known,
) -> Result<(), Replaced> {
    let runner = JobRunner::start(shared, lane, hold, known.pace_ms).await?;
    let clock = Clock::start();
    let mut places = Places::new(shared.concurrency, clock.now(), known);
    let (mut steps, mut replaced) = (Steps::new(), false);
    loop {
        // 1. A free place gets a job.
        let looks = !replaced && !shared.is_stopping();
        if let Some(look) = looks.then(|| places.look(clock.now())).flatten() {
            steps.push(runner.look(look).boxed());
        }
        // 2. Something ends, or it is time to look again.
        let wake = places.next_look().filter(|_| looks);
        let step = tokio::select! {
            biased;
            step = steps.next() => step,
            () = until(clock, wake), if !steps.is_empty() => continue,
        };
        // 3. What has ended makes place.
        match step {
            None => break,
            Some(Step::Looked(look, Ok(job))) => {
                let sequence = job.as_ref().map(|job| job.sequence);
                let begins = places.found(clock.now(), look, sequence);
                if let Some((job, wait)) = job.zip(begins) {
                    steps.push(runner.see_through(job, wait).boxed());
                }
            }
            Some(Step::Handled(job, Ok(End::Gone))) => places.gone(job),
            Some(Step::Handled(_, Ok(End::Waits(wait)))) => places.waits(clock.now(), wait),
            Some(Step::Looked(_, Err(Replaced)) | Step::Handled(_, Err(Replaced))) => replaced = true,
        }
    }
    drop(steps);
    if replaced {
        return Err(Replaced);
    }
    runner.pass_lease_on(lane_lease, places.lane_lease(clock.now())).await
}

impl JobRunner<'_> {
    async fn look(&self, look: NextLookup) -> Step {
        let found = match look {
            NextLookup::At(wait) => self.hold.during(self.store().job(wait.job)).await,
            NextLookup::After(job) => self.hold.during(self.store().next_job(&self.lane, job + 1)).await,
        };
        Step::Looked(look, found)
    }

    async fn see_through(&self, job: StreamMessage, wait: Wait) -> Step {
        Step::Handled(job.sequence, self.handle(&job, wait).await)
    }

    async fn pass_lease_on(&self, replaces: u64, lane_lease: LaneLease) -> Result<(), Replaced> {
        if lane_lease == LaneLease::Closing {
            self.forget_attempts().await?;
        }
        let lane_lease = lane_lease.at_pace(self.pace_ms().await);
        self.hold.during(self.store().put_lane_lease(&self.lane, lane_lease, replaces)).await??;
        Ok(())
    }
}

/// Waits until `at`, or for ever without it.
async fn until(clock: Clock, at: Option<Time>) {
    match at {
        Some(at) => tokio::time::sleep_until(clock.instant(at).into()).await,
        None => std::future::pending().await,
    }
}
