//! What the handler of a job receives.

use bytes::Bytes;

/// One attempt at a job, for the handler that runs it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The job's id, the same for every attempt. An upstream with idempotency keys can use it as
    /// the key.
    pub id: String,
    /// Its place in the stream.
    pub sequence: u64,
    /// Its group.
    pub group: String,
    /// Its class, if it has one.
    pub class: Option<String>,
    /// The payload that the producer set.
    pub payload: Bytes,
    /// 1 for the first attempt. An attempt that its worker did not survive counts.
    pub number: u32,
}
