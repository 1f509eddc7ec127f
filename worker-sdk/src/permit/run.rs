//! A call with its permit.

use crate::error::RunError;
use crate::permit::acquire::Acquire;
use crate::permit::acquire::RequestSpec;
use crate::permit::outcome::Reply;

impl Acquire {
    /// Gets a permit, waits for its start, calls, and settles.
    ///
    /// An answer with status 429 is settled with its headers, so that all workers pause. The call
    /// is then repeated with a new permit, up to three times or as [`repeats`](Acquire::repeats)
    /// says, until another answer or the deadline comes. `call` must therefore be safe to repeat
    /// after a 429. After the last repeat, and if its code is one that no wait mends, such as
    /// `insufficient_quota`, the caller receives the 429.
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
    /// [`RunError::Permit`] if there is no permit (any more), [`RunError::Call`] with the error of
    /// `call`.
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
