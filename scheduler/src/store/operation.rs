//! One operation of the store, with a timeout.

use std::time::Duration;

/// The longest time of one operation. During an election of the stream's leader, operations fail
/// and are retried.
pub(super) const OPERATION: Duration = Duration::from_secs(2);

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another scheduler has written the record, and leads the resource now.
    #[error("another scheduler has taken the resource over")]
    Superseded,
    /// The store can't be reached, or refuses the operation.
    #[error("the KV store does not answer: {0}")]
    Unavailable(String),
}

pub(super) async fn within<T, E: std::fmt::Display>(
    operation: impl Future<Output = Result<T, E>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(OPERATION, operation).await {
        Ok(done) => done.map_err(unavailable),
        Err(elapsed) => Err(unavailable(elapsed)),
    }
}

pub(super) fn unavailable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
