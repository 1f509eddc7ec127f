//! Waits without luck: for a condition with a bound, or for a time with a reason.

use std::time::Duration;

/// Longer than any step here takes, even on a loaded machine; it turns a hang into a failure.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a condition is checked.
const POLL: Duration = Duration::from_millis(5);

/// The result of `look`, as soon as it has one.
///
/// # Panics
/// If it has none within [`STEP_TIMEOUT`].
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

/// The result of `waiting`.
///
/// # Panics
/// If that takes longer than [`STEP_TIMEOUT`].
pub async fn within<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    match tokio::time::timeout(STEP_TIMEOUT, waiting).await {
        Ok(done) => done,
        Err(_elapsed) => panic!("{what}: not within {STEP_TIMEOUT:?}"),
    }
}

/// Lets `time` pass, because the passing of time itself is tested, as `why` says.
pub async fn let_pass(time: Duration, why: &str) {
    assert!(!why.is_empty());
    tokio::time::sleep(time).await;
}

/// Stops this thread for `time`, if the thread only watches the clock.
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
