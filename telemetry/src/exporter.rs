//! The task that exports spans.

use crate::collector::{Collector, SendError};
use crate::otlp::{Request, Resource, SpanMessage};
use crate::spans::{QUEUE, Spans, Unbuilt, count_lost, lost_spans};
use bytes::Bytes;
use http::{HeaderMap, Uri};
use prost::Message;
use rampmeter_protocol::clock::{Clock, wall_clock_origin};
use rampmeter_protocol::time::{Span, Time};
use std::fmt;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// How often spans are sent: soon enough to be seen in an investigation, and in batches.
const EVERY: Duration = Duration::from_millis(500);
/// Bound on the spans in one request: some hundred kilobytes.
const MAX_SPANS: usize = 512;
/// How often a request is sent to a collector that is away.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// How long sending the last spans may take: a part of the time of a graceful stop.
const FAREWELL: Duration = Duration::from_secs(2);
/// Pause between two log lines about a collector that is away.
const LOGGED_EVERY: Span = Span::from_secs(60);

/// Settings of the exporter.
pub struct Settings {
    /// The collector's address for traces, which ends with `/v1/traces`.
    pub traces: Uri,
    /// The share of recorded traces, from 0 to 1, among those that begin here.
    pub sample: f64,
    /// The name of this service.
    pub service: String,
    /// A name that no other process of the service has.
    pub instance: String,
    /// Reads the headers for the collector. Called before each request, so that a key can change.
    pub headers: Box<dyn Fn() -> Result<HeaderMap, String> + Send + Sync>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("traces", &self.traces).field("sample", &self.sample).finish_non_exhaustive()
    }
}

/// Why the exporter can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system has no certificates to trust.
    #[error("no certificates to verify the collector with")]
    NoCertificates(#[source] std::io::Error),
    /// The headers for the collector can't be read.
    #[error("no headers for the collector: {0}")]
    NoHeaders(String),
}

/// The running task. Dropping it ends it, and loses what was not sent.
#[derive(Debug)]
pub struct Exporter {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Starts the task. Times of spans are on `clock`.
    ///
    /// # Errors
    /// If the headers can't be read, or the collector needs TLS and the system has no certificates.
    pub fn start(settings: Settings, clock: Clock) -> Result<(Spans, Exporter), StartError> {
        (settings.headers)().map_err(StartError::NoHeaders)?;
        let (sender, queue) = mpsc::channel(QUEUE);
        let spans = Spans::new(settings.sample, sender, clock);
        let task = Task::new(settings, clock, queue)?;
        let (stop, stopping) = oneshot::channel();
        Ok((spans, Exporter { stop, task: tokio::spawn(task.run(stopping)) }))
    }

    /// Sends the remaining spans, for at most two seconds, and ends the task.
    pub async fn stop(mut self) {
        self.stop.send(()).ok();
        if tokio::time::timeout(FAREWELL, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the collector did not take the last spans within {FAREWELL:?}");
        }
    }
}

struct Task {
    settings: Settings,
    collector: Collector,
    resource: Resource,
    clock: Clock,
    queue: mpsc::Receiver<Unbuilt>,
    /// Spans under way, which stay until the collector has them or they are lost.
    batch: Vec<SpanMessage>,
    last_logged: Option<Time>,
}

impl Task {
    fn new(settings: Settings, clock: Clock, queue: mpsc::Receiver<Unbuilt>) -> Result<Self, StartError> {
        Ok(Task {
            collector: Collector::new(settings.traces.clone()).map_err(StartError::NoCertificates)?,
            resource: Resource::new(&settings.service, &settings.instance),
            settings,
            clock,
            queue,
            batch: Vec::new(),
            last_logged: None,
        })
    }

    async fn run(mut self, mut stopping: oneshot::Receiver<()>) {
        loop {
            let round = async {
                tokio::time::sleep(EVERY).await;
                self.send_all().await;
            };
            tokio::select! {
                biased;
                _ = &mut stopping => break,
                () = round => {}
            }
        }
        self.send_all().await;
    }

    async fn send_all(&mut self) {
        while self.fill() {
            if let Err(error) = self.send_batch().await {
                count_lost(self.batch.len());
                self.log_loss(&error);
            }
            self.batch.clear();
        }
    }

    /// Fills the batch. Returns whether it contains any span.
    fn fill(&mut self) -> bool {
        let wall_clock = wall_clock_origin(self.clock.now());
        while self.batch.len() < MAX_SPANS {
            let Ok(build) = self.queue.try_recv() else { break };
            self.batch.push(SpanMessage::new(build(), wall_clock));
        }
        !self.batch.is_empty()
    }

    async fn send_batch(&self) -> Result<(), SendError> {
        let body = Bytes::from(Request::new(self.resource.clone(), self.batch.clone()).encode_to_vec());
        let mut attempt = 1;
        loop {
            let headers = (self.settings.headers)().map_err(SendError::Away);
            let sent = match headers {
                Ok(headers) => self.collector.send(&headers, body.clone()).await,
                Err(error) => Err(error),
            };
            match sent {
                Err(SendError::Away(_)) if attempt < ATTEMPTS => {
                    tokio::time::sleep(PAUSE * attempt).await;
                    attempt += 1;
                }
                sent => return sent,
            }
        }
    }

    fn log_loss(&mut self, error: &SendError) {
        let now = self.clock.now();
        if self.last_logged.is_none_or(|last| now.since(last) >= LOGGED_EVERY) {
            self.last_logged = Some(now);
            let (collector, lost) = (&self.settings.traces, lost_spans());
            tracing::warn!(%collector, %error, lost, "the collector does not take spans; they are lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::{self, Kind};
    use rampmeter_protocol::trace_context::TraceContext;

    fn ended() -> span::Span {
        span::Span {
            context: TraceContext::new([1; 16], [1; 8], true).unwrap(),
            parent: None,
            state: None,
            name: "permit".to_owned(),
            kind: Kind::Server,
            start: Time::ORIGIN,
            end: Time::ORIGIN,
            attributes: Vec::new(),
            links: Vec::new(),
            error: None,
        }
    }

    /// Reaches `exporter::MAX_SPANS`.
    #[test]
    fn more_spans_than_a_request_takes_wait_for_the_next_one() {
        let (sender, queue) = mpsc::channel(QUEUE);
        let settings = Settings {
            traces: Uri::from_static("http://collector/v1/traces"),
            sample: 1.0,
            service: "service".to_owned(),
            instance: "instance".to_owned(),
            headers: Box::new(|| Ok(HeaderMap::new())),
        };
        let mut task = Task::new(settings, Clock::start(), queue).unwrap();
        for _ in 0..=MAX_SPANS {
            let build: Unbuilt = Box::new(ended);
            sender.try_send(build).map_err(|_| "the queue is full").unwrap();
        }
        for expected in [MAX_SPANS, 1, 0] {
            assert_eq!((task.fill(), task.batch.len()), (expected > 0, expected));
            task.batch.clear();
        }
    }
}
