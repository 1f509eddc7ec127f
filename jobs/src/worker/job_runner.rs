//! Runs jobs of a lane while its lease is held: permit, attempt, end.

use crate::job::JobTerms;
use crate::lane::Lane;
use crate::lane::lease::{Replaced, Wait};
use crate::store::attempts::Attempts;
use crate::store::{Placed, Store};
use crate::worker::held_lease::HeldLease;
use crate::worker::retry_policy::NoPermit;
use crate::worker::shared::{HandlerResult, Shared};
use crate::{Attempt, Failure};
use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use futures::FutureExt;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use rampmeter_worker_sdk::Permit;
use rampmeter_worker_sdk::call::Acquire;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::sync::Mutex;

/// Prefix of headers for the server, such as a job's id and its batch. They do not apply to a dead letter.
const OF_SERVERS: &str = "Nats-";

pub(crate) struct JobRunner<'w> {
    pub(crate) shared: &'w Shared,
    pub(crate) lane: Lane,
    pub(crate) hold: HeldLease,
    /// The note of attempts, locked while it is written.
    attempts: Mutex<Placed<Attempts>>,
}

#[derive(Debug)]
pub(crate) enum End {
    Gone,
    Waits(Wait),
}

impl<'w> JobRunner<'w> {
    pub(crate) async fn start(
        shared: &'w Shared,
        lane: Lane,
        hold: HeldLease,
        pace_ms: Option<u64>,
    ) -> Result<Self, Replaced> {
        let attempts = hold.during(shared.store.attempts(&lane)).await?;
        let mut attempts = attempts.unwrap_or(Placed { sequence: 0, value: Attempts::default() });
        attempts.value = attempts.value.at_pace(pace_ms);
        Ok(JobRunner { shared, lane, hold, attempts: Mutex::new(attempts) })
    }

    pub(crate) async fn pace_ms(&self) -> Option<u64> {
        self.attempts.lock().await.value.pace_ms()
    }

    /// Handles a job with this past wait, until it ends or has to wait again.
    pub(crate) async fn handle(&self, job: &StreamMessage, known: Wait) -> Result<End, Replaced> {
        let clock = Clock::start();
        let end = self.try_once(job, known).await?;
        if let End::Gone = end {
            let taken = Span::from_millis(known.age_ms) + clock.now().since(Clock::START);
            let each = millis(taken.duration()) / self.shared.concurrency as u64;
            let mut attempts = self.attempts.lock().await;
            attempts.value = std::mem::take(&mut attempts.value).without(job.sequence).paced(each);
        }
        Ok(end)
    }

    async fn try_once(&self, job: &StreamMessage, known: Wait) -> Result<End, Replaced> {
        let attempts = self.attempts.lock().await.value.at(job.sequence);
        if self.shared.policy.is_spent(attempts) {
            return self.give_up(job, attempts, "its worker did not survive the last attempt").await;
        }
        let terms = match JobTerms::read(&job.headers) {
            Ok(terms) => terms,
            Err(why) => return self.give_up(job, attempts, &why).await,
        };
        match self.permit(job, attempts, &terms, known).await? {
            Ok(permit) => self.attempt(job, &terms, permit, attempts + 1).await,
            Err(end) => Ok(end),
        }
    }

    /// Obtains a permit whose start has come, or else returns the end of the job.
    async fn permit(
        &self,
        job: &StreamMessage,
        attempts: u32,
        terms: &JobTerms,
        known: Wait,
    ) -> Result<Result<Permit, End>, Replaced> {
        let patience = self.shared.policy.patience(known.times);
        let (clock, before) = (Clock::start(), Span::from_millis(known.age_ms));
        loop {
            let age = before + clock.now().since(Clock::START);
            let Some(request) = self.request(terms) else {
                return self.give_up(job, attempts, "it has no room for the label of its group").await.map(Err);
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
                    let (after_ms, age_ms) = (millis(after), millis(age.duration()));
                    let wait = Wait { after_ms, job: job.sequence, age_ms, times: known.times + 1 };
                    return Ok(Err(End::Waits(wait)));
                }
                NoPermit::Dead(why) => return self.give_up(job, attempts, &why).await.map(Err),
            }
            if self.shared.is_stopping() {
                let age_ms = millis(age.duration());
                return Ok(Err(End::Waits(Wait { after_ms: 0, job: job.sequence, age_ms, ..known })));
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

    /// Runs the job. The note of the attempt is written first, by compare-and-set, so that no two workers begin
    /// the same attempt and a replaced worker begins none. An attempt that its worker does not survive counts.
    async fn attempt(
        &self,
        job: &StreamMessage,
        terms: &JobTerms,
        permit: Permit,
        number: u32,
    ) -> Result<End, Replaced> {
        self.note(|attempts| attempts.begun(job.sequence, number)).await?;
        // Writing the note may have taken long.
        let permit = match self.hold.during(permit.ready()).await? {
            Ok(permit) => permit,
            Err(_denied) => return self.take_back(job.sequence, number).await,
        };
        self.hold.check()?;
        let call = permit.begin();
        match self.run(self.new_attempt(job, terms, number)).await {
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

    /// Runs the handler to its end or deadline, even beyond the lease, which is better than a second call.
    async fn run(&self, attempt: Attempt) -> HandlerResult {
        let run = AssertUnwindSafe((self.shared.handler)(attempt)).catch_unwind();
        let ended = match self.shared.policy.deadline {
            None => run.await,
            Some(deadline) => match tokio::time::timeout(deadline, run).await {
                Ok(ended) => ended,
                Err(_elapsed) => return Err(Failure::for_now(format!("the handler took longer than {deadline:?}"))),
            },
        };
        ended.unwrap_or_else(|_panic| Err(Failure::for_now("the handler panicked")))
    }

    /// Removes an attempt from the count that failed through no fault of the job.
    async fn take_back(&self, job: u64, number: u32) -> Result<End, Replaced> {
        self.note(|attempts| attempts.begun(job, number - 1).failed(job)).await?;
        Ok(End::Waits(Wait { job, ..Wait::default() }))
    }

    async fn failed(&self, job: &StreamMessage, attempts: u32, failure: &Failure) -> Result<End, Replaced> {
        tracing::warn!(group = self.lane.group, job = job.sequence, attempts, %failure, "an attempt failed");
        match self.shared.policy.failed(attempts, failure) {
            Err(why) => self.give_up(job, attempts, &why).await,
            Ok(after) => {
                // `Queue::status` distinguishes failed jobs from jobs that run beside them.
                if self.shared.concurrency > 1 {
                    self.note(|attempts| attempts.failed(job.sequence)).await?;
                }
                Ok(End::Waits(Wait { after_ms: millis(after), job: job.sequence, ..Wait::default() }))
            }
        }
    }

    async fn note(&self, change: impl FnOnce(Attempts) -> Attempts) -> Result<(), Replaced> {
        let mut noted = self.attempts.lock().await;
        let value = change(noted.value.clone());
        let sequence = self.hold.during(self.store().note_attempts(&self.lane, &value, noted.sequence)).await??;
        *noted = Placed { sequence, value };
        Ok(())
    }

    async fn give_up(&self, job: &StreamMessage, attempts: u32, why: &str) -> Result<End, Replaced> {
        tracing::error!(group = self.lane.group, job = job.sequence, attempts, why, "a job is given up");
        let mut headers = HeaderMap::new();
        for (name, values) in job.headers.iter().filter(|(name, _)| !name.to_string().starts_with(OF_SERVERS)) {
            values.iter().for_each(|value| headers.append(name.clone(), value.clone()));
        }
        crate::status::explain(&mut headers, job, attempts, why);
        self.hold.during(self.store().add_dead_letter(&self.lane, job.sequence, job.payload.clone(), headers)).await?;
        Ok(self.finish(job.sequence).await)
    }

    /// Deletes an ended job, even if another worker has the lane lease by now.
    async fn finish(&self, job: u64) -> End {
        self.store().finish(job).await;
        End::Gone
    }

    /// Deletes the note of attempts of a lane that looks empty.
    pub(crate) async fn forget_attempts(&self) -> Result<(), Replaced> {
        let noted = self.attempts.lock().await.sequence;
        if noted != 0 {
            self.hold.during(self.store().forget(noted)).await?;
        }
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

    pub(crate) fn store(&self) -> &'w Store {
        &self.shared.store
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
