//! Load: a constant number of requests in flight, from a thread of its own.

use crate::case::{Case, Client, Path};
use crate::echo;
use crate::figures::{Figures, RoundTrips};
use anyhow::{Context, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::{FuturesUnordered, StreamExt};
use rampmeter_config::NatsTable;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_serve::connection::connect;
use rampmeter_serve::denials::Denials;
use rampmeter_worker_sdk::{self as sdk, Cost};
use std::io::Write;
use std::time::Duration;

/// The prefix of the bench's subjects and of its KV bucket.
pub(crate) const PREFIX: &str = "rampmeter-bench";
/// A request as a worker would send it.
const REQUEST: &str =
    r#"{"id":"00000000000000000000000-00000","cost":{"requests":1,"processing-units":2.5},"mode":"wait"}"#;
/// The beginning of every answer of the scheduler.
const GRANTED: [&[u8]; 2] = [b"{\"status\":\"granted\"", b"[{\"status\":\"granted\""];

/// Loads `path` as `case` says, for `length`.
///
/// # Errors
/// If an answer is no permit, or the connection ends.
pub(crate) async fn round(url: &str, case: Case, path: Path, length: Duration) -> anyhow::Result<Figures> {
    let url = url.to_owned();
    alone(move || async move {
        match case.client(path) {
            Client::Multiplexer => Flood::start(&url, case, path).await?.run(length).await,
            Client::Request => requests(&url, case, length).await,
            Client::Sdk => acquires(&url, case, length).await,
        }
    })
    .await
}

/// Runs `work` on a new thread with a runtime of its own, like that of a scheduler or a busy
/// worker.
///
/// # Errors
/// If the system gives no thread or runtime, or the work fails.
pub(crate) async fn alone<T, F, W>(work: W) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>>,
    W: FnOnce() -> F + Send + 'static,
{
    let on_thread = || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work());
    tokio::task::spawn_blocking(on_thread).await?
}

/// One connection, and one inbox for all answers.
struct Flood {
    client: async_nats::Client,
    subject: async_nats::Subject,
    inbox: String,
    answers: async_nats::Subscriber,
    case: Case,
    /// Whether answers have to be permits.
    permits: bool,
    clock: Clock,
    /// When the message of each place in flight was sent.
    sent: Vec<Time>,
    /// The number of requests so far, for their ids.
    count: u64,
    buffer: BytesMut,
}

impl Flood {
    async fn start(url: &str, case: Case, path: Path) -> anyhow::Result<Self> {
        let permits = path == Path::Scheduler;
        let subject = if permits { format!("{PREFIX}.permit.{}", case.resource()) } else { echo::SUBJECT.to_owned() };
        let client = connect(&Denials::default(), &NatsTable::at(url), "load").await?;
        let inbox = client.new_inbox();
        let answers = client.subscribe(format!("{inbox}.*")).await?;
        client.flush().await?;
        let (clock, sent) = (Clock::start(), vec![Time::ORIGIN; case.in_flight]);
        let (count, buffer) = (0, BytesMut::new());
        Ok(Flood { client, subject: subject.into(), inbox, answers, case, permits, clock, sent, count, buffer })
    }

    async fn run(mut self, length: Duration) -> anyhow::Result<Figures> {
        for place in 0..self.sent.len() {
            self.send(place).await?;
        }
        let mut round_trips = RoundTrips::new();
        let begin = self.clock.now();
        let end = begin + Span::from(length);
        loop {
            let answer = self.answers.next().await.context("the connection has ended")?;
            let now = self.clock.now();
            let fits = !self.permits || GRANTED.iter().any(|granted| answer.payload.starts_with(granted));
            ensure!(fits, "the scheduler answered {}", String::from_utf8_lossy(&answer.payload));
            let place: usize = answer.subject[self.inbox.len() + 1..].parse()?;
            round_trips.note(now.since(self.sent[place]));
            if now >= end {
                return Ok(round_trips.figures(now.since(begin).duration(), self.case.array));
            }
            self.send(place).await?;
        }
    }

    async fn send(&mut self, place: usize) -> anyhow::Result<()> {
        let payload = self.next_payload();
        let reply = format!("{}.{place}", self.inbox);
        self.sent[place] = self.clock.now();
        self.client.publish_with_reply(self.subject.clone(), reply, payload).await?;
        Ok(())
    }

    /// Requests with unused ids.
    fn next_payload(&mut self) -> Bytes {
        let is_array = self.case.array > 1;
        let (_, prefix) = self.inbox.rsplit_once('.').unwrap_or_default();
        for element in 0..self.case.array {
            if is_array {
                self.buffer.put_u8(if element == 0 { b'[' } else { b',' });
            }
            self.count += 1;
            let cost = r#""cost":{"requests":1,"processing-units":2.5}"#;
            let mut writer = (&mut self.buffer).writer();
            write!(writer, r#"{{"id":"{prefix}-{}",{cost}}}"#, self.count).expect("memory can be written to");
        }
        if is_array {
            self.buffer.put_u8(b']');
        }
        self.buffer.split().freeze()
    }
}

/// The client library's plain `request` to the echo, as a worker without the SDK would use it. As
/// many are in flight as the case has calls of `acquire`.
async fn requests(url: &str, case: Case, length: Duration) -> anyhow::Result<Figures> {
    let client = connect(&Denials::default(), &NatsTable::at(url), "load").await?;
    let request = || async {
        client.request(echo::SUBJECT, REQUEST.into()).await?;
        Ok(())
    };
    keep_in_flight(case, length, request).await
}

/// The SDK's `acquire`. Permits are used and dropped, and the SDK settles them, as in production.
async fn acquires(url: &str, case: Case, length: Duration) -> anyhow::Result<Figures> {
    let client = sdk::Client::builder().prefix(PREFIX).connect(url).await?;
    let resource = client.resource(&case.resource())?;
    let cost = Cost::requests(1).and("processing-units", 2.5);
    let acquire = || {
        let acquire = resource.acquire(cost.clone());
        async {
            drop(acquire.await?.begin());
            Ok(())
        }
    };
    let figures = keep_in_flight(case, length, acquire).await;
    client.close().await;
    figures
}

/// Keeps `in_flight` times `array` calls in flight for `length`.
async fn keep_in_flight<F>(case: Case, length: Duration, call: impl Fn() -> F) -> anyhow::Result<Figures>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let clock = Clock::start();
    let timed = || {
        let call = call();
        async move {
            let sent = clock.now();
            call.await.map(|()| sent)
        }
    };
    let mut in_flight: FuturesUnordered<_> = (0..case.in_flight * case.array).map(|_| timed()).collect();
    let mut round_trips = RoundTrips::new();
    let begin = clock.now();
    let end = begin + Span::from(length);
    while let Some(sent) = in_flight.next().await {
        let now = clock.now();
        round_trips.note(now.since(sent?));
        if now >= end {
            return Ok(round_trips.figures(now.since(begin).duration(), 1));
        }
        in_flight.push(timed());
    }
    anyhow::bail!("nothing is in flight")
}
