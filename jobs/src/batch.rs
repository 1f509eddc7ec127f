//! Publishes many jobs: as atomic batches of JetStream (ADR-50), or one by one where a batch is refused.

use crate::job::Written;
use crate::lane::LaneMessage;
use crate::store::retry::retry_for_a_while;
use crate::store::{Store, unique};
use crate::{Published, QueueError};
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use std::time::Duration;

const BATCH_ID: &str = "Nats-Batch-Id";
const BATCH_SEQUENCE: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT: &str = "Nats-Batch-Commit";
/// Bound on the jobs of a batch, set by servers.
const MAX_JOBS: usize = 1000;
/// Bound on the bytes of a batch, which the server keeps in memory until it is complete.
const MAX_BYTES: usize = 4 << 20;
/// The bytes of a job besides its payload, at the usual size of ids and labels.
const HEADERS_BYTES: usize = 256;
/// How long to wait for the answer to a batch, before its jobs are sent one by one under their ids.
const ANSWER: Duration = Duration::from_secs(5);

/// Some jobs were published, but the next one was not.
#[derive(Debug, thiserror::Error)]
#[error("{} jobs are published, and the next is not: {error}", .published.len())]
pub struct PartlyPublished {
    /// The first jobs, which are in the stream.
    pub published: Vec<Published>,
    /// Why the job after them is not. As with a single job, it may have arrived nevertheless.
    #[source]
    pub error: QueueError,
}

impl Written {
    /// Publishes this job alone.
    pub(crate) async fn publish(&self, store: &Store) -> Result<Published, QueueError> {
        let subject = self.subject(store);
        let message = || {
            let message = PublishMessage::build().payload(self.payload.clone()).headers(self.headers.clone());
            message.message_id(&self.id)
        };
        let published = retry_for_a_while(|| store.publish(&subject, message())).await;
        let ack = published.map_err(|error| QueueError::store("publishing a job", error))?;
        Ok(Published { sequence: ack.sequence, duplicate: ack.duplicate })
    }

    fn subject(&self, store: &Store) -> String {
        store.layout.subjects.of(LaneMessage::Job, &self.lane)
    }

    fn bytes(&self) -> usize {
        self.payload.len() + HEADERS_BYTES
    }

    fn headers_as_batch_member(&self, batch: &str, place: usize, commits: bool) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(NATS_MESSAGE_ID, self.id.as_str());
        headers.insert(BATCH_ID, batch);
        headers.insert(BATCH_SEQUENCE, place.to_string());
        if commits {
            headers.insert(BATCH_COMMIT, "1");
        }
        headers
    }
}

/// Publishes all jobs in order, or only the first of them if one fails.
pub(crate) async fn publish(store: &Store, jobs: &[Written]) -> Result<Vec<Published>, PartlyPublished> {
    let takes_batches = store.jobs.cached_info().config.allow_atomic_publish;
    let mut published = Vec::with_capacity(jobs.len());
    let mut rest = jobs;
    while !rest.is_empty() {
        let (batch, behind) = rest.split_at(fitting(rest));
        let first = if takes_batches && batch.len() > 1 { together(store, batch).await } else { None };
        match first {
            Some(first) => {
                let places = first..first + batch.len() as u64;
                published.extend(places.map(|sequence| Published { sequence, duplicate: false }));
            }
            None => {
                for job in batch {
                    match job.publish(store).await {
                        Ok(one) => published.push(one),
                        Err(error) => return Err(PartlyPublished { published, error }),
                    }
                }
            }
        }
        rest = behind;
    }
    Ok(published)
}

/// Returns how many of the first jobs fit into a batch: at least one.
fn fitting(jobs: &[Written]) -> usize {
    let mut bytes = 0;
    let fits = |job: &&Written| {
        bytes += job.bytes();
        bytes <= MAX_BYTES
    };
    jobs.iter().take(MAX_JOBS).take_while(fits).count().max(1)
}

/// Publishes a batch. Returns its first job's sequence, or `None` without an answer or if refused, as for a known id.
async fn together(store: &Store, jobs: &[Written]) -> Option<u64> {
    let (client, batch) = (&store.connection.client, unique());
    let (last, others) = jobs.split_last()?;
    for (place, job) in others.iter().enumerate() {
        let headers = job.headers_as_batch_member(&batch, place + 1, false);
        client.publish_with_headers(job.subject(store), headers, job.payload.clone()).await.ok()?;
    }
    let request = async_nats::Request::new().timeout(Some(ANSWER)).payload(last.payload.clone());
    let request = request.headers(last.headers_as_batch_member(&batch, jobs.len(), true));
    let answer = client.send_request(last.subject(store), request).await.ok()?;
    match serde_json::from_slice::<Response<PublishAck>>(&answer.payload).ok()? {
        Response::Ok(ack) => (ack.sequence + 1).checked_sub(jobs.len() as u64),
        Response::Err { error } => {
            tracing::debug!(%error, jobs = jobs.len(), "a batch is refused; its jobs follow one by one");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::Lane;
    use bytes::Bytes;

    fn jobs(count: usize, payload: usize) -> Vec<Written> {
        let payload = Bytes::from(vec![0; payload]);
        let lane = Lane::new(None, "a").unwrap();
        let one =
            || Written { lane: lane.clone(), id: String::new(), headers: HeaderMap::new(), payload: payload.clone() };
        std::iter::repeat_with(one).take(count).collect()
    }

    /// Reaches `MAX_JOBS` and `MAX_BYTES`: 4 MiB are four jobs of a mebibyte with their headers.
    #[test]
    fn a_batch_has_a_thousand_jobs_or_four_mebibytes() {
        let mebibyte = (1 << 20) - HEADERS_BYTES;
        let table = [
            (1000, 0, 1000),
            (1001, 0, 1000),
            (5000, 0, 1000),
            (4, mebibyte, 4),
            (5, mebibyte, 4),
            (4, mebibyte + 1, 3),
            (2, 5 << 20, 1),
        ];
        for (count, payload, first) in table {
            assert_eq!(fitting(&jobs(count, payload)), first, "{count} jobs of {payload} bytes");
        }
    }
}
