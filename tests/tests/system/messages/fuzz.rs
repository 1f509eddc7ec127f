//! Valid messages, mutated at random and sent to a real server. Each gets exactly one answer, and
//! levels change by the granted amounts.

use crate::prelude::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use std::cell::{Cell, RefCell};

/// Buckets that no mutation empties, and that hardly refill.
const HUB: &str = r#"
[[resource]]
name = "hub"
classes = [{ name = "urgent" }, { name = "bulk" }]
limit = [
    { name = "requests", capacity = 10000000, period = "8000h", margin = 0 },
    { name = "units", unit = "units", capacity = 10000000, period = "8000h", margin = 0 },
]
"#;

/// Tokens per second of either limit, rounded up.
const RATE: f64 = 0.35;

/// Valid requests. `#` becomes a unique number that no change of one digit makes equal to another.
const PERMITS: [&str; 6] = [
    r#"{"id": "p#", "cost": {"requests": 1, "units": 2.5}, "class": "bulk", "labels": {"client": "a", "route": "/ü"}}"#,
    r#"{"id":"p#","mode":"allow","cost":{"units":1.25}}"#,
    r#"{"id":"p#","mode":"wait","max_wait_ms":1000,"age_ms":12.5,"progress":true}"#,
    r#"{"id": "p#", "mode": "reserve", "sent_unix_ms": 1795000000000, "cost": {"requests": 0}}"#,
    r#"{"cost": {"requests": 1e0}}"#,
    "{}",
];

/// Valid settles of the permits that each case is granted first.
const SETTLES: [&str; 5] = [
    r#"{"id":"s#","used":false}"#,
    r#"{"id": "s#", "used": true, "cost": {"units": 3.75}, "elapsed_ms": 81.25, "late_ms": 0.5}"#,
    r#"{"id":"s#","response":{"status":200,"headers":{"retry-after":"1500","x-ratelimit-remaining":"0"}}}"#,
    r#"{"id": "s#", "extend": true}"#,
    r#"{"id":"s#","cost":{"requests":0,"units":1}}"#,
];

/// One change of a message.
#[derive(Clone, Debug)]
enum Mutation {
    Replace(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Truncate(Index),
}

impl Mutation {
    fn apply(&self, message: &mut Vec<u8>) {
        let length = message.len();
        match self {
            Mutation::Insert(at, byte) => message.insert(at.index(length + 1), *byte),
            Mutation::Replace(at, byte) if length > 0 => message[at.index(length)] = *byte,
            Mutation::Remove(at) if length > 0 => drop(message.remove(at.index(length))),
            Mutation::Truncate(at) if length > 0 => message.truncate(at.index(length)),
            Mutation::Replace(..) | Mutation::Remove(_) | Mutation::Truncate(_) => {}
        }
    }
}

/// Any byte, and often those with a meaning.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), select(b"0123456789.-+eE{}[]\",:\\ tfn".to_vec())]
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        4 => (at(), byte()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        3 => (at(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        2 => at().prop_map(Mutation::Remove),
        1 => at().prop_map(Mutation::Truncate),
    ]
}

/// Templates, and the mutations after their numbers are filled in.
fn messages(templates: &'static [&'static str]) -> impl Strategy<Value = Vec<(&'static str, Vec<Mutation>)>> {
    vec((select(templates), vec(mutation(), 0..4)), 1..400)
}

/// One server and one scheduler for all cases.
struct Bench {
    runtime: tokio::runtime::Runtime,
    worker: Worker,
    number: Cell<u64>,
    charged: RefCell<BTreeMap<String, Charge>>,
    _scheduler: Running,
    _nats: Server,
}

/// The judge's charge for a permit: requests and units.
#[derive(Clone, Debug)]
struct Charge {
    estimate: [f64; 2],
    actual: [f64; 2],
    settled: bool,
}

impl Charge {
    fn least(&self) -> [f64; 2] {
        self.actual
    }

    fn most(&self) -> [f64; 2] {
        [self.actual[0].max(self.estimate[0]), self.actual[1].max(self.estimate[1])]
    }
}

impl Bench {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (nats, scheduler, worker) = runtime.block_on(async {
            let nats = nats::start().await;
            let running = scheduler::start(&nats, HUB).await;
            let worker = Worker::connect(&nats, "hub").await;
            (nats, running, worker)
        });
        let (number, charged) = (Cell::new(0), RefCell::default());
        Bench { runtime, worker, number, charged, _scheduler: scheduler, _nats: nats }
    }

    /// A message with its own number, mutated.
    fn mutated(&self, template: &str, mutations: &[Mutation]) -> Vec<u8> {
        self.number.set(self.number.get() + 1);
        let mut message = template.replace('#', &scattered(self.number.get())).into_bytes();
        mutations.iter().for_each(|mutation| mutation.apply(&mut message));
        message
    }

    /// The only answer to each of `messages`, without queue updates.
    async fn answers(&self, what: &str, messages: &[Vec<u8>]) -> Vec<Value> {
        let client = self.worker.client();
        let inbox = client.new_inbox();
        let mut replies = client.subscribe(format!("{inbox}.*")).await.unwrap();
        let last = b"last".to_vec();
        let mut answers = vec![Vec::new(); messages.len() + 1];
        // The last message is sent when all others are answered. Any second answer has come by
        // then.
        for (from, messages) in [(0, messages), (messages.len(), &[last])] {
            for (number, message) in messages.iter().enumerate() {
                let reply = format!("{inbox}.{}", from + number);
                client.publish_with_reply(self.worker.subject(what), reply, message.clone().into()).await.unwrap();
            }
            while answers[from..from + messages.len()].iter().any(Vec::is_empty) {
                let answer = within("an answer", replies.next()).await.unwrap();
                let number: usize = answer.subject.rsplit('.').next().unwrap().parse().unwrap();
                answers[number].extend(Some(body(&answer)).filter(|answer| answer["status"] != "queued"));
            }
        }
        let only = |(number, mut answers): (usize, Vec<Value>)| {
            assert_eq!(answers.len(), 1, "{:?}", messages.get(number).map(|message| String::from_utf8_lossy(message)));
            answers.remove(0)
        };
        answers.into_iter().enumerate().map(only).take(messages.len()).collect()
    }

    /// Does `work`, and checks that levels change by what the judge has charged. A bucket may keep
    /// a part of an excess charge: it returns only what it certainly had room for.
    async fn audited(&self, work: impl Future<Output = ()>) {
        let clock = Clock::start();
        let (levels, least, most) = (self.levels().await, self.charged(Charge::least), self.charged(Charge::most));
        work.await;
        let (levels_after, least_after, most_after) =
            (self.levels().await, self.charged(Charge::least), self.charged(Charge::most));
        let refilled = clock.now().since(Clock::START).secs() * RATE;
        for unit in 0..2 {
            let spent = levels[unit] - levels_after[unit];
            let (least, most) = (least_after[unit] - least[unit] - refilled, most_after[unit] - most[unit]);
            assert!((least - 0.001..=most + 0.001).contains(&spent), "{spent} spent, {least} to {most} charged");
        }
    }

    async fn levels(&self) -> [f64; 2] {
        [self.worker.limit("requests").await.level, self.worker.limit("units").await.level]
    }

    fn charged(&self, of: fn(&Charge) -> [f64; 2]) -> [f64; 2] {
        let add = |sum: [f64; 2], more: [f64; 2]| [sum[0] + more[0], sum[1] + more[1]];
        self.charged.borrow().values().map(of).fold([0.0; 2], add)
    }

    /// The cost of a permit, read from the message without the scheduler's code.
    fn note_permit(&self, message: &[u8], answer: &Value) {
        for (request, answer) in elements(message, answer) {
            assert!(["granted", "refused"].contains(&answer["status"].as_str().unwrap()), "{answer}");
            if answer["status"] == "granted" {
                let amount = |unit: &str| request["cost"][unit].as_f64();
                let estimate = [amount("requests").unwrap_or(1.0), amount("units").unwrap_or(0.0)];
                let charge = Charge { estimate, actual: estimate, settled: false };
                self.charged.borrow_mut().entry(answer["id"].as_str().unwrap().to_owned()).or_insert(charge);
            }
        }
    }

    fn note_settle(&self, message: &[u8], answer: &Value) {
        for (settle, answer) in elements(message, answer) {
            assert!(["settled", "refused"].contains(&answer["status"].as_str().unwrap()), "{answer}");
            // The call was made, even if its settle names a unit that no limit counts.
            if answer["status"] == "settled" || answer["code"] == "unknown_unit" {
                let mut charged = self.charged.borrow_mut();
                let charge = charged.get_mut(settle["id"].as_str().unwrap()).expect("only what was granted is settled");
                if !charge.settled && settle["extend"] != true {
                    charge.actual = actual(charge.estimate, &settle);
                    charge.settled = true;
                }
            }
        }
    }
}

/// Far from all other numbers: a request with the id of a waiting one takes over its answer.
fn scattered(number: u64) -> String {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_string()
}

/// A message with its answer, or the elements of both if mutation has made an array of it.
fn elements(message: &[u8], answer: &Value) -> Vec<(Value, Value)> {
    let empty = message.iter().all(u8::is_ascii_whitespace);
    let message = if empty { json!({}) } else { serde_json::from_slice(message).unwrap_or_default() };
    let (messages, answers) = (message.as_array().cloned(), answer.as_array().cloned());
    let (messages, answers) = (messages.unwrap_or(vec![message]), answers.unwrap_or(vec![answer.clone()]));
    messages.into_iter().zip(answers).collect()
}

fn actual(estimate: [f64; 2], settle: &Value) -> [f64; 2] {
    if settle["used"] == false {
        return [0.0; 2];
    }
    let amount = |unit: &str, estimate: f64| settle["cost"][unit].as_f64().unwrap_or(estimate);
    [amount("requests", estimate[0]), amount("units", estimate[1])]
}

fn runner() -> TestRunner {
    TestRunner::new(Config { cases: 24, max_shrink_iters: 200, failure_persistence: None, ..Config::default() })
}

#[test]
fn mutated_permits() {
    let bench = Bench::new();
    let mut runner = runner();
    let case = |templates: Vec<(&'static str, Vec<Mutation>)>| {
        let messages: Vec<Vec<u8>> =
            templates.iter().map(|(template, mutations)| bench.mutated(template, mutations)).collect();
        bench.runtime.block_on(bench.audited(async {
            let answers = bench.answers("permit", &messages).await;
            messages.iter().zip(&answers).for_each(|(message, answer)| bench.note_permit(message, answer));
        }));
        Ok(())
    };
    runner.run(&messages(&PERMITS), case).unwrap();
}

#[test]
fn mutated_settles() {
    let bench = Bench::new();
    let mut runner = runner();
    let case = |templates: Vec<(&'static str, Vec<Mutation>)>| {
        let first = bench.number.get() + 1;
        let messages: Vec<Vec<u8>> =
            templates.iter().map(|(template, mutations)| bench.mutated(template, mutations)).collect();
        let permit =
            |number| json!({"id": format!("s{}", scattered(number)), "cost": {"units": 2}}).to_string().into_bytes();
        let permits: Vec<Vec<u8>> = (first..=bench.number.get()).map(permit).collect();
        bench.runtime.block_on(bench.audited(async {
            let granted = bench.answers("permit", &permits).await;
            permits.iter().zip(&granted).for_each(|(message, answer)| bench.note_permit(message, answer));
            let answers = bench.answers("settle", &messages).await;
            messages.iter().zip(&answers).for_each(|(message, answer)| bench.note_settle(message, answer));
        }));
        Ok(())
    };
    runner.run(&messages(&SETTLES), case).unwrap();
}
