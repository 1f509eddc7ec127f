//! The contents of a queue in JetStream, and all operations on them.
//!
//! Operations are repeated until the server has confirmed them. Messages have ids, so that it detects repetitions.

pub(super) mod attempts;
pub(super) mod connection;
pub(super) mod difference;
pub(super) mod layout;
pub(super) mod opening;
pub(super) mod pull;
pub(super) mod retry;

use crate::QueueError;
use crate::lane::lease::{LaneLease, Replaced};
use crate::lane::{Lane, LaneMessage};
use crate::store::attempts::Attempts;
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::{self, DeleteMessageError, RawMessageErrorKind};
use bytes::Bytes;
use connection::Connection;
use futures::{FutureExt, TryStreamExt};
use layout::Layout;
use rampmeter_nats::entropy::secret;
use retry::{retry_for_a_while, retry_until_done};

/// How often a count is written again while other publishers write it too.
const COUNT_ATTEMPTS: usize = 16;

/// The two streams of a queue.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) connection: Connection,
    pub(crate) layout: Layout,
    pub(crate) jobs: stream::Stream,
    pub(crate) lanes: stream::Stream,
}

/// A message with its sequence in the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<T> {
    pub(crate) sequence: u64,
    pub(crate) value: T,
}

impl Store {
    /// Returns the oldest job of `lane`, at the sequence `from` or later.
    pub(crate) async fn next_job(&self, lane: &Lane, from: u64) -> Option<StreamMessage> {
        let subject = self.layout.subjects.of(LaneMessage::Job, lane);
        let next = || self.jobs.get_first_raw_message_by_subject(&subject, from).map(or_none);
        retry_until_done("looking for a job", next).await
    }

    /// Returns the job or dead letter at `sequence`, if it still exists.
    pub(crate) async fn job(&self, sequence: u64) -> Option<StreamMessage> {
        retry_until_done("looking for a job", || self.jobs.get_raw_message(sequence).map(or_none)).await
    }

    pub(crate) async fn lane_lease(&self, lane: &Lane) -> Option<Placed<LaneLease>> {
        self.last(LaneMessage::LaneLease, lane).await
    }

    pub(crate) async fn attempts(&self, lane: &Lane) -> Option<Placed<Attempts>> {
        self.last(LaneMessage::Attempt, lane).await
    }

    /// Replaces the lane lease at the sequence `after`; 0 if there is none.
    pub(crate) async fn put_lane_lease(&self, lane: &Lane, lane_lease: LaneLease, after: u64) -> Result<u64, Replaced> {
        self.replace(LaneMessage::LaneLease, lane, &lane_lease, after).await
    }

    pub(crate) async fn note_attempts(&self, lane: &Lane, attempts: &Attempts, after: u64) -> Result<u64, Replaced> {
        self.replace(LaneMessage::Attempt, lane, attempts, after).await
    }

    /// Deletes a message of the stream of lanes, if it still exists.
    pub(crate) async fn forget(&self, sequence: u64) {
        delete(&self.lanes, sequence).await;
    }

    /// Deletes a job, and returns whether it still existed.
    pub(crate) async fn finish(&self, sequence: u64) -> bool {
        delete(&self.jobs, sequence).await
    }

    pub(crate) async fn add_dead_letter(&self, lane: &Lane, job: u64, payload: Bytes, headers: HeaderMap) {
        let subject = self.layout.subjects.of(LaneMessage::Dead, lane);
        let letter = || PublishMessage::build().payload(payload.clone()).headers(headers.clone());
        // The id makes one dead letter of a job, even if the worker dies before deleting it. No job's id has a space.
        let letter = || letter().message_id(format!("dead {job}"));
        retry_until_done("writing a dead letter", || self.publish(&subject, letter())).await;
    }

    /// Publishes once, without repetition, and waits for the result.
    pub(crate) async fn publish(&self, subject: &str, message: PublishMessage) -> Result<PublishAck, PublishError> {
        self.connection.jetstream.send_publish(subject.to_owned(), message).await?.await
    }

    /// Returns how many jobs were dropped because their ids were known, with the count's sequence.
    pub(crate) async fn repeated(&self) -> Result<Placed<u64>, stream::RawMessageError> {
        let last = or_none(self.lanes.get_last_raw_message_by_subject(&self.layout.subjects.repeated()).await)?;
        let count = |payload: &[u8]| std::str::from_utf8(payload).ok()?.parse().ok();
        Ok(last.map_or(Placed { sequence: 0, value: 0 }, |message| Placed {
            sequence: message.sequence,
            value: count(&message.payload).unwrap_or(0),
        }))
    }

    /// Adds `more` jobs that were dropped because their ids were known. Gives up soon, so that no job waits long.
    pub(crate) async fn count_repeated(&self, more: u64) {
        for _ in 0..COUNT_ATTEMPTS {
            let Ok(Placed { sequence, value }) = self.repeated().await else { return };
            let message = PublishMessage::build().payload((value + more).to_string().into());
            match self.publish(&self.layout.subjects.repeated(), message.expected_last_subject_sequence(sequence)).await
            {
                Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    pub(crate) async fn counts(&self, kind: LaneMessage) -> Result<Vec<(Lane, usize)>, QueueError> {
        let stream = match kind {
            LaneMessage::Job | LaneMessage::Dead => &self.jobs,
            LaneMessage::LaneLease | LaneMessage::Attempt => &self.lanes,
        };
        let failed = |error| QueueError::store("counting", error);
        let mut subjects = retry_for_a_while(|| stream.info_with_subjects(self.layout.subjects.all(kind)))
            .await
            .map_err(|error| failed(Box::new(error)))?;
        let mut counts = Vec::new();
        while let Some((subject, count)) = subjects.try_next().await.map_err(|error| failed(Box::new(error)))? {
            counts.extend(self.layout.subjects.lane(kind, &subject).map(|lane| (lane, count)));
        }
        Ok(counts)
    }

    async fn last<T: serde::de::DeserializeOwned>(&self, kind: LaneMessage, lane: &Lane) -> Option<Placed<T>> {
        let subject = self.layout.subjects.of(kind, lane);
        let message =
            retry_until_done("reading a lane", || self.lanes.get_last_raw_message_by_subject(&subject).map(or_none))
                .await?;
        let value = serde_json::from_slice(&message.payload);
        let value =
            value.inspect_err(|error| tracing::error!(%error, subject, "a stored message about a lane is unreadable"));
        Some(Placed { sequence: message.sequence, value: value.ok()? })
    }

    async fn replace(
        &self,
        kind: LaneMessage,
        lane: &Lane,
        value: &impl serde::Serialize,
        after: u64,
    ) -> Result<u64, Replaced> {
        let subject = self.layout.subjects.of(kind, lane);
        let payload = Bytes::from(serde_json::to_vec(value).expect("numbers have a JSON form"));
        let id = unique();
        let written = retry_until_done("writing a lane", || {
            let message = PublishMessage::build().payload(payload.clone()).message_id(&id);
            self.publish(&subject, message.expected_last_subject_sequence(after)).map(or_replaced)
        });
        match written.await {
            Ok(sequence) => Ok(sequence),
            // The overtaking write may be this worker's own: an unconfirmed write is repeated.
            Err(Replaced) => self.written_before(&subject, &id).await.ok_or(Replaced),
        }
    }

    /// Returns the sequence of the message with this id, if it is the last on `subject`.
    async fn written_before(&self, subject: &str, id: &str) -> Option<u64> {
        let last =
            retry_until_done("reading a lane", || self.lanes.get_last_raw_message_by_subject(subject).map(or_none))
                .await?;
        let is_it = last.headers.get(NATS_MESSAGE_ID).is_some_and(|found| found.as_str() == id);
        is_it.then_some(last.sequence)
    }
}

fn or_replaced(published: Result<PublishAck, PublishError>) -> Result<Result<u64, Replaced>, PublishError> {
    match published {
        Ok(ack) => Ok(Ok(ack.sequence)),
        Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(Err(Replaced)),
        Err(error) => Err(error),
    }
}

/// Returns an id that no other message has.
pub(crate) fn unique() -> String {
    format!("{:032x}", secret())
}

/// Converts the error for a missing message to `None`.
pub(crate) fn or_none<T>(found: Result<T, stream::RawMessageError>) -> Result<Option<T>, stream::RawMessageError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes a message, and returns whether it still existed. JetStream reports a missing message as a failure.
async fn delete(stream: &stream::Stream, sequence: u64) -> bool {
    retry_until_done("deleting", || try_delete(stream, sequence)).await
}

async fn try_delete(stream: &stream::Stream, sequence: u64) -> Result<bool, DeleteMessageError> {
    match stream.delete_message(sequence).await {
        Ok(deleted) => Ok(deleted),
        Err(error) => match or_none(stream.get_raw_message(sequence).await) {
            Ok(None) => Ok(false),
            Ok(Some(_)) | Err(_) => Err(error),
        },
    }
}
