//! A thread with a runtime of its own, like that of a scheduler or a busy worker.

use anyhow::Context;
use tokio::sync::oneshot;

/// Runs `work` on a new thread, and returns its result.
///
/// # Errors
/// If the system gives no thread or runtime, or the work fails.
pub(crate) async fn alone<T, F, W>(name: &str, work: W) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>>,
    W: FnOnce() -> F + Send + 'static,
{
    let (done, outcome) = oneshot::channel();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let worked = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(work()));
        done.send(worked).ok();
    })?;
    outcome.await.context("the thread has ended")?
}
