//! The decoders that read bytes of strangers, and what holds for every input.
//!
//! A panic is a fault, and so is memory out of proportion to the input. What was read can be
//! written, and is then read as the same again.

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming as Body;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rampmeter_config::{self as config, LabelSource, OriginSettings, Rules};
use rampmeter_dialects::{Dialect, Reader};
use rampmeter_front as front;
use rampmeter_protocol::incoming::{Incoming, Invalid};
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_proxy::answer::AnswerReader;
use rampmeter_proxy::tokens::{BodyLabel, RequestReader, TokenUnits};
use rampmeter_scheduler_core::durability::snapshot::PermitSnapshot;
use rampmeter_sentinel_hub::{Api, Estimate, Given};
use rampmeter_store::{self as store, KeysRecord, StateRecord, StoredPages};
use serde::Deserialize;
use std::convert::Infallible;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::LazyLock;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;

/// Bytes of memory for each byte of input.
const PER_BYTE: usize = 16;
/// The same for rules. The TOML parser keeps a value with its place for each few bytes. Only
/// operators write rules, and a text has at most 512 KiB: at most 64 MiB for an instant.
const PER_BYTE_OF_RULES: usize = 128;
/// The same for scripts: tokens, and the body around the script.
const PER_BYTE_OF_SCRIPTS: usize = 32;
/// Bytes of memory that even the shortest input may take: buffers, tables, the text of a fault.
const AT_LEAST: usize = 128 * 1024;
/// Room for the elements of an array, of which each may be two bytes long, and for the patterns of
/// rules.
const FOR_PARTS: usize = 1024 * 1024;
/// Room for what `setup()` returns: 64 KiB of the smallest literals.
const FOR_LITERALS: usize = 16 * 1024 * 1024;

/// A time at which answers of upstreams are read.
const NOW_MS: u64 = 1_795_000_000_000;
/// Bytes of a request's line and headers.
const MAX_HEAD: usize = 16 * 1024;

/// A decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoder {
    /// Requests for permits, over NATS and HTTP.
    Permit,
    /// Settles, with the headers of the upstream's response in every dialect.
    Settle,
    /// Rules that an operator applies.
    Rules,
    /// Values of the store: a resource's state, remembered permits, pages of keys.
    Record,
    /// Heads of HTTP requests, and what a proxy tells there of the original request.
    HttpHead,
    /// Evalscripts in bodies that are priced.
    Script,
    /// Bodies that pass a proxy: requests to language models, and their answers.
    ProxyBody,
}

impl Decoder {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Permit, Self::Settle, Self::Rules, Self::Record, Self::HttpHead, Self::Script, Self::ProxyBody];

    /// Its name, which is that of its corpus.
    pub fn name(self) -> &'static str {
        match self {
            Self::Permit => "permit",
            Self::Settle => "settle",
            Self::Rules => "rules",
            Self::Record => "record",
            Self::HttpHead => "http-head",
            Self::Script => "script",
            Self::ProxyBody => "proxy-body",
        }
    }

    /// The decoder of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|decoder| decoder.name() == name)
    }

    /// The most bytes of memory that reading `length` bytes may take at a time.
    pub fn most_memory(self, length: usize) -> usize {
        let room = match self {
            Self::Permit | Self::Settle | Self::Rules => FOR_PARTS,
            Self::Record | Self::HttpHead | Self::ProxyBody => AT_LEAST,
            Self::Script => FOR_LITERALS,
        };
        let each = match self {
            Self::Rules => PER_BYTE_OF_RULES,
            Self::Script => PER_BYTE_OF_SCRIPTS,
            Self::Permit | Self::Settle | Self::Record | Self::HttpHead => PER_BYTE,
            // What is read is not kept.
            Self::ProxyBody => 0,
        };
        each * length + room
    }

    /// Reads `input`.
    ///
    /// # Panics
    /// If a decoder has a fault.
    pub fn read(self, input: &[u8]) {
        match self {
            Self::Permit => each(input, check_permit),
            Self::Settle => each(input, check_settle),
            Self::Rules => read_rules(input),
            Self::Record => read_record(input),
            Self::HttpHead => read_head(input),
            Self::Script => read_script(input),
            Self::ProxyBody => read_proxy_body(input),
        }
    }
}

/// Reads one message or an array, and hands each valid message on.
fn each<'a, T: Deserialize<'a>>(input: &'a [u8], valid: impl Fn(&T)) {
    let check = |message: Result<T, Invalid>| match message {
        Ok(message) => valid(&message),
        Err(invalid) => assert!(!invalid.to_string().is_empty()),
    };
    match Incoming::<T>::parse(input) {
        Incoming::One(message) => check(message),
        Incoming::Many(messages) => messages.into_iter().for_each(check),
    }
}

fn check_permit(request: &PermitRequest<'_>) {
    let text = serde_json::to_string(request).unwrap();
    assert_eq!(serde_json::from_str::<PermitRequest<'_>>(&text).unwrap(), *request);
}

fn check_settle(settle: &Settle<'_>) {
    let text = serde_json::to_string(settle).unwrap();
    assert_eq!(serde_json::from_str::<Settle<'_>>(&text).unwrap(), *settle);
    let responses = settle.response().into_iter();
    for (response, dialect) in responses.flat_map(|response| Dialect::ALL.map(|dialect| (response, dialect))) {
        let _reading = Reader::of(dialect).read(response, NOW_MS);
    }
}

fn read_rules(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let path = Path::new("rules.toml");
    if let Err(error) = config::parse_stored_rules(path, text) {
        assert!(!error.to_string().is_empty());
    }
    let Ok(rules) = config::parse_rules(path, text) else { return };
    let again = config::parse_rules(path, &rules.text()).unwrap_or_else(|error| panic!("{error}\n{}", rules.text()));
    assert_eq!(limits(&again), limits(&rules));
}

fn limits(rules: &Rules) -> impl Debug + PartialEq {
    rules.resources.iter().map(|rules| (rules.name.clone(), rules.limits.clone())).collect::<Vec<_>>()
}

/// Reads a value as it is, and as the content of an envelope: no random bytes have the right
/// checksum.
fn read_record(input: &[u8]) {
    for version in [1, 2] {
        let header = format!("rampmeter {version} {} {:08x}\n", input.len(), crc32c::crc32c(input));
        read_value(&[header.as_bytes(), input].concat());
    }
    read_value(input);
}

fn read_value(value: &[u8]) {
    let permits = store::decode::<(u64, Vec<PermitSnapshot>)>(value).map(|(_, permits)| permits).unwrap_or_default();
    if let Ok((_, page)) = store::decode::<(u64, KeysRecord)>(value) {
        assert!(serde_json::to_vec(&page).is_ok());
    }
    match store::decode::<StateRecord>(value) {
        Ok(state) => {
            let (_, _) =
                (state.snapshot(permits.clone(), StoredPages::new()), state.cautious_snapshot(StoredPages::new()));
            let again: StateRecord = serde_json::from_slice(&serde_json::to_vec(&state).unwrap()).unwrap();
            assert_eq!(again, state);
        }
        Err(damage) => assert!(!damage.to_string().is_empty()),
    }
    let again: Vec<PermitSnapshot> = serde_json::from_slice(&serde_json::to_vec(&permits).unwrap()).unwrap();
    assert_eq!(again, permits);
}

/// A proxy that is believed, and labels from all sources.
static CHECK: LazyLock<OriginSettings> = LazyLock::new(|| OriginSettings {
    trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
    trusted_hops: None,
    normalise: true,
    labels: vec![
        ("client".to_owned(), LabelSource::Stated("header:x-api-key".parse().unwrap())),
        ("route".to_owned(), LabelSource::Path),
        ("method".to_owned(), LabelSource::Method),
        ("address".to_owned(), LabelSource::ClientAddress),
    ],
});

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| tokio::runtime::Builder::new_current_thread().build().unwrap());

/// Serves `input` as all that a client sends on a connection.
fn read_head(input: &[u8]) {
    let service = service_fn(async |request: Request<Body>| {
        let (head, _body) = request.into_parts();
        let labels = front::labels(&head, IpAddr::V4(Ipv4Addr::LOCALHOST), &CHECK);
        if let Ok(labels) = labels {
            assert!(labels.get("method").is_some() && labels.get("address").is_some());
        }
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    RUNTIME.block_on(async {
        let (mut client, server) = tokio::io::duplex(input.len().max(MAX_HEAD));
        client.write_all(input).await.unwrap();
        client.shutdown().await.unwrap();
        let answers = async move { tokio::io::copy(&mut client, &mut tokio::io::sink()).await };
        let serving = http1::Builder::new().max_buf_size(MAX_HEAD).serve_connection(TokioIo::new(server), service);
        // A client may send anything, and the connection ends in any way.
        let (_served, _answers) = tokio::join!(serving, answers);
    });
}

/// Prices a body whose script is `input`, and one whose `setup()` returns it as bands.
fn read_script(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for script in [text, &format!("function setup() {{ return {{ input: [{text}] }} }}")] {
        let body = serde_json::json!({ "input": { "data": [{ "type": "a" }] }, "evalscript": script }).to_string();
        match Estimate::of_body(Api::Process, body, &Given::default()) {
            Ok(estimate) => assert!(estimate.amount.units() >= estimate.minimum.to_f64()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Counts the tokens of a request, and of an answer that comes whole or as a stream, in small pieces.
fn read_proxy_body(input: &[u8]) {
    let [input_unit, output, total] = ["input", "output", "total"].map(|unit| unit.parse().ok());
    let units = TokenUnits { input: input_unit, output, total, settles: true };
    let label = BodyLabel { label: "model".to_owned(), key: "model".to_owned(), otherwise: None };
    let mut request = RequestReader::new(&Method::POST, "/v1/chat/completions", true, &[label]);
    input.chunks(61).for_each(|piece| request.read(piece));
    let tokens = request.end(true).tokens.expect("each body has an estimate");
    for (status, content_type) in [(200, "application/json"), (429, "application/json"), (200, "text/event-stream")] {
        let headers = [(CONTENT_TYPE, HeaderValue::from_static(content_type))].into_iter().collect();
        let mut answer = AnswerReader::new(status, &headers, Some((units.clone(), tokens)));
        input.chunks(61).for_each(|piece| answer.read(piece));
        let (_whole, _broken) = (answer.used(true), answer.used(false));
    }
}
