//! The client library's plain `request`, as a worker without the SDK would use it.

use crate::case::Case;
use crate::round::{Round, RoundTrips};
use crate::thread::alone;
use futures::stream::{FuturesUnordered, StreamExt};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler::config::NatsTable;
use rampmeter_scheduler::connection::connect;
use std::time::Duration;

/// A request as a worker would send it.
const REQUEST: &str =
    r#"{"id":"00000000000000000000000-00000","cost":{"requests":1,"processing-units":2.5},"mode":"wait"}"#;

/// Keeps as many calls of `request` in flight, for `length`, as the case has calls of `acquire`.
pub(crate) async fn round(url: &str, subject: &str, case: &Case, length: Duration) -> anyhow::Result<Round> {
    let (url, subject, calls) = (url.to_owned(), subject.to_owned(), case.in_flight * case.array);
    alone("load", move || async move {
        let client = connect(&NatsTable::at(&url), "load").await?;
        let clock = Clock::start();
        let request = || async {
            let sent = clock.now();
            client.request(subject.clone(), REQUEST.into()).await?;
            Ok(sent)
        };
        keep_in_flight(calls, length, clock, request).await
    })
    .await
}

/// Keeps `calls` calls in flight for `length`. Each call returns the time of its beginning.
pub(crate) async fn keep_in_flight<F>(
    calls: usize,
    length: Duration,
    clock: Clock,
    call: impl Fn() -> F,
) -> anyhow::Result<Round>
where
    F: Future<Output = anyhow::Result<Time>>,
{
    let mut in_flight: FuturesUnordered<F> = (0..calls).map(|_| call()).collect();
    let mut round_trips = RoundTrips::new();
    let begin = clock.now();
    let end = begin + Span::from(length);
    while let Some(sent) = in_flight.next().await {
        let now = clock.now();
        round_trips.note(now.since(sent?));
        if now >= end {
            return Ok(round_trips.round(now.since(begin).duration(), 1));
        }
        in_flight.push(call());
    }
    anyhow::bail!("nothing is in flight")
}
