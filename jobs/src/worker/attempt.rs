//! Attempts, as received by handlers.

use bytes::Bytes;

/// One attempt at a job, for the handler that runs it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The job's id, the same for every attempt, and thus suitable as an idempotency key.
    pub id: String,
    /// The job's sequence in the stream.
    pub sequence: u64,
    /// The job's group.
    pub group: String,
    /// The job's class, if it has one.
    pub class: Option<String>,
    /// The producer's payload.
    pub payload: Bytes,
    /// 1 for the first attempt. An attempt that its worker did not survive counts.
    pub number: u32,
}
