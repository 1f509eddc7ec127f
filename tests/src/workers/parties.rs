//! Parties that mean harm, each with what it can reach: a worker, the holder of a token for HTTP, a client
//! of a proxy, an operator and a web page. They send at random and by scripts, until they are dropped.
//!
//! What each may do by design is left out: an operator changes no limit and ends no wait of the honest.

use crate::hostile::{Attack, Hostile, Reply};
use crate::http_proxy::raw;
use crate::shipped;
use futures::StreamExt;
use rampmeter_protocol::splitmix::SplitMix64;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// The pause between two messages of the worker, which sends two hundred a second. Some are arrays of a
/// thousand elements.
const EVERY: Duration = Duration::from_millis(5);
/// The pause between two requests, or two messages of another party.
const SELDOM: Duration = Duration::from_millis(20);
/// How long a party waits for what it does not need.
const GLANCE: Duration = Duration::from_millis(50);
/// Connections that a client of HTTP leaves open, whatever is owed on them.
const LEFT_OPEN: usize = 200;
/// Bytes of a quoted text, which NATS takes, and of one that HTTP takes.
const LONG: [usize; 2] = [700_000, 60_000];

fn turns(pause: Duration) -> Interval {
    let mut turns = interval(pause);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    turns
}

fn pick<T: Clone>(dice: &mut SplitMix64, all: &[T]) -> T {
    all[(dice.draw() % all.len() as u64) as usize].clone()
}

/// Requests for permits that cost a scheduler as much as they can; texts have `long` bytes.
fn costly(long: usize) -> Vec<Value> {
    let text = "\"\\".repeat(long / 4);
    let script = format!("function setup() {{ return {{ input: [{}", "[0],".repeat(long / 4));
    let price = |kind: &str| json!({"price": {"kind": kind, "api": "process", "body": {"evalscript": script}}});
    let few = long / 64;
    let all = |count: usize, element: Value| Value::Array(vec![element; count.min(1024)]);
    vec![
        price("sentinel-hub"),
        json!({"mode": text}),
        json!({"labels": {&*text: "a"}}),
        all(few, json!({"class": "\"".repeat(30)})),
        all(few, json!({"cost": {"u".repeat(40): 1}})),
        all(few, json!({"mode": "allow", "left": true, "labels": {"client": "hostile"}})),
        // It claims to have waited for ever, in the order in which keys are hardest to keep sorted.
        (0..few.min(1024))
            .map(|age| json!({"mode": "wait", "cost": {"requests": 90}, "age_ms": age * 60_000}))
            .collect(),
    ]
}

/// A worker of NATS.
pub async fn worker(nats: String, seed: u64) {
    let client = shipped::login("worker").connect(&nats).await.unwrap();
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(format!("{inbox}.*")).await.unwrap();
    let (mut hostile, mut dice) = (Hostile::new(seed, &["hub", "quiet"]), SplitMix64::new(seed));
    let (mut turns, costly) = (turns(EVERY), costly(LONG[0]));
    loop {
        tokio::select! {
            answer = answers.next() => hostile.hear(&answer.expect("the server keeps the connection").payload),
            _ = turns.tick() => {
                let attack = hostile.attack();
                let (subject, payload, reply) = match attack {
                    Attack::Message { subject, payload, reply } => (subject, payload, reply),
                    Attack::Http(_) if dice.draw() % 10 > 0 => continue,
                    // Twice a second, in the place of what others send.
                    Attack::Http(_) => {
                        let resource = pick(&mut dice, &["hub", "quiet"]);
                        let payload = pick(&mut dice, &costly).to_string().into_bytes();
                        (format!("rampmeter.permit.{resource}"), payload, Reply::Own)
                    }
                };
                let reply = match reply {
                    Reply::Own => Some(format!("{inbox}.1")),
                    Reply::Nowhere => None,
                    Reply::Stranger(subject) => Some(subject),
                };
                send(&client, subject, reply, payload).await;
            }
        }
    }
}

/// Sends a message. NATS refuses some of the hostile ones, which is no error here.
async fn send(client: &async_nats::Client, subject: String, reply: Option<String>, payload: Vec<u8>) {
    match reply {
        Some(reply) => client.publish_with_reply(subject, reply, payload.into()).await.ok(),
        None => client.publish(subject, payload.into()).await.ok(),
    };
}

/// An operator of NATS: it reads all it may, and tries to write what it may not.
pub async fn operator(nats: String, seed: u64) {
    let client = shipped::login("operator").connect(&nats).await.unwrap();
    let (mut dice, mut turns) = (SplitMix64::new(seed), turns(SELDOM));
    let state = "$KV.rampmeter.state.hub";
    let read = format!("$JS.API.DIRECT.GET.KV_rampmeter.{state}");
    let rules = "$JS.API.DIRECT.GET.KV_rampmeter-rules.$KV.rampmeter-rules.rules".to_owned();
    let record = "rampmeter 3 2 00000000\n{}";
    let own = format!("{}.1", client.new_inbox());
    #[rustfmt::skip]
    let script: [(String, &str, &str); 13] = [
        (state.to_owned(),                              "",                     record),
        (read.clone(),                                  "rampmeter.event.hub",  ""),
        (read,                                          state,                  ""),
        (rules.clone(),                                 state,                  ""),
        (rules,                                         "rampmeter.event.hub",  ""),
        ("rampmeter.event.hub".to_owned(),              "",                     r#"{"event":"leader","epoch":9007199254740991}"#),
        ("rampmeter.rules.write".to_owned(),            &own,                   "[[resource]]\nname = \"hub\"\nlimit = 5"),
        ("rampmeter.purge.hub".to_owned(),              &own,                   r#"{"client":"nobody"}"#),
        ("rampmeter.purge.quiet".to_owned(),            state,                  r#"{"client":"nobody"}"#),
        // The one thing that it does for the others: what a worker says of the upstream stops no calls for long.
        ("rampmeter.thaw.hub".to_owned(),               &own,                   "{}"),
        ("rampmeter.status.hub".to_owned(),             &own,                   ""),
        ("rampmeter.explain.hub".to_owned(),            &own,                   ""),
        ("rampmeter.usage.hub".to_owned(),              &own,                   r#"{"day":"1970-01-01"}"#),
    ];
    loop {
        turns.tick().await;
        let (subject, reply, payload) = pick(&mut dice, &script);
        let reply = (!reply.is_empty()).then(|| reply.to_owned());
        send(&client, subject, reply, payload.as_bytes().to_vec()).await;
    }
}

/// Connections that are left open, the latest of them.
#[derive(Debug, Default)]
struct Open(VecDeque<TcpStream>);

impl Open {
    /// Sends `bytes` on a new connection, as far as they are taken soon.
    async fn send(&mut self, address: SocketAddr, bytes: &[u8]) {
        let sending = async {
            let mut stream = TcpStream::connect(address).await?;
            let sent = timeout(GLANCE, stream.write_all(bytes)).await;
            std::io::Result::Ok((stream, sent.is_ok()))
        };
        if let Ok(Ok((stream, _all))) = timeout(GLANCE * 4, sending).await {
            self.0.push_back(stream);
            self.0.drain(..self.0.len().saturating_sub(LEFT_OPEN));
        }
    }
}

fn post(path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{headers}");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

fn in_chunks(path: &str, headers: &str, bytes: usize) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n{headers}\r\n");
    [head.into_bytes(), b"1\r\n \r\n".repeat(bytes)].concat()
}

/// The holder of a token of the HTTP front: it holds as many connections as it gets.
pub async fn tenant(front: SocketAddr, token: &str, seed: u64) {
    let (mut hostile, mut dice, mut turns) =
        (Hostile::new(seed, &["hub", "quiet"]), SplitMix64::new(seed), turns(SELDOM));
    let (mut open, header) = (Open::default(), format!("authorization: Bearer {token}\r\n"));
    let mut script = vec![
        in_chunks("/v1/permit/hub", &header, 60_000),
        in_chunks("/healthz", "", 60_000),
        post("/v1/permit/hub", &header, r#"{"mode":"wait","labels":{"client":"tenant"}}"#),
        post("/v1/permit/hub", &header, r#"{"mode":"wait","age_ms":3e9,"cost":{"requests":90}}"#),
        format!("GET /check/dear;x=1 HTTP/1.1\r\nhost: 127.0.0.1\r\n{header}\r\n").into_bytes(),
    ];
    script.extend(costly(LONG[1]).iter().map(|body| post("/v1/permit/quiet", &header, &body.to_string())));
    loop {
        turns.tick().await;
        let bytes = match hostile.attack() {
            Attack::Http(bytes) => bytes,
            Attack::Message { payload, .. } if dice.draw() % 2 == 0 => {
                post("/v1/permit/hub", &header, &String::from_utf8_lossy(&payload[..payload.len().min(LONG[1])]))
            }
            Attack::Message { .. } => pick(&mut dice, &script),
        };
        open.send(front, &bytes).await;
    }
}

/// A request that the upstream of a proxy must not see as one of its own.
pub const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";

/// A client of a proxy.
pub async fn proxy_client(proxy: SocketAddr, seed: u64) {
    let (mut hostile, mut dice, mut turns) = (Hostile::new(seed, &["proxied"]), SplitMix64::new(seed), turns(SELDOM));
    let mut open = Open::default();
    let chunk = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    let head = "POST / HTTP/1.1\r\nhost: 127.0.0.1\r\n";
    let frames = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    let script: Vec<Vec<u8>> = vec![
        in_chunks("/", "", 200_000),
        format!("{head}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}").into_bytes(),
        format!("{head}transfer-encoding:\tx\tchunked\r\n\r\n{chunk}").into_bytes(),
        format!("{head}a: b\r\n content-length: 44\r\n\r\n{SMUGGLED}").into_bytes(),
        format!("{head}{}\r\n", "a: b\r\n".repeat(5000)).into_bytes(),
        format!("{head}content-length: 900000\r\n\r\n{{\"messages\":[{}", "[],".repeat(299_000)).into_bytes(),
        b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nhost: 127.0.0.1:1\r\n\r\n".to_vec(),
        frames.clone(),
        [frames, vec![0xff; 4096]].concat(),
        b"PRI * HT".to_vec(),
    ];
    loop {
        turns.tick().await;
        let bytes = match dice.draw() % 3 {
            0 => hostile.changed(post("/", "", r#"{"model":"m","max_tokens":9}"#)),
            _ => pick(&mut dice, &script),
        };
        open.send(proxy, &bytes).await;
    }
}

/// A web page of another origin, or one whose name was made to lead here.
///
/// # Panics
/// If it gets an answer that is no refusal.
pub async fn page(servers: [SocketAddr; 2], seed: u64) {
    let (mut dice, mut turns) = (SplitMix64::new(seed), turns(SELDOM));
    let script = [
        "host: 127.0.0.1\r\norigin: https://stranger.example\r\n",
        "host: 127.0.0.1\r\nsec-fetch-site: cross-site\r\n",
        "host: 127.0.0.1\r\norigin: null\r\n",
        "host: stranger.example\r\norigin: http://stranger.example\r\n",
        "host: stranger.example\r\n",
    ];
    loop {
        turns.tick().await;
        let (server, from) = (pick(&mut dice, &servers), pick(&mut dice, &script));
        let line = pick(&mut dice, &["POST /v1/permit/quiet", "GET /user", "GET /v1/resources", "DELETE /user"]);
        let request = format!("{line} HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n{from}\r\n");
        let answer = timeout(Duration::from_secs(2), raw(server, request.as_bytes(), |_| false)).await;
        let status = answer.ok().and_then(|answer| answer.get(9..12)?.parse::<u16>().ok());
        assert!(status.is_none_or(|status| status >= 400), "{status:?} for {request}");
    }
}
