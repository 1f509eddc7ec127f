//! A worker that means harm: an endless stream of what its permissions let it send, repeated by a
//! seed.
//!
//! Two thirds of its messages are valid in form, with values at the edges and ids that it heard or
//! guesses. The other messages are valid ones with changed bytes, and random bytes. It knows what a
//! worker can know: the protocol, the names of resources, and the answers to its own inbox.
//!
//! It leaves two things alone, because any worker may do them and `SECURITY.md` says so. It names
//! no other worker's client in its labels, and settles no cost far above what it asked for.

use rampmeter_protocol::bounds::{MAX_BATCH, MAX_EPOCH};
use rampmeter_protocol::splitmix::SplitMix64;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Ids that it remembers.
const MAX_KNOWN: usize = 512;
/// Random bytes in one message.
const MAX_BYTES: u64 = 4096;
/// Letters with a meaning in JSON, in HTTP or in a subject.
const LETTERS: &[u8] = b"0123456789.-+eE{}[]\",:\\ \t\r\n=#/;%_<>*\x00\x80\xff";

/// Something to be sent.
#[derive(Clone, Debug)]
pub enum Attack {
    /// A message over NATS.
    Message {
        /// Its subject.
        subject: String,
        /// Its content.
        payload: Vec<u8>,
        /// Where the answer is to go.
        reply: Reply,
    },
    /// All that is sent on a connection to the HTTP front.
    Http(Vec<u8>),
}

/// Where an answer is to go.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The answer goes to the worker's own inbox.
    Own,
    /// The message has no reply subject.
    Nowhere,
    /// The answer goes to a subject that is not the worker's own.
    Stranger(String),
}

/// The worker.
#[derive(Clone, Debug)]
pub struct Hostile {
    dice: SplitMix64,
    /// The resources that it attacks.
    resources: Vec<String>,
    /// Ids of its own permits.
    known: VecDeque<String>,
    asked: u64,
}

impl Hostile {
    /// The worker of this seed, against these resources.
    pub fn new(seed: u64, resources: &[&str]) -> Self {
        let resources = resources.iter().map(|name| (*name).to_owned()).collect();
        Hostile { dice: SplitMix64::new(seed), resources, known: VecDeque::new(), asked: 0 }
    }

    /// Remembers the permits in an answer to its inbox.
    pub fn hear(&mut self, payload: &[u8]) {
        let answers = match serde_json::from_slice(payload) {
            Ok(Value::Array(answers)) => answers,
            Ok(answer) => vec![answer],
            Err(_) => return,
        };
        let granted = answers.iter().filter(|answer| answer["status"] == "granted");
        self.known.extend(granted.filter_map(|answer| answer["id"].as_str().map(str::to_owned)));
        let too_many = self.known.len().saturating_sub(MAX_KNOWN);
        self.known.drain(..too_many);
    }

    /// What it sends next.
    pub fn attack(&mut self) -> Attack {
        match self.dice.draw() % 10 {
            0 => Attack::Http(self.http()),
            1 => {
                let subject = self.wrong_subject();
                Attack::Message { subject, payload: self.any_payload(), reply: self.reply() }
            }
            _ => {
                let (what, payload) = self.message();
                let subject = format!("rampmeter.{what}.{}", self.resource());
                Attack::Message { subject, payload, reply: self.reply() }
            }
        }
    }

    fn message(&mut self) -> (&'static str, Vec<u8>) {
        match self.dice.draw() % 12 {
            0..3 => ("permit", self.permit().to_string().into_bytes()),
            3 => ("permit", self.array(Self::permit)),
            4..7 => ("settle", self.settle().to_string().into_bytes()),
            7 => ("settle", self.array(Self::settle)),
            8 => ("permit", self.changed_permit()),
            9 => ("settle", self.changed_settle()),
            10 => ("permit", self.any_payload()),
            _ => ("settle", self.any_payload()),
        }
    }

    fn changed_permit(&mut self) -> Vec<u8> {
        let message = self.permit().to_string().into_bytes();
        self.changed(message)
    }

    fn changed_settle(&mut self) -> Vec<u8> {
        let message = self.settle().to_string().into_bytes();
        self.changed(message)
    }

    fn array(&mut self, element: fn(&mut Self) -> Value) -> Vec<u8> {
        let lengths = [0, 1, 2, 30, MAX_BATCH, MAX_BATCH + 1];
        let length = self.one_of(&lengths);
        let all: Vec<Value> = (0..length).map(|_| element(self)).collect();
        Value::Array(all).to_string().into_bytes()
    }

    fn permit(&mut self) -> Value {
        let mut request = json!({});
        self.asked += 1;
        let fresh = format!("hostile-{}", self.asked);
        let fields: [(u64, &str, Value); 10] = [
            (50, "id", self.id(fresh).into()),
            (60, "cost", self.cost()),
            (30, "class", self.one_of(&["urgent", "bulk", "nobody", ""]).into()),
            (70, "labels", self.labels()),
            (70, "mode", self.one_of(&["allow", "reserve", "wait"]).into()),
            (50, "max_wait_ms", self.one_of(&[json!(0), json!(50.5), json!(2000), json!(3.16e10), json!(-1)])),
            (30, "age_ms", self.one_of(&[json!(0), json!(1e4), json!(3.16e10), json!(1e300)])),
            (20, "epoch", self.epoch()),
            (10, "sent_unix_ms", self.one_of(&[json!(0), json!(1_795_000_000_000_u64), json!(MAX_EPOCH)])),
            (20, self.one_of(&["progress", "left", "lefft"]), self.one_of(&[json!(true), json!(false), json!(1)])),
        ];
        for (percent, field, value) in fields {
            if self.chance(percent) {
                request[field] = value;
            }
        }
        request
    }

    fn settle(&mut self) -> Value {
        let guess = self.guess();
        let mut settle = json!({ "id": self.id(guess) });
        let fields: [(u64, &str, Value); 6] = [
            (60, "used", self.one_of(&[json!(true), json!(false), json!("yes")])),
            (30, "cost", self.cost()),
            (50, "response", self.response()),
            (20, "elapsed_ms", self.one_of(&[json!(0), json!(81.25), json!(1e300)])),
            (20, "extend", json!(true)),
            (20, "asked", json!({ "cost": self.cost(), "labels": self.labels() })),
        ];
        for (percent, field, value) in fields {
            if self.chance(percent) {
                settle[field] = value;
            }
        }
        settle
    }

    /// An answer that no upstream gave.
    fn response(&mut self) -> Value {
        let values =
            ["0", "1", "60", "99999999", "-1", "soon", "limit=1, remaining=0, reset=99999", "\"few\";r=0;t=9999"];
        let names = [
            "retry-after",
            "ratelimit",
            "ratelimit-policy",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
            "date",
            "x-quota",
        ];
        let headers: Vec<(String, Value)> =
            (0..self.dice.draw() % 4).map(|_| (self.one_of(&names).to_owned(), self.one_of(&values).into())).collect();
        let mut response = json!({
            "status": self.one_of(&[200, 429, 403, 503, 0, 999]),
            "headers": Value::Object(headers.into_iter().collect()),
        });
        if self.chance(20) {
            response["quota_spent"] = json!(true);
        }
        response
    }

    fn cost(&mut self) -> Value {
        let unit = self.one_of(&["requests", "processing-units", "requests", "apples", ""]);
        let amounts = [json!(0), json!(1e-6), json!(1), json!(2.5), json!(10), json!(-1), json!(1e-9), json!("1")];
        json!({ unit: self.one_of(&amounts) })
    }

    fn labels(&mut self) -> Value {
        let client = match self.dice.draw() % 4 {
            0 => format!("hostile-{}", self.dice.draw() % 1000),
            1 => "h".repeat((self.dice.draw() % 400) as usize),
            _ => "hostile".to_owned(),
        };
        json!({ "client": client, self.one_of(&["route", "", "a|b"]): "/a" })
    }

    /// A small epoch, as after the loss of a term, one that looks like the time, or a huge one.
    fn epoch(&mut self) -> Value {
        let next = self.dice.draw() % 8;
        self.one_of(&[json!(next), json!(1_795_000_000_000_u64), json!(MAX_EPOCH), json!(u64::MAX)])
    }

    /// An id of its own, or `other`.
    fn id(&mut self, other: String) -> String {
        let known = self.known.len() as u64;
        if known == 0 || self.chance(50) {
            return other;
        }
        self.known[(self.dice.draw() % known) as usize].clone()
    }

    /// What the id of another worker's permit may look like.
    fn guess(&mut self) -> String {
        let (epoch, number) = (1 + self.dice.draw() % 3, self.dice.draw() % 5000);
        match self.dice.draw() % 3 {
            0 => format!("{epoch}.{number}"),
            1 => format!("http-{:016x}-{number}", self.dice.draw()),
            _ => format!("hostile-{number}"),
        }
    }

    fn reply(&mut self) -> Reply {
        match self.dice.draw() % 10 {
            0 => Reply::Nowhere,
            1 => {
                let resource = self.resource();
                let subjects = [
                    format!("rampmeter.event.{resource}"),
                    format!("rampmeter.permit.{resource}"),
                    format!("$KV.rampmeter.state.{resource}"),
                    format!("$JS.API.STREAM.DELETE.KV_{resource}"),
                    "_INBOX_scheduler.a.1".to_owned(),
                ];
                Reply::Stranger(subjects[(self.dice.draw() % subjects.len() as u64) as usize].clone())
            }
            _ => Reply::Own,
        }
    }

    fn resource(&mut self) -> String {
        self.resources[(self.dice.draw() % self.resources.len() as u64) as usize].clone()
    }

    /// A subject that asks for no permit. NATS lets it use only some of them.
    fn wrong_subject(&mut self) -> String {
        let resource = self.resource();
        let what = self.one_of(&["event", "status", "purge", "probe", "echo", "other", "undelivered"]);
        match self.dice.draw() % 4 {
            0 => "rampmeter.resources".to_owned(),
            1 => "rampmeter.permit.nobody".to_owned(),
            2 => format!("$KV.rampmeter.state.{resource}"),
            _ => format!("rampmeter.{what}.{resource}"),
        }
    }

    fn any_payload(&mut self) -> Vec<u8> {
        match self.dice.draw() % 4 {
            0 => b"[".repeat(10_000),
            1 => format!("{{\"id\":\"{}\"}}", "a".repeat(200_000)).into_bytes(),
            2 => format!("[{}{{}}]", "{},".repeat(50_000)).into_bytes(),
            _ => {
                let length = self.dice.draw() % MAX_BYTES;
                (0..length).map(|_| self.dice.draw() as u8).collect()
            }
        }
    }

    fn http(&mut self) -> Vec<u8> {
        let resource = self.resource();
        let path = match self.dice.draw() % 6 {
            0 => format!("/v1/permit/{resource}"),
            1 => format!("/v1/settle/{resource}"),
            2 => "/check/a%2F..%2f?b".to_owned(),
            3 => "/metrics".to_owned(),
            4 => "/readyz".to_owned(),
            _ => "/v1/permit/%00nobody".to_owned(),
        };
        let method = self.one_of(&["POST", "POST", "GET", "OPTIONS", "PUT"]);
        let body = if path.contains("settle") { self.settle() } else { self.permit() }.to_string();
        let extra = self.one_of(&[
            "",
            "origin: https://stranger.example\r\n",
            "sec-fetch-site: cross-site\r\n",
            "x-forwarded-for: \u{ff}, 1.2.3.4\r\n",
            "transfer-encoding: chunked\r\n",
            "content-type: text/plain\r\n",
        ]);
        let length = body.len() + self.one_of(&[0, 0, 0, 0, 1, 100_000]);
        let host = self.one_of(&["127.0.0.1", "localhost", "stranger.example"]);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{extra}content-length: {length}\r\n\r\n{body}"
        );
        if self.chance(50) { self.changed(request.into_bytes()) } else { request.into_bytes() }
    }

    /// The same with some changed bytes.
    pub fn changed(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.dice.draw() % 4 {
            let at = (self.dice.draw() % (bytes.len() as u64 + 1)) as usize;
            let letter = LETTERS[(self.dice.draw() % LETTERS.len() as u64) as usize];
            match self.dice.draw() % 4 {
                0 => bytes.insert(at, letter),
                1 => bytes.truncate(at),
                2 if at < bytes.len() => bytes[at] = self.dice.draw() as u8,
                2 => bytes.push(letter),
                _ => drop(bytes.drain(at..bytes.len().min(at + 3))),
            }
        }
        bytes
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.dice.draw() % 100 < percent
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[(self.dice.draw() % all.len() as u64) as usize].clone()
    }
}
