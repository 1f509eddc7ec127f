//! Permits for requests to a token endpoint, which has a limit of its own.

use super::error::{FailureKind, ProviderError, Question};
use tokio::sync::{mpsc, oneshot};

/// Asks another task for permits, as a provider knows no schedulers.
#[derive(Clone, Debug)]
pub struct TokenPermits(mpsc::Sender<WantedPermit>);

/// A wish for a permit, which is withdrawn if the other end of the channel is dropped.
pub type WantedPermit = oneshot::Sender<Result<TokenPermit, String>>;

/// A permit whose start has come. The endpoint's status settles it; dropped, it counts as used.
pub type TokenPermit = oneshot::Sender<u16>;

const OK: u16 = 200;
const TOO_MANY_REQUESTS: u16 = 429;

impl TokenPermits {
    /// Creates a channel to the task that gets the permits.
    #[must_use]
    pub fn channel() -> (Self, mpsc::Receiver<WantedPermit>) {
        let (sender, wanted) = mpsc::channel(1);
        (TokenPermits(sender), wanted)
    }

    /// Sends a request with a permit, and settles the permit.
    pub(super) async fn send<T>(
        &self,
        request: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let permit = self.ask().await.map_err(|reason| {
            let reason = format!("no permit for the request: {reason}");
            ProviderError::new(Question::Token, FailureKind::RateLimited, reason)
        })?;
        let answer = request.await;
        let status = match &answer {
            Ok(_) => Some(OK),
            Err(error) => (error.kind == FailureKind::RateLimited).then_some(TOO_MANY_REQUESTS),
        };
        if let Some(status) = status {
            permit.send(status).ok();
        }
        answer
    }

    async fn ask(&self) -> Result<TokenPermit, String> {
        let (wanted, granted) = oneshot::channel();
        // If the other end is gone, the wait below fails, too.
        self.0.send(wanted).await.ok();
        granted.await.unwrap_or_else(|_| Err("this process stops".to_owned()))
    }
}
