//! Calls with their permits.

use crate::error::RunError;
use crate::permit::acquire::Acquire;
use crate::permit::acquire::RequestSpec;
use crate::permit::outcome::Reply;

impl Acquire {
    /// Gets a permit, waits for its start, calls, and settles.
    ///
    /// A 429 is settled with its headers, so that all workers pause. The call is then repeated with
    /// a new permit, up to three times or as set by [`repeats`](Acquire::repeats), until another
    /// response or the deadline. `call` must therefore be safe to repeat after a 429. The caller
    /// receives the last 429, and one whose code no waiting mends, such as `insufficient_quota`.
    ///
    /// ```no_run
    /// # async fn fetch() -> Result<http::Response<Vec<u8>>, std::io::Error> { unimplemented!() }
    /// # async fn example(hub: rampmeter_worker_sdk::Resource) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let tile = hub.acquire(1).class("bulk").deadline(Duration::from_secs(60)).run(|| fetch()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RunError::Permit`] if there is no permit, [`RunError::Call`] if `call` failed.
    pub async fn run<F, Fut, R, E>(self, mut call: F) -> Result<R, RunError<E>>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<R, E>>,
        R: Reply,
    {
        let mut repeats = self.repeats;
        let RequestSpec { resource, mut request, deadline } = self.into_spec()?;
        loop {
            let in_flight = RequestSpec { resource: resource.clone(), request, deadline }.begin_call().await?;
            let reply = call().await.map_err(RunError::Call)?;
            let outcome = reply.outcome();
            let is_last = repeats == 0 || !outcome.is_worth_repeating();
            request = in_flight.end(outcome);
            if is_last {
                return Ok(reply);
            }
            repeats -= 1;
            tracing::warn!(resource = resource.name(), "the upstream answered 429; asking for a new permit");
        }
    }
}
