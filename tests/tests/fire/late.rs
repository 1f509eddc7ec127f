//! Answers that come seconds late, because NATS is stopped or a worker hears nothing for a while.
//! Their grants are not used once the bucket has filled up again.

use crate::prelude::*;
use rampmeter_tests::judge::{Call, Cost, MICROS, Rule, judge};
use rampmeter_tests::proxy::{Line, Proxy};

/// A hundred calls a second and a burst of as many. The bucket fills up in a second. Answers may be
/// late by 50 ms before a scheduler notices it, and the timers of the workers add some milliseconds.
const HUB: &str = "[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"requests\"\ncapacity = 100\n\
    period = \"1s\"\njitter = \"75ms\"\n";
const RATE: f64 = 100.0;
const MIN_USED: f64 = 0.95;

const CYCLES: Cycles = Cycles { usual: 3, long: 100 };
const STOPPED: std::ops::Range<Duration> = Duration::from_secs(1)..Duration::from_secs(5);
const HELD: std::ops::Range<Duration> = Duration::from_secs(1)..Duration::from_secs(4);
const BETWEEN: Duration = Duration::from_secs(3);

/// Which clients ask.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Clients of the SDK.
    Sdk,
    /// Clients that know only that a call starts `delay_ms` after the answer.
    Plain,
}

const CONNECTIONS: usize = 4;
const WORKERS_PER_CONNECTION: usize = 60;
/// Longer than any program is stopped: such a client trusts an answer however late it is.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Workers that call as often as they may, and the times of their calls.
struct Callers {
    clock: Clock,
    calls: Arc<Mutex<Vec<Time>>>,
    workers: JoinSet<()>,
}

impl Callers {
    async fn start(kind: Kind, urls: [&str; CONNECTIONS]) -> Self {
        let mut callers = Callers { clock: Clock::start(), calls: Arc::default(), workers: JoinSet::new() };
        for (number, url) in urls.into_iter().enumerate() {
            match kind {
                Kind::Sdk => callers.add_sdk(url).await,
                Kind::Plain => callers.add_plain(number, url).await,
            }
        }
        callers
    }

    async fn add_sdk(&mut self, url: &str) {
        let hub = Client::connect(url).await.unwrap().resource("hub").unwrap();
        for _ in 0..WORKERS_PER_CONNECTION {
            let (clock, calls, hub) = (self.clock, Arc::clone(&self.calls), hub.clone());
            self.workers.spawn(async move {
                loop {
                    let call = hub.acquire(1).await.unwrap().begin();
                    calls.lock().unwrap().push(clock.now());
                    drop(call);
                }
            });
        }
    }

    async fn add_plain(&mut self, number: usize, url: &str) {
        let client = async_nats::connect(url).await.unwrap();
        for worker in 0..WORKERS_PER_CONNECTION {
            let (clock, calls, client) = (self.clock, Arc::clone(&self.calls), client.clone());
            self.workers.spawn(async move {
                for call in 0.. {
                    let id = format!("plain-{number}-{worker}-{call}");
                    if let Some(delay) = ask(&client, &id).await {
                        let_pass(delay, "the start is so far away").await;
                        calls.lock().unwrap().push(clock.now());
                    }
                    let settle = json!({"id": id}).to_string();
                    client.publish("rampmeter.settle.hub", settle.into()).await.unwrap();
                }
            });
        }
    }

    fn made(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// Checks that no call was too many, and that enough were made in `time`, beyond the `before`
    /// first ones.
    #[allow(clippy::print_stdout, reason = "--nocapture shows what was measured")]
    fn verdict(&self, before: usize, time: Span) -> Result<(), String> {
        let cost = Cost::from([("requests".to_owned(), MICROS)]);
        let call = |at: &Time| Call { at: at.since(Clock::START).duration(), cost: cost.clone() };
        let calls: Vec<Call> = self.calls.lock().unwrap().iter().map(call).collect();
        let used = (calls.len() - before) as f64 / (RATE * time.secs());
        let [finding] = judge(&[Rule::new("requests", 100, Duration::from_secs(1))], calls).try_into().unwrap();
        println!("{finding}, used {used:.3}");
        let fine = finding.over_admitted_micros == 0 && used >= MIN_USED;
        if fine { Ok(()) } else { Err(format!("{finding}, used {used:.3}")) }
    }
}

/// The delay of a permit; `None` if it was refused.
async fn ask(client: &async_nats::Client, id: &str) -> Option<Duration> {
    let request = async_nats::Request::new().timeout(Some(REQUEST_TIMEOUT));
    let request = request.payload(json!({"id": id, "mode": "wait"}).to_string().into());
    let answer = client.send_request("rampmeter.permit.hub", request).await.ok()?;
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    answer["delay_ms"].as_f64().map(|ms| Duration::from_secs_f64(ms / 1000.0))
}

/// A server, and a scheduler in its own process.
async fn stage() -> (Server, Process) {
    let nats = nats::start().await;
    let mut scheduler = Process::start(RAMPMETER, &nats, HUB).await;
    scheduler.until_ready().await;
    (nats, scheduler)
}

async fn stopped(kind: Kind, dice: &mut Rng) -> Result<(), String> {
    let (nats, _scheduler) = stage().await;
    let callers = Callers::start(kind, [nats.url(); CONNECTIONS]).await;
    let_pass(BETWEEN, "the burst is used up").await;
    let (before, mut flowing) = (callers.made(), Span::ZERO);
    for _ in 0..CYCLES.count() {
        nats.pause().unwrap();
        let_pass(dice.span(STOPPED), "NATS is stopped for so long").await;
        nats.resume().unwrap();
        let since = callers.clock.now();
        let_pass(BETWEEN, "the rate is to be used in between").await;
        flowing = flowing + callers.clock.now().since(since);
    }
    callers.verdict(before, flowing)
}

async fn held(dice: &mut Rng) -> Result<(), String> {
    let (nats, _scheduler) = stage().await;
    let proxy = within("a proxy", Proxy::start(nats.port())).await;
    let by_proxy = proxy.url();
    let callers = Callers::start(Kind::Sdk, [&by_proxy, nats.url(), nats.url(), &by_proxy]).await;
    let_pass(BETWEEN, "the burst is used up").await;
    let (before, since) = (callers.made(), callers.clock.now());
    for _ in 0..CYCLES.count() {
        proxy.set(Line::Open, Line::Held);
        let_pass(dice.span(HELD), "half of the workers hear nothing for so long").await;
        proxy.heal();
        let_pass(BETWEEN, "the rate is to be used in between").await;
    }
    callers.verdict(before, callers.clock.now().since(since))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_stopped() {
    let run = Run::of("late::nats_stopped");
    run.tell();
    undisturbed(async || stopped(Kind::Sdk, &mut run.dice()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_stopped_and_clients_that_know_no_more_than_a_delay() {
    let run = Run::of("late::nats_stopped_and_clients_that_know_no_more_than_a_delay");
    run.tell();
    undisturbed(async || stopped(Kind::Plain, &mut run.dice()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_hear_nothing() {
    let run = Run::of("late::workers_that_hear_nothing");
    run.tell();
    undisturbed(async || held(&mut run.dice()).await).await;
}
