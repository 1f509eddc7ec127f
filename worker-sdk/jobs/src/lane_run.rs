//! Working on a lane while holding its lease. Jobs run one after the other, each with its own
//! permit.

use crate::hold::{Hold, Lost};
use crate::job::JobTerms;
use crate::lane::Lane;
use crate::lane_lease::{Begun, LaneLease, PutBack};
use crate::shared::Shared;
use crate::store::{Overtaken, Placed, Store};
use crate::verdict::{Failed, NoPermit};
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
    hold: Hold,
    known: Option<PutBack>,
    begun: Placed<Begun>,
}

/// Another worker has the lane lease, or may have it.
pub(crate) struct Over;

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
        hold: Hold,
        known: Option<PutBack>,
    ) -> Result<Self, Over> {
        let begun = hold.during(shared.store.begun(&lane)).await?;
        let begun = begun.unwrap_or(Placed { sequence: 0, value: Begun::default() });
        Ok(LaneRun { shared, lane, lane_lease, hold, known, begun })
    }

    /// Runs jobs until the lane is empty, its first job has to wait, or other lanes get a turn.
    pub(crate) async fn run(mut self) -> Result<(), Over> {
        for _ in 0..JOBS_A_RUN {
            if self.shared.is_stopping() {
                break;
            }
            let Some(job) = self.hold.during(self.store().first_job(&self.lane)).await? else {
                return self.close().await;
            };
            match self.attend(&job).await? {
                End::Gone => {}
                End::Waits(put_back) => return self.pass(LaneLease::Later(put_back)).await,
            }
        }
        self.pass(LaneLease::Go).await
    }

    /// Handles the lane's first job until it ends or has to wait.
    async fn attend(&mut self, job: &StreamMessage) -> Result<End, Over> {
        let attempts = self.begun.value.attempts_at(job.sequence);
        if self.shared.policy.is_spent(attempts) {
            return self.bury(job, attempts, "its worker did not survive the last attempt").await;
        }
        let terms = match JobTerms::read(&job.headers) {
            Ok(terms) => terms,
            Err(why) => return self.bury(job, attempts, &why).await,
        };
        match self.permit(job.sequence, &terms).await? {
            Ok(permit) => self.attempt(job, &terms, permit, attempts + 1).await,
            Err(Refused::PutBack(put_back)) => Ok(End::Waits(put_back)),
            Err(Refused::Dead(why)) => self.bury(job, attempts, &why).await,
        }
    }

    /// Gets a permit whose start has come.
    async fn permit(&self, job: u64, terms: &JobTerms) -> Result<Result<Permit, Refused>, Over> {
        let known = self.known.filter(|known| known.job == job).unwrap_or_default();
        let patience = self.shared.policy.patience(known.times);
        let (clock, before) = (Clock::start(), Span::from_millis(known.age_ms));
        loop {
            let age = before + clock.now().since(Clock::START);
            let Some(request) = self.request(terms) else {
                return Ok(Err(Refused::Dead("it has one label too many for that of its group".to_owned())));
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
    ) -> Result<End, Over> {
        self.begin(Begun { job: job.sequence, attempts: number }).await?;
        // Writing the note may have taken long.
        let permit = match self.hold.during(permit.ready()).await? {
            Ok(permit) => permit,
            Err(_denied) => return self.take_back(job.sequence, number).await,
        };
        self.hold.check()?;
        let call = permit.begin();
        // Runs on even if the lease ends. A call that has begun cannot be undone, so ending it is
        // better than beginning it twice.
        let ended = AssertUnwindSafe((self.shared.handler)(self.told(job, terms, number))).catch_unwind().await;
        match ended.unwrap_or_else(|_panic| Err(Failure::for_now("the handler panicked"))) {
            Ok(outcome) if outcome.is_throttled() => {
                call.settle(outcome);
                tracing::warn!(group = self.lane.group, "the upstream answered 429; the job waits for a new permit");
                self.take_back(job.sequence, number).await
            }
            Ok(outcome) => {
                call.settle(outcome);
                Ok(self.gone(job.sequence).await)
            }
            Err(failure) => {
                drop(call);
                self.failed(job, number, &failure).await
            }
        }
    }

    /// Uncounts an attempt that failed through no fault of the job.
    async fn take_back(&mut self, job: u64, number: u32) -> Result<End, Over> {
        self.begin(Begun { job, attempts: number - 1 }).await?;
        Ok(End::Waits(PutBack { job, ..PutBack::default() }))
    }

    async fn failed(&mut self, job: &StreamMessage, attempts: u32, failure: &Failure) -> Result<End, Over> {
        tracing::warn!(group = self.lane.group, job = job.sequence, attempts, %failure, "an attempt failed");
        match self.shared.policy.failed(attempts, failure) {
            Failed::Dead(why) => self.bury(job, attempts, &why).await,
            Failed::Again(after) => {
                Ok(End::Waits(PutBack { after_ms: millis(after), job: job.sequence, ..PutBack::default() }))
            }
        }
    }

    async fn begin(&mut self, begun: Begun) -> Result<(), Over> {
        let sequence = self.hold.during(self.store().begin(&self.lane, begun, self.begun.sequence)).await??;
        self.begun = Placed { sequence, value: begun };
        Ok(())
    }

    async fn bury(&self, job: &StreamMessage, attempts: u32, why: &str) -> Result<End, Over> {
        tracing::error!(group = self.lane.group, job = job.sequence, attempts, why, "a job is given up");
        let mut headers = HeaderMap::new();
        for (name, values) in job.headers.iter().filter(|(name, _)| **name != NATS_MESSAGE_ID) {
            values.iter().for_each(|value| headers.append(name.clone(), value.clone()));
        }
        crate::status::explain(&mut headers, job, attempts, why);
        self.hold.during(self.store().bury(&self.lane, job.sequence, job.payload.clone(), headers)).await?;
        Ok(self.gone(job.sequence).await)
    }

    /// Deletes an ended job, even if another worker has the lane lease now.
    async fn gone(&self, job: u64) -> End {
        self.store().finish(job).await;
        End::Gone
    }

    /// Leaves a lane that looks empty.
    async fn close(self) -> Result<(), Over> {
        if self.begun.sequence != 0 {
            self.hold.during(self.store().forget(self.begun.sequence)).await?;
        }
        self.pass(LaneLease::Closing).await
    }

    async fn pass(self, lane_lease: LaneLease) -> Result<(), Over> {
        self.hold.during(self.store().pass(&self.lane, lane_lease, self.lane_lease)).await??;
        Ok(())
    }

    fn told(&self, job: &StreamMessage, terms: &JobTerms, number: u32) -> Attempt {
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

impl From<Lost> for Over {
    fn from(_: Lost) -> Self {
        Over
    }
}

impl From<Overtaken> for Over {
    fn from(_: Overtaken) -> Self {
        Over
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
