//! What runs a job is given.

use bytes::Bytes;

/// One attempt at a job, as it is handed to whoever runs it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The job's id, the same for every attempt: for an upstream that does nothing twice under one key.
    pub id: String,
    /// Its place in the stream.
    pub sequence: u64,
    /// Its group.
    pub group: String,
    /// Its class, if it has one.
    pub class: Option<String>,
    /// What its producer gave it.
    pub payload: Bytes,
    /// 1 for the first attempt. One that its worker did not survive counts.
    pub number: u32,
}
