//! Waiting without luck: for something, with a bound, or for a time, with a reason.

use std::time::Duration;

/// Far beyond what anything here takes, even on a loaded machine; it turns a hang into a failure.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(5);

/// What `look` finds, as soon as it finds something.
///
/// # Panics
/// If it finds nothing within [`PATIENCE`].
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    within(what, looking).await
}

/// What comes of `waiting`.
///
/// # Panics
/// If that takes longer than [`PATIENCE`].
pub async fn within<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(done) => done,
        Err(_elapsed) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// Lets `time` pass because the passing of time itself is what is tested, as `why` says.
pub async fn let_pass(time: Duration, why: &str) {
    assert!(!why.is_empty());
    tokio::time::sleep(time).await;
}

/// Stops this thread for `time`: for one that does nothing but look at the clock.
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
