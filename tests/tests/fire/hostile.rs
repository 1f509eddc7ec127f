//! A worker that means harm, beside ten honest ones: nothing is over-admitted, no honest request is
//! refused, and the scheduler's memory stays within its bound.

use crate::prelude::*;
use rampmeter_tests::drill::{LATENESS, QUICK, hub};
use rampmeter_tests::hostile::{Attack, Hostile, Reply};
use rampmeter_tests::judge::{Call, Cost, Finding, MICROS, Rule, judge};
use rampmeter_worker_sdk as sdk;
use tokio::time::{MissedTickBehavior, interval};

/// How long the hostile worker sends in a usual run. Other drills run meanwhile, so this minute
/// costs no extra time. `RAMPMETER_HOSTILE=60m` sets another duration.
const USUAL: Duration = Duration::from_secs(60);
/// The pause between two messages of the hostile worker, which sends two hundred a second. Some are
/// arrays of a thousand elements.
const EVERY: Duration = Duration::from_millis(5);
/// How long the hostile worker waits for an answer over HTTP.
const GLANCE: Duration = Duration::from_millis(50);

const HONEST: usize = 10;
/// Each honest client asks the quiet resource ten times a second, half of what the limit allows.
const QUIET_EVERY: Duration = Duration::from_millis(100);
const QUIET: &str = r#"
[[resource]]
name = "quiet"
fair_share = "client"
limit = [{ name = "per-client", key = ["client"], capacity = 20, period = "1s" }]
"#;

/// Each honest client asks the busy resource twice as often as its share of the rate allows.
const BUSY_EVERY: Duration = Duration::from_millis(50);
/// What the upstream enforces: the limits of [`hub`].
const LIMITS: [(&str, u64); 2] = [("requests", 200), ("processing-units", 500)];
/// The length of the upstream's log: more admissions than any run makes.
const ADMISSIONS: usize = 10_000_000;

/// The most memory of the scheduler in bytes, even in an hour of attacks. It remembers a permit for
/// five minutes: at this rate a million and a half permits, of about a hundred bytes each.
const MAX_MEMORY: u64 = 512 << 20;

/// What the honest clients saw.
#[derive(Debug, Default)]
struct Seen {
    promised: Vec<Call>,
    quiet: Times,
    failures: Vec<String>,
    throttled: usize,
}

/// One honest client, and the results that all of them share.
#[derive(Clone)]
struct Honest {
    name: String,
    busy: Resource,
    quiet: Resource,
    api: Api,
    clock: Clock,
    seen: Arc<Mutex<Seen>>,
}

impl Honest {
    /// Calls the upstream as often as it may.
    async fn call_often(self) {
        let mut turns = interval(BUSY_EVERY);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let cost = sdk::Cost::requests(1).and("processing-units", 2);
            let permit = match self.busy.acquire(cost).label("client", &self.name).await {
                Ok(permit) => permit,
                Err(error) => {
                    self.note(|seen| seen.failures.push(format!("busy: {error}")));
                    continue;
                }
            };
            let at = self.clock.now().since(Clock::START).duration();
            self.note(|seen| seen.promised.push(Call { at, cost: call_cost() }));
            let call = permit.begin();
            let outcome = self.api.call(&BTreeMap::from([("processing-units", 2.0)])).await.unwrap();
            self.note(|seen| seen.throttled += usize::from(outcome.is_throttled()));
            call.settle(outcome);
        }
    }

    /// Asks for permits under a key of its own, from which no other client takes.
    async fn ask_quietly(self) {
        let mut turns = interval(QUIET_EVERY);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let asked = self.clock.now();
            match self.quiet.acquire(1).label("client", &self.name).await {
                Ok(permit) => {
                    let took = self.clock.now().since(asked);
                    permit.begin().settle(Outcome::status(200));
                    self.note(|seen| seen.quiet.add(took));
                }
                Err(error) => self.note(|seen| seen.failures.push(format!("quiet: {error}"))),
            }
        }
    }

    fn note(&self, write: impl FnOnce(&mut Seen)) {
        write(&mut self.seen.lock().unwrap());
    }
}

fn call_cost() -> Cost {
    Cost::from([("requests".to_owned(), MICROS), ("processing-units".to_owned(), 2 * MICROS)])
}

async fn honest(nats: &Server, upstream: &Upstream, clock: Clock) -> (JoinSet<()>, Arc<Mutex<Seen>>) {
    let (mut working, seen) = (JoinSet::new(), Arc::<Mutex<Seen>>::default());
    for number in 0..HONEST {
        let client = Client::builder().options(shipped::login("worker")).connect(nats.url()).await.unwrap();
        let [busy, quiet] = ["hub", "quiet"].map(|name| client.resource(name).unwrap());
        let (name, api) = (format!("honest-{number}"), Api::new(upstream));
        let honest = Honest { name, busy, quiet, api, clock, seen: seen.clone() };
        working.spawn(honest.clone().call_often());
        working.spawn(honest.ask_quietly());
    }
    (working, seen)
}

/// Sends attacks with the permissions of a worker, until it is dropped.
async fn attack(nats: String, front: String, seed: u64) {
    let client = shipped::login("worker").connect(&nats).await.unwrap();
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(format!("{inbox}.*")).await.unwrap();
    let mut hostile = Hostile::new(seed, &["hub", "quiet"]);
    let mut turns = interval(EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            answer = answers.next() => hostile.hear(&answer.expect("the server keeps the connection").payload),
            _ = turns.tick() => match hostile.attack() {
                Attack::Message { subject, payload, reply } => {
                    let reply = match reply {
                        Reply::Own => Some(format!("{inbox}.1")),
                        Reply::Nowhere => None,
                        Reply::Stranger(subject) => Some(subject),
                    };
                    send(&client, subject, reply, payload).await;
                }
                Attack::Http(bytes) => drop(tokio::time::timeout(GLANCE, http_bytes(&front, &bytes)).await),
            },
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

/// Sends `bytes` to the front, and reads its answers to the end.
async fn http_bytes(front: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut connection = TcpStream::connect(front).await?;
    connection.write_all(bytes).await?;
    connection.shutdown().await?;
    tokio::io::copy(&mut connection, &mut tokio::io::sink()).await.map(drop)
}

/// The memory of a process in bytes, where the system tells.
fn memory(process: &Process) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(kilobytes.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

fn duration() -> Duration {
    let Ok(text) = std::env::var("RAMPMETER_HOSTILE") else { return USUAL };
    let minutes = text.strip_suffix('m').and_then(|minutes| minutes.parse::<u64>().ok());
    Duration::from_secs(60 * minutes.expect("RAMPMETER_HOSTILE is a number of minutes, such as 5m"))
}

fn received(upstream: &Upstream) -> Vec<Call> {
    let admissions = upstream.admissions();
    assert!(admissions.len() < ADMISSIONS, "the log is complete");
    let call = |admission: &rampmeter_upstream::Admission| Call {
        at: admission.at,
        cost: admission.cost.iter().map(|(unit, amount)| (unit.to_string(), amount.micros())).collect(),
    };
    admissions.iter().map(call).collect()
}

/// The findings on what the upstream received, and on what the scheduler promised. The scheduler
/// may use half of each bucket; the rest is margin.
fn findings(upstream: &Upstream, seen: &Seen) -> Vec<Finding> {
    let rules = LIMITS.map(|(unit, capacity)| Rule::new(unit, capacity, QUICK));
    let lowered = rules.clone().map(|rule| {
        let burst = rule.burst / 2 + rule.refill(LATENESS);
        rule.with_burst(burst)
    });
    [judge(&rules, received(upstream)), judge(&lowered, seen.promised.clone())].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "what was measured, with --nocapture")]
async fn one_hostile_worker_beside_ten_honest_ones() {
    let run = Run::of("hostile::one_hostile_worker_beside_ten_honest_ones");
    run.tell();
    let nats = shipped::single().await;
    let shared = hub(QUICK).replacen("name = \"hub\"\n", "name = \"hub\"\nfair_share = \"client\"\n", 1);
    let resources = format!("{shared}{QUIET}");
    let configuration = shipped::configuration(&shipped::url(&nats, "scheduler"), &resources);
    let mut scheduler = Process::start_with(RAMPMETER, &configuration, &[]).await;
    let seconds = QUICK.as_secs();
    let policies = LIMITS.map(|(unit, capacity)| format!("{unit}={capacity}/{seconds}s").parse().unwrap());
    let upstream = Upstream::start(Config::new(policies.into()).keep_admissions(ADMISSIONS)).await.unwrap();
    let clock = Clock::start();
    let (mut working, seen) = honest(&nats, &upstream, clock).await;
    let front = scheduler.http().unwrap().replace("http://", "");
    let hostile = tokio::spawn(attack(nats.url().to_owned(), front, run.seed()));

    let (end, mut most_memory) = (clock.now() + Span::from(duration()), 0);
    while clock.now() < end {
        let_pass(Duration::from_secs(1), "the hostile worker goes on for so long").await;
        most_memory = most_memory.max(memory(&scheduler).unwrap_or_default());
        assert!(!hostile.is_finished(), "the hostile worker goes on");
    }
    hostile.abort();
    assert!(scheduler.readiness().await.is_some_and(|(status, _)| status == 200), "the scheduler is well");
    working.shutdown().await;
    scheduler.until_ready().await;

    let seen = seen.lock().unwrap();
    let findings = findings(&upstream, &seen);
    findings.iter().for_each(|finding| println!("{finding}"));
    println!("{} calls, {} of them throttled; quiet permits: {}", seen.promised.len(), seen.throttled, seen.quiet);
    println!("the scheduler's memory: {} MiB at most", most_memory >> 20);
    assert!(findings.iter().all(|finding| finding.over_admitted_micros == 0), "too much was admitted");
    assert_eq!(seen.throttled, 0);
    assert_eq!(seen.failures, Vec::<String>::new(), "an honest request was refused");
    assert!(most_memory <= MAX_MEMORY, "{most_memory} bytes of memory");
    assert!(!seen.promised.is_empty() && seen.quiet.quantile(50).is_some(), "honest clients were served");
}
