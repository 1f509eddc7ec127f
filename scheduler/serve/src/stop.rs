//! The signal that ends the process's work.

use tokio::sync::watch;

/// Becomes `true` when the process is to stop.
pub type Stop = watch::Receiver<bool>;

/// Returns when the process is to stop.
pub async fn stopped(stop: &mut Stop) {
    stop.wait_for(|stop| *stop).await.ok();
}
