//! The load generator: one connection, one inbox for all answers, and a constant number in flight.

use crate::case::{Case, Path};
use crate::round::{Round, RoundTrips};
use crate::thread::alone;
use anyhow::{Context, bail};
use async_nats::{Client, Subject, Subscriber};
use bytes::{BufMut, Bytes, BytesMut};
use futures::StreamExt;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler::config::NatsTable;
use rampmeter_scheduler::connection::connect;
use std::io::Write;
use std::time::Duration;

/// The beginning of every answer of the scheduler.
const GRANTED: [&[u8]; 2] = [b"{\"status\":\"granted\"", b"[{\"status\":\"granted\""];

/// Keeps `case.in_flight` messages in flight on `subject` for `length`.
pub(crate) async fn round(
    url: &str,
    subject: &str,
    case: &Case,
    path: Path,
    length: Duration,
) -> anyhow::Result<Round> {
    let (url, subject) = (url.to_owned(), Subject::from(subject));
    let (in_flight, array) = (case.in_flight, case.array);
    alone("load", move || async move {
        let client = connect(&NatsTable::at(&url), "load").await?;
        let mut flood = Flood::start(client, subject, in_flight, array).await?;
        flood.run(length, path == Path::Scheduler).await
    })
    .await
}

struct Flood {
    client: Client,
    subject: Subject,
    inbox: String,
    answers: Subscriber,
    clock: Clock,
    /// When the message of each place in flight was sent.
    sent: Vec<Time>,
    array: usize,
    requests: Requests,
}

impl Flood {
    async fn start(client: Client, subject: Subject, in_flight: usize, array: usize) -> anyhow::Result<Self> {
        let inbox = client.new_inbox();
        let answers = client.subscribe(format!("{inbox}.*")).await?;
        client.flush().await?;
        let requests = Requests::new(&inbox);
        let clock = Clock::start();
        Ok(Flood { client, subject, inbox, answers, clock, sent: vec![Time::ORIGIN; in_flight], array, requests })
    }

    async fn run(&mut self, length: Duration, permits: bool) -> anyhow::Result<Round> {
        for place in 0..self.sent.len() {
            self.send(place).await?;
        }
        let mut round_trips = RoundTrips::new();
        let begin = self.clock.now();
        let end = begin + Span::from(length);
        loop {
            let answer = self.answers.next().await.context("the connection has ended")?;
            let now = self.clock.now();
            if permits && !GRANTED.iter().any(|granted| answer.payload.starts_with(granted)) {
                bail!("the scheduler answered {}", String::from_utf8_lossy(&answer.payload));
            }
            let place: usize = answer.subject[self.inbox.len() + 1..].parse()?;
            round_trips.note(now.since(self.sent[place]));
            if now >= end {
                return Ok(round_trips.round(now.since(begin).duration(), self.array));
            }
            self.send(place).await?;
        }
    }

    async fn send(&mut self, place: usize) -> anyhow::Result<()> {
        let payload = self.requests.next_payload(self.array);
        let reply = format!("{}.{place}", self.inbox);
        self.sent[place] = self.clock.now();
        self.client.publish_with_reply(self.subject.clone(), reply, payload).await?;
        Ok(())
    }
}

/// Writes requests with unused ids.
struct Requests {
    prefix: String,
    count: u64,
    buffer: BytesMut,
}

impl Requests {
    fn new(inbox: &str) -> Self {
        let prefix = inbox.rsplit('.').next().unwrap_or_default().to_owned();
        Requests { prefix, count: 0, buffer: BytesMut::new() }
    }

    fn next_payload(&mut self, array: usize) -> Bytes {
        if array == 1 {
            self.write_one();
        } else {
            for element in 0..array {
                self.buffer.put_u8(if element == 0 { b'[' } else { b',' });
                self.write_one();
            }
            self.buffer.put_u8(b']');
        }
        self.buffer.split().freeze()
    }

    fn write_one(&mut self) {
        self.count += 1;
        let (prefix, count) = (&self.prefix, self.count);
        let cost = r#""cost":{"requests":1,"processing-units":2.5}"#;
        write!((&mut self.buffer).writer(), r#"{{"id":"{prefix}-{count}",{cost}}}"#).expect("memory can be written to");
    }
}
