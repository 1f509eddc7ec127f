//! Five parties that mean harm, beside ten honest clients: nothing is over-admitted, no honest request is
//! refused or late, memory stays within the sum of bounds, and nothing restarts.

use crate::prelude::*;
use rampmeter_tests::drill::{LATENESS, QUICK, hub};
use rampmeter_tests::judge::{Call, Cost, Finding, MICROS, Rule, judge};
use rampmeter_tests::parties::{self, SMUGGLED};
use rampmeter_worker_sdk as sdk;
use tokio::time::{MissedTickBehavior, interval};

/// How long the hostile parties send in a usual run. `RAMPMETER_HOSTILE=60m` sets another duration.
const USUAL: Duration = Duration::from_secs(20);

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

/// The most memory of a scheduler and of a proxy in bytes, even in an hour of attacks: their sums of bounds
/// in docs/operations.md.
const MAX_MEMORY: [usize; 2] = [1460 << 20, 416 << 20];
/// In so many of a hundred cases an honest client has its permit of the quiet resource within [`MAX_WAIT`]:
/// beside other tests, which take the cores for seconds, only the median tells of the scheduler; with a
/// program as it is released on a quiet machine, almost every wait does.
const WITHIN_MAX_WAIT: usize = if cfg!(debug_assertions) { 50 } else { 99 };
const MAX_WAIT: Span = Span::from_millis(if cfg!(debug_assertions) { 500 } else { 50 });

/// What the proxy asks permits of, and its bounds in the chart.
const PROXIED: &str = r#"
[[resource]]
name = "proxied"
limit = [
    { name = "calls", capacity = 10, period = "1s" },
    { name = "tokens", unit = "tokens", capacity = 100000, period = "1s" },
]
"#;
const BOUNDS: &str = r#"
[[proxy]]
resource = "proxied"
max_clients = 512
max_held = 512
max_connections = 256
replay_memory = 67108864
tokens = { total = "tokens" }
"#;
const TOKEN: &str = "token-of-a-hostile-tenant";

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

fn duration() -> Duration {
    let Ok(text) = std::env::var("RAMPMETER_HOSTILE") else { return USUAL };
    let minutes = text.strip_suffix('m').and_then(|minutes| minutes.parse::<u64>().ok());
    Duration::from_secs(60 * minutes.expect("RAMPMETER_HOSTILE is a number of minutes, such as 5m"))
}

fn received(upstream: &Upstream) -> Vec<Call> {
    let admissions = upstream.admissions();
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

/// The parties, each with a seed of its own.
fn hostile(nats: &Server, front: SocketAddr, proxy: SocketAddr, seed: u64) -> JoinSet<()> {
    let (mut parties, url) = (JoinSet::new(), || nats.url().to_owned());
    parties.spawn(parties::worker(url(), seed));
    parties.spawn(parties::operator(url(), seed + 1));
    parties.spawn(parties::tenant(front, TOKEN, seed + 2));
    parties.spawn(parties::proxy_client(proxy, seed + 3));
    parties.spawn(parties::page([front, proxy], seed + 4));
    parties
}

fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "what was measured, with --nocapture")]
async fn five_hostile_parties_beside_ten_honest_clients() {
    let run = Run::of("hostile::five_hostile_parties_beside_ten_honest_clients");
    run.tell();
    let nats = shipped::single().await;
    let shared = hub(QUICK).replacen("name = \"hub\"\n", "name = \"hub\"\nfair_share = \"client\"\n", 1);
    let resources = format!("token_env = \"FRONT_TOKEN\"\n{shared}{QUIET}{PROXIED}");
    let configuration = shipped::configuration(&shipped::url(&nats, "scheduler"), &resources);
    let mut scheduler = Process::begin_in(RAMPMETER, &configuration, &[], &[("FRONT_TOKEN", TOKEN)]);
    scheduler.until_ready().await;
    let upstream_of_proxy = RawUpstream::start([]).await;
    let worker = format!("[nats]\nurl = \"{}\"\ninbox_prefix = \"_INBOX_worker\"\n", shipped::url(&nats, "worker"));
    let arguments = ["--upstream", &upstream_of_proxy.url()];
    let proxy = ProxyProcess::start(RAMPMETER, &(worker + BOUNDS), &arguments, &[]).await;
    let seconds = QUICK.as_secs();
    let policies = LIMITS.map(|(unit, capacity)| format!("{unit}={capacity}/{seconds}s").parse().unwrap());
    let config = Config { keeps_admissions: true, ..Config::new(policies.into()) };
    let upstream = Upstream::start(config).await.unwrap();
    let clock = Clock::start();
    let (mut working, seen) = honest(&nats, &upstream, clock).await;
    let processes = [scheduler.id(), proxy.id()];
    let mut hostile = hostile(&nats, address(&scheduler.http().unwrap()), address(proxy.url()), run.seed());

    let (end, mut memory) = (clock.now() + Span::from(duration()), [0; 2]);
    while clock.now() < end {
        let ended = tokio::time::timeout(Duration::from_secs(1), hostile.join_next()).await;
        assert!(ended.is_err(), "a hostile party goes on: {ended:?}");
        memory = std::array::from_fn(|place| memory[place].max(resident(processes[place])));
    }
    hostile.shutdown().await;
    working.shutdown().await;
    scheduler.until_ready().await;

    let seen = seen.lock().unwrap();
    let findings = findings(&upstream, &seen);
    findings.iter().for_each(|finding| println!("{finding}"));
    println!("{} calls, {} of them throttled; quiet permits: {}", seen.promised.len(), seen.throttled, seen.quiet);
    println!("memory of the scheduler and the proxy: {:?} MiB at most", memory.map(|bytes| bytes >> 20));
    assert!(findings.iter().all(|finding| finding.over_admitted_micros == 0), "too much was admitted");
    assert_eq!(seen.throttled, 0);
    assert_eq!(seen.failures, Vec::<String>::new(), "an honest request was refused");
    assert!(
        !seen.promised.is_empty() && seen.quiet.quantile(WITHIN_MAX_WAIT).is_some_and(|most| most <= MAX_WAIT),
        "{}",
        seen.quiet
    );
    assert!(memory.iter().zip(MAX_MEMORY).all(|(most, bound)| *most <= bound), "{memory:?} bytes of memory");
    assert_eq!([scheduler.id(), proxy.id()], processes);
    let smuggled = SMUGGLED.lines().next().unwrap();
    assert!(
        !upstream_of_proxy.requests().iter().any(|request| request.starts_with(smuggled)),
        "a request came in another"
    );
}
