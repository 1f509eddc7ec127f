//! An OpenTelemetry collector for tests: it takes OTLP over HTTP and keeps the spans.
//!
//! It reads protobuf by the published numbers of the fields, and shares no code with what writes.

use crate::api::serve;
use crate::patience::until;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A collector. It runs until its runtime ends.
#[derive(Clone, Debug)]
pub struct Collector {
    url: String,
    kept: Arc<Mutex<Kept>>,
}

/// What the collector has received. The lock is held for one look.
#[derive(Debug, Default)]
struct Kept {
    spans: Vec<Span>,
    headers: Vec<HeaderMap>,
    /// The statuses of the next answers. Later requests are taken.
    refusals: Vec<u16>,
}

/// A span as it came. Ids are hexadecimal; an empty one is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// The id of the trace.
    pub trace: String,
    /// The id of the span.
    pub id: String,
    /// The id of the span that it is a part of.
    pub parent: String,
    /// What tracing systems have added.
    pub state: String,
    /// The name.
    pub name: String,
    /// 2 is a server, 3 a client, 5 a consumer.
    pub kind: u64,
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// What is known of it.
    pub attributes: BTreeMap<String, Value>,
    /// Trace and span of each link.
    pub links: Vec<(String, String)>,
    /// The message of a status of 2, an error.
    pub error: Option<String>,
    /// What is known of the process.
    pub process: BTreeMap<String, Value>,
}

impl Collector {
    /// Starts a collector that takes everything.
    pub async fn start() -> Self {
        let kept = Arc::<Mutex<Kept>>::default();
        let url = serve(Router::new().route("/v1/traces", post(take)).with_state(kept.clone())).await;
        Collector { url, kept }
    }

    /// Its address, as configurations have it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Answers the next requests with these statuses.
    pub fn refuse(&self, statuses: &[u16]) {
        self.kept.lock().unwrap().refusals = statuses.iter().rev().copied().collect();
    }

    /// The spans so far.
    pub fn spans(&self) -> Vec<Span> {
        self.kept.lock().unwrap().spans.clone()
    }

    /// The headers of the requests so far.
    pub fn headers(&self) -> Vec<HeaderMap> {
        self.kept.lock().unwrap().headers.clone()
    }

    /// The only span with this name, once it is there.
    ///
    /// # Panics
    /// If there is none in time, or several.
    pub async fn span(&self, name: &str) -> Span {
        let mut found = self.spans_named(name, 1).await;
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }

    /// The spans with this name, once there are so many.
    pub async fn spans_named(&self, name: &str, count: usize) -> Vec<Span> {
        until(&format!("{count} spans `{name}`"), async || {
            let found: Vec<Span> = self.spans().into_iter().filter(|span| span.name == name).collect();
            (found.len() >= count).then_some(found)
        })
        .await
    }
}

async fn take(State(kept): State<Arc<Mutex<Kept>>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let mut kept = kept.lock().unwrap();
    kept.headers.push(headers);
    if let Some(status) = kept.refusals.pop() {
        return StatusCode::from_u16(status).unwrap();
    }
    for resource_spans in messages(&body, 1) {
        let process: BTreeMap<_, _> =
            messages(resource_spans, 1).into_iter().flat_map(|resource| attributes(resource, 1)).collect();
        let scopes = messages(resource_spans, 2);
        for bytes in scopes.into_iter().flat_map(|scope| messages(scope, 2)) {
            let span = Span { process: process.clone(), ..span(bytes) };
            // A sender repeats what was not acknowledged in time.
            if kept.spans.iter().all(|known| known.id != span.id) {
                kept.spans.push(span);
            }
        }
    }
    StatusCode::OK
}

fn span(bytes: &[u8]) -> Span {
    let mut span = Span::default();
    for (number, field) in fields(bytes) {
        match (number, field) {
            (1, Field::Bytes(id)) => span.trace = hex(id),
            (2, Field::Bytes(id)) => span.id = hex(id),
            (3, Field::Bytes(state)) => span.state = text(state),
            (4, Field::Bytes(id)) => span.parent = hex(id),
            (5, Field::Bytes(name)) => span.name = text(name),
            (6, Field::Number(kind)) => span.kind = kind,
            (7, Field::Number(start)) => span.start = start,
            (8, Field::Number(end)) => span.end = end,
            (13, Field::Bytes(link)) => span.links.push(ids(link)),
            (15, Field::Bytes(status)) => span.error = error(status),
            _ => {}
        }
    }
    span.attributes = attributes(bytes, 9);
    span
}

fn ids(link: &[u8]) -> (String, String) {
    let id = |number| messages(link, number).first().map(|id| hex(id)).unwrap_or_default();
    (id(1), id(2))
}

fn error(status: &[u8]) -> Option<String> {
    let is_error = fields(status).contains(&(3, Field::Number(2)));
    is_error.then(|| messages(status, 2).first().map(|message| text(message)).unwrap_or_default())
}

fn attributes(bytes: &[u8], number: u64) -> BTreeMap<String, Value> {
    let pairs = messages(bytes, number).into_iter();
    pairs.map(|pair| (text(messages(pair, 1)[0]), value(messages(pair, 2)[0]))).collect()
}

fn value(bytes: &[u8]) -> Value {
    match fields(bytes)[..] {
        [(1, Field::Bytes(told))] => text(told).into(),
        [(3, Field::Number(told))] => told.cast_signed().into(),
        [(4, Field::Number(told))] => f64::from_bits(told).into(),
        ref other => panic!("{other:?} is no value"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The messages, texts and bytes with this number.
fn messages(bytes: &[u8], number: u64) -> Vec<&[u8]> {
    let with_bytes = fields(bytes).into_iter().filter_map(|(found, field)| match field {
        Field::Bytes(bytes) if found == number => Some(bytes),
        Field::Bytes(_) | Field::Number(_) => None,
    });
    with_bytes.collect()
}

/// The fields with their numbers, in their order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take_bytes(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut bytes) as usize;
                Field::Bytes(take_bytes(&mut bytes, length))
            }
            5 => Field::Number(u32::from_le_bytes(take_bytes(&mut bytes, 4).try_into().unwrap()).into()),
            other => panic!("{other} is no wire type"),
        };
        found.push((key >> 3, field));
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take_bytes(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
    }
    panic!("a number has 64 bits");
}

fn take_bytes<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}
