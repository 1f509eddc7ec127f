//! Working on a lane while holding its lease. Jobs run one after the other, each with its own
//! permit.

use crate::held_lease::{HeldLease, Lost};
use crate::job::JobTerms;
use crate::lane::Lane;
use crate::lane_lease::{LaneLease, LastAttempt, PutBack};
use crate::retry_policy::{Failed, NoPermit};
use crate::shared::Shared;
use crate::store::{Overtaken, Placed, Store};
use crate::{Attempt, Failure};
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::message::StreamMessage;
use futures::FutureExt;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use rampmeter_worker_sdk::Permit;
use rampmeter_worker_sdk::call::Acquire;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

/// How many jobs run before other lanes that wait for this worker get a turn.
const JOBS_A_RUN: usize = 16;

/// A worker on a lane.
pub(crate) struct LaneRun<'w> {
    shared: &'w Shared,
    lane: Lane,
    /// The stream sequence of the lane lease.
    lane_lease: u64,
    hold: HeldLease,
    known: Option<PutBack>,
    last_attempt: Placed<LastAttempt>,
}

/// Another worker has the lane lease, or may have it.
pub(crate) struct Replaced;

/// The result of handling a job.
enum End {
    /// The job has left the lane.
    Gone,
    /// The job waits.
    Waits(PutBack),
}

impl<'w> LaneRun<'w> {
    pub(crate) async fn start(
        shared: &'w Shared,
        lane: Lane,
        lane_lease: u64,
        hold: HeldLease,
        known: Option<PutBack>,
    ) -> Result<Self, Replaced> {
        let last_attempt = hold.during(shared.store.last_attempt(&lane)).await?;
        let last_attempt = last_attempt.unwrap_or(Placed { sequence: 0, value: LastAttempt::default() });
        Ok(LaneRun { shared, lane, lane_lease, hold, known, last_attempt })
    }

    /// Runs jobs until the lane is empty, its first job has to wait, or other lanes get a turn.
    pub(crate) async fn run(mut self) -> Result<(), Replaced> {
        for _ in 0..JOBS_A_RUN {
            if self.shared.is_stopping() {
                break;
            }
            let Some(job) = self.hold.during(self.store().first_job(&self.lane)).await? else {
                return self.close().await;
            };
            match self.handle_job(&job).await? {
                End::Gone => {}
                End::Waits(put_back) => return self.put_lane_lease(LaneLease::Later(put_back)).await,
            }
        }
        self.put_lane_lease(LaneLease::Go).await
    }

    /// Handles the lane's first job until it ends or has to wait.
    async fn handle_job(&mut self, job: &StreamMessage) -> Result<End, Replaced> {
        let attempts = self.last_attempt.value.attempts_at(job.sequence);
        if self.shared.policy.is_spent(attempts) {
            return self.give_up(job, attempts, "its worker did not survive the last attempt").await;
        }
        let terms = match JobTerms::read(&job.headers) {
            Ok(terms) => terms,
            Err(why) => return self.give_up(job, attempts, &why).await,
        };
        match self.permit(job.sequence, &terms).await? {
            Ok(permit) => self.attempt(job, &terms, permit, attempts + 1).await,
            Err(Refused::PutBack(put_back)) => Ok(End::Waits(put_back)),
            Err(Refused::Dead(why)) => self.give_up(job, attempts, &why).await,
        }
    }

    /// Gets a permit whose start has come.
    async fn permit(&self, job: u64, terms: &JobTerms) -> Result<Result<Permit, Refused>, Replaced> {
        let known = self.known.filter(|known| known.job == job).unwrap_or_default();
        let patience = self.shared.policy.patience(known.times);
        let (clock, before) = (Clock::start(), Span::from_millis(known.age_ms));
        loop {
            let age = before + clock.now().since(Clock::START);
            let Some(request) = self.request(terms) else {
                return Ok(Err(Refused::Dead("it has no room for the label of its group".to_owned())));
            };
            let asked = request.age(age.duration()).deadline(patience).into_future();
            let error = match self.hold.during(asked).await? {
                Ok(permit) => return Ok(Ok(permit)),
                Err(error) => error,
            };
            match self.shared.policy.without_permit(&error) {
                NoPermit::Ask => {}
                NoPermit::PutBack(after) => {
                    let age = before + clock.now().since(Clock::START) + Span::from(after);
                    let put_back = PutBack {
                        after_ms: millis(after),
                        job,
                        age_ms: millis(age.duration()),
                        times: known.times + 1,
                    };
                    return Ok(Err(Refused::PutBack(put_back)));
                }
                NoPermit::Dead(why) => return Ok(Err(Refused::Dead(why))),
            }
            if self.shared.is_stopping() {
                return Ok(Err(Refused::PutBack(PutBack {
                    after_ms: 0,
                    job,
                    age_ms: millis(age.duration()),
                    ..known
                })));
            }
        }
    }

    fn request(&self, terms: &JobTerms) -> Option<Acquire> {
        let mut labels = terms.labels.clone();
        labels.set(self.shared.group_label.clone(), self.lane.group.clone()).ok()?;
        let request = self.shared.resource.acquire(terms.cost.clone());
        let request = labels.iter().fold(request, |request, (key, value)| request.label(key, value));
        Some(match &self.lane.class {
            Some(class) => request.class(class),
            None => request,
        })
    }

    /// Runs the job. The note of the attempt is written first, by compare-and-set on the last note.
    /// So no two workers begin the same attempt. A replaced worker begins no other job. An attempt
    /// that its worker does not survive counts.
    async fn attempt(
        &mut self,
        job: &StreamMessage,
        terms: &JobTerms,
        permit: Permit,
        number: u32,
    ) -> Result<End, Replaced> {
        self.note_attempt(LastAttempt { job: job.sequence, attempts: number }).await?;
        // Writing the note may have taken long.
        let permit = match self.hold.during(permit.ready()).await? {
            Ok(permit) => permit,
            Err(_denied) => return self.take_back(job.sequence, number).await,
        };
        self.hold.check()?;
        let call = permit.begin();
        // Runs on even if the lease ends. A call that has begun cannot be undone. Ending it is
        // better than beginning it twice.
        let ended = AssertUnwindSafe((self.shared.handler)(self.new_attempt(job, terms, number))).catch_unwind().await;
        match ended.unwrap_or_else(|_panic| Err(Failure::for_now("the handler panicked"))) {
            Ok(outcome) if outcome.is_throttled() => {
                call.settle(outcome);
                tracing::warn!(group = self.lane.group, "the upstream answered 429; the job waits for a new permit");
                self.take_back(job.sequence, number).await
            }
            Ok(outcome) => {
                call.settle(outcome);
                Ok(self.finish(job.sequence).await)
            }
            Err(failure) => {
                drop(call);
                self.failed(job, number, &failure).await
            }
        }
    }

    /// Uncounts an attempt that failed through no fault of the job.
    async fn take_back(&mut self, job: u64, number: u32) -> Result<End, Replaced> {
        self.note_attempt(LastAttempt { job, attempts: number - 1 }).await?;
        Ok(End::Waits(PutBack { job, ..PutBack::default() }))
    }

    async fn failed(&mut self, job: &StreamMessage, attempts: u32, failure: &Failure) -> Result<End, Replaced> {
        tracing::warn!(group = self.lane.group, job = job.sequence, attempts, %failure, "an attempt failed");
        match self.shared.policy.failed(attempts, failure) {
            Failed::Dead(why) => self.give_up(job, attempts, &why).await,
            Failed::Again(after) => {
                Ok(End::Waits(PutBack { after_ms: millis(after), job: job.sequence, ..PutBack::default() }))
            }
        }
    }

    async fn note_attempt(&mut self, last_attempt: LastAttempt) -> Result<(), Replaced> {
        let sequence =
            self.hold.during(self.store().note_attempt(&self.lane, last_attempt, self.last_attempt.sequence)).await??;
        self.last_attempt = Placed { sequence, value: last_attempt };
        Ok(())
    }

    async fn give_up(&self, job: &StreamMessage, attempts: u32, why: &str) -> Result<End, Replaced> {
        tracing::error!(group = self.lane.group, job = job.sequence, attempts, why, "a job is given up");
        let mut headers = HeaderMap::new();
        for (name, values) in job.headers.iter().filter(|(name, _)| **name != NATS_MESSAGE_ID) {
            values.iter().for_each(|value| headers.append(name.clone(), value.clone()));
        }
        crate::status::explain(&mut headers, job, attempts, why);
        self.hold.during(self.store().add_dead_letter(&self.lane, job.sequence, job.payload.clone(), headers)).await?;
        Ok(self.finish(job.sequence).await)
    }

    /// Deletes an ended job, even if another worker has the lane lease now.
    async fn finish(&self, job: u64) -> End {
        self.store().finish(job).await;
        End::Gone
    }

    /// Leaves a lane that looks empty.
    async fn close(self) -> Result<(), Replaced> {
        if self.last_attempt.sequence != 0 {
            self.hold.during(self.store().forget(self.last_attempt.sequence)).await?;
        }
        self.put_lane_lease(LaneLease::Closing).await
    }

    async fn put_lane_lease(self, lane_lease: LaneLease) -> Result<(), Replaced> {
        self.hold.during(self.store().put_lane_lease(&self.lane, lane_lease, self.lane_lease)).await??;
        Ok(())
    }

    fn new_attempt(&self, job: &StreamMessage, terms: &JobTerms, number: u32) -> Attempt {
        Attempt {
            id: terms.id.clone().unwrap_or_else(|| job.sequence.to_string()),
            sequence: job.sequence,
            group: self.lane.group.clone(),
            class: self.lane.class.as_ref().map(ToString::to_string),
            payload: job.payload.clone(),
            number,
        }
    }

    fn store(&self) -> &'w Store {
        &self.shared.store
    }
}

enum Refused {
    PutBack(PutBack),
    Dead(String),
}

impl From<Lost> for Replaced {
    fn from(_: Lost) -> Self {
        Replaced
    }
}

impl From<Overtaken> for Replaced {
    fn from(_: Overtaken) -> Self {
        Replaced
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
