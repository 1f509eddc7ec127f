//! Upstreams over HTTP that differ from the configuration. A scheduler in its own process learns
//! the difference from the answers that workers settle. The verdict uses only the upstream's own
//! counts.
//!
//! `simulator/tests/behaviour/feedback.rs` holds the same upstreams to the same bounds over ten
//! minutes of virtual time. A long run here does so too: `RAMPMETER_FIRE=long`. A usual run takes
//! 40 s, on an account that fills within four instead of sixty.

#![allow(clippy::print_stdout, reason = "a failure, or --nocapture, shows what was measured")]

use crate::prelude::*;
use rampmeter_tests::fleet::Job;
use rampmeter_upstream::Stats;
use rampmeter_upstream::Tally;
use tokio::task::JoinHandle;

/// More calls than a test has time for.
const FOR_EVER: usize = 1_000_000;
/// The name under which the upstream counts our calls.
const OURS: &str = "ours";
const STRANGERS: &str = "strangers";
/// By this time the scheduler has learned its first lessons.
const SETTLED: Duration = Duration::from_secs(10);
/// Dropped fractions depend on the times of arrival, and are learned more slowly.
const SETTLED_LATE: Duration = Duration::from_secs(30);
/// Within this time a restored limit is used again.
const RECOVERY: Duration = Duration::from_secs(60);
/// The rejections that a usual run may have. It makes too few calls for a share of them to allow
/// what a scheduler needs to learn.
const FEW: u64 = 4;
/// The most calls that one lesson costs: those of a horizon of 50 ms, four on unseen stock, the
/// probe, and strangers' calls. The next call behind them is served. A scheduler with more
/// rejections in a row does not learn.
const MAX_IN_A_ROW: usize = 10;
/// The decisions of an upstream in the longest run.
const LOG: usize = 100_000;

/// The configured account, and how long the test observes it.
#[derive(Clone, Copy)]
struct Account {
    capacity: u32,
    period: u32,
    length: Duration,
}

impl Account {
    fn of_this_run() -> Self {
        match is_long() {
            true => Account { capacity: 1000, period: 60, length: Duration::from_secs(600) },
            false => Account { capacity: 200, period: 4, length: Duration::from_secs(40) },
        }
    }

    /// Calls a second.
    fn rate(self) -> f64 {
        f64::from(self.capacity) / f64::from(self.period)
    }

    /// The upstream's policy with this share of the capacity, and these options.
    fn policy(self, part: f64, more: &str) -> String {
        format!("requests={}/{}s{more}", f64::from(self.capacity) * part, self.period)
    }
}

/// What the upstream really gives in a scenario.
#[derive(Clone, Copy)]
enum Given {
    /// This share of the configured rate.
    Part(f64),
    /// What it serves, and what is left.
    ServedAndLeft,
}

/// The most 429s.
#[derive(Clone, Copy)]
enum Most {
    /// This percentage of the calls, once the scheduler has settled.
    Percent(f64),
    /// This many calls from the beginning on.
    Calls(u64),
}

/// One upstream, its callers, and the expected result.
struct Scenario {
    /// The scenario's name, which is also the name of its resource.
    name: &'static str,
    policy: String,
    given: Given,
    workers: usize,
    asking: Asking,
    /// The strangers' share of the rate.
    strangers: f64,
    /// Whether the scheduler asks the upstream for its levels.
    polled: bool,
    settled: Duration,
    most: Most,
    /// The least share of the given rate that must be used, once the scheduler has settled.
    least: f64,
}

impl Scenario {
    fn new(name: &'static str, policy: String) -> Self {
        Scenario {
            name,
            policy,
            given: Given::Part(1.0),
            workers: 50,
            asking: Asking::InLine,
            strangers: 0.0,
            polled: false,
            settled: SETTLED,
            most: Most::Percent(1.0),
            least: 0.97,
        }
    }

    fn job(&self, upstream: &Upstream) -> Job {
        let api = Api::new(upstream).named(OURS);
        Job { resource: self.name, asking: self.asking, api, cost: BTreeMap::new() }
    }
}

/// Scenarios of an upstream that does not change.
fn scenarios(account: Account) -> Vec<Scenario> {
    let plain = || account.policy(1.0, "");
    let strangers = |name, part, workers, most, least| {
        let (most, least) = (Most::Percent(most), least);
        Scenario { strangers: part, workers, most, least, ..Scenario::new(name, plain()) }
    };
    let start = |name, part: f64, most| {
        let policy = account.policy(1.0, &format!(";start={}", f64::from(account.capacity) * part));
        Scenario { most: Most::Calls(most), least: 0.995, ..Scenario::new(name, policy) }
    };
    let slower = account.period * 101;
    let slower = format!("requests={}/{}ms", account.capacity, slower * 10);
    // The upstream refills one percent more slowly than configured. A rejection makes the scheduler
    // hold back stock, so a run meets six at most.
    let slower = Scenario { most: Most::Calls(6), given: Given::Part(1.0 / 1.01), ..Scenario::new("slower", slower) };
    let fractions = Scenario::new("fractions", account.policy(1.0, ";whole"));
    // Each lesson costs all calls under way, and learning the missing share takes the first half
    // minute.
    let counted_most = Most::Percent(if is_long() { 1.0 } else { 2.0 });
    let counted = Scenario { most: counted_most, ..Scenario::new("counted", account.policy(0.5, ";leaky-bucket")) };
    let polled = Scenario { most: Most::Calls(0), least: 0.995, ..Scenario::new("polled", plain()) };
    vec![
        strangers("strangers-50", 0.2, 50, 1.0, 0.97),
        strangers("strangers-200", 0.2, 200, 1.0, 0.97),
        strangers("few-strangers", 0.02, 50, 0.1, 0.99),
        start("four-fifths-at-the-start", 0.8, 8),
        start("empty-at-the-start", 0.0, 15),
        slower,
        Scenario { settled: SETTLED_LATE, given: Given::ServedAndLeft, ..fractions },
        Scenario { given: Given::Part(0.5), ..counted },
        Scenario { polled: true, workers: 200, asking: Asking::Ahead, ..polled },
    ]
}

/// A scheduler of all scenarios, in its own process.
async fn scheduler(nats: &Server, account: Account, scenarios: &[Scenario], polled: &Portal) -> Process {
    let every = if is_long() { "5s" } else { "1s" };
    let resource = |scenario: &Scenario| {
        let credentials = format!("client_secret_env = \"HUB_CLIENT_SECRET\", levels_every = \"{every}\"");
        let provider = format!("provider = {}", portal::provider(polled, &credentials));
        format!(
            "[[resource]]\nname = \"{}\"\ndialect = \"sentinel-hub\"\nstart = \"unproven\"\n{}\n[[resource.limit]]\nname = \"requests\"\n\
             capacity = {}\nperiod = \"{}s\"\n",
            scenario.name,
            if scenario.polled { &*provider } else { "" },
            account.capacity,
            account.period,
        )
    };
    let resources: Vec<String> = scenarios.iter().map(resource).collect();
    portal::start(RAMPMETER, nats, &resources.concat()).await
}

async fn upstream(policy: &str) -> Arc<Upstream> {
    let config = Config::new(vec![policy.parse().unwrap()]).keep_admissions(LOG);
    Arc::new(Upstream::start(config).await.unwrap())
}

/// Strangers that use the account without permits, until the end.
fn strangers(upstream: &Upstream, account: Account, part: f64) -> Option<JoinHandle<()>> {
    let (api, mut dice) = (Api::new(upstream).named(STRANGERS), Rng::new(1));
    let apart = Duration::from_secs_f64(1.0 / (account.rate() * part).max(1e-9));
    (part > 0.0).then(|| {
        tokio::spawn(async move {
            loop {
                let_pass(dice.arrival(apart), "strangers call so often").await;
                let api = api.clone();
                tokio::spawn(async move { api.call(&BTreeMap::new()).await.ok() });
            }
        })
    })
}

fn tally(stats: &Stats, client: &str) -> Tally {
    stats.classes.get(client).copied().unwrap_or_default()
}

/// What our workers got from the upstream between two snapshots.
struct Fared {
    calls: u64,
    rejected: u64,
    /// The share of the given rate that was used.
    used: f64,
}

impl Fared {
    /// Compares two snapshots. In a usual run, stock that came in since the first snapshot counts
    /// as not given: the scheduler holds it back once, for good.
    fn between(first: &Stats, last: &Stats, account: Account, given: Given) -> Self {
        let served = |client| tally(last, client).ok - tally(first, client).ok;
        let rejected = tally(last, OURS).rate_limited - tally(first, OURS).rate_limited;
        let level = |stats: &Stats| stats.policies[0].level.micros() as f64 / 1e6;
        let used = match given {
            Given::Part(part) => {
                let held_back = if is_long() { 0.0 } else { (level(last) - level(first)).max(0.0) };
                let seconds = (last.uptime - first.uptime).as_secs_f64();
                served(OURS) as f64 / (account.rate() * part * seconds - served(STRANGERS) as f64 - held_back)
            }
            Given::ServedAndLeft => {
                let all = tally(last, OURS).ok as f64;
                all / (all + level(last))
            }
        };
        Fared { calls: served(OURS) + rejected, rejected, used }
    }

    fn percent(&self) -> f64 {
        100.0 * self.rejected as f64 / self.calls as f64
    }

    fn keeps_to(&self, percent: f64) -> bool {
        !is_long() && self.rejected <= FEW || self.percent() <= percent
    }
}

/// The longest run of successive rejections.
fn most_in_a_row(upstream: &Upstream) -> usize {
    let all = upstream.admissions();
    assert!(all.len() < LOG, "the log is whole");
    all.split(|call| call.accepted).map(<[_]>::len).max().unwrap_or(0)
}

/// Plays one scenario, and returns what is wrong with its result.
async fn play(nats: &Server, account: Account, scenario: &Scenario, upstream: Arc<Upstream>) -> Option<String> {
    let fleet = Fleet::start(nats, scenario.workers, FOR_EVER, &scenario.job(&upstream)).await;
    let strangers = strangers(&upstream, account, scenario.strangers);
    let_pass(scenario.settled, "it is found out what the upstream does").await;
    let first = upstream.stats();
    let_pass(account.length - scenario.settled, "that is kept to").await;
    let last = upstream.stats();
    if let Some(strangers) = strangers {
        strangers.abort();
    }
    fleet.stop().await;
    let fared = Fared::between(&first, &last, account, scenario.given);
    let (all, used) = (tally(&last, OURS).rate_limited, 100.0 * fared.used);
    let in_a_row = most_in_a_row(&upstream);
    let summary = format!(
        "{}: {all} × 429, at most {in_a_row} in a row; from {} s on {} of {} calls, {:.3} %; {used:.2} % used",
        scenario.name,
        scenario.settled.as_secs(),
        fared.rejected,
        fared.calls,
        fared.percent(),
    );
    println!("{summary}");
    let keeps_to = match scenario.most {
        Most::Percent(percent) => fared.keeps_to(percent),
        Most::Calls(most) => all <= most,
    };
    (!keeps_to || in_a_row > MAX_IN_A_ROW || fared.used < scenario.least).then_some(summary)
}

/// A limit that is halved, and restored in a long run. The lost rate has to come back within a
/// minute.
async fn play_halved(nats: &Server, account: Account, scenario: &Scenario, upstream: Arc<Upstream>) -> Option<String> {
    let (whole, half) = (account.policy(1.0, ""), account.policy(0.5, ""));
    let fleet = Fleet::start(nats, scenario.workers, FOR_EVER, &scenario.job(&upstream)).await;
    let parts = if is_long() { 5 } else { 4 };
    let_pass(account.length / parts, "the whole limit is used").await;
    upstream.change(vec![half.parse().unwrap()]);
    let_pass(SETTLED, "it is found out that it is half").await;
    let first = upstream.stats();
    let_pass(account.length / 2, "that is kept to").await;
    let halved = Fared::between(&first, &upstream.stats(), account, Given::Part(0.5));
    let mut summary =
        format!("halved: {:.3} % × 429 of {} calls, {:.2} % used", halved.percent(), halved.calls, 100.0 * halved.used);
    let mut good = halved.keeps_to(1.0) && halved.used >= 0.97;
    if is_long() {
        upstream.change(vec![whole.parse().unwrap()]);
        let_pass(RECOVERY, "it is found out that it is whole again").await;
        let first = upstream.stats();
        let_pass(RECOVERY, "that is used").await;
        let restored = Fared::between(&first, &upstream.stats(), account, Given::Part(1.0));
        summary += &format!("; restored: {:.2} % used", 100.0 * restored.used);
        good &= restored.used >= 0.95;
    }
    fleet.stop().await;
    println!("{summary}");
    (!good).then_some(summary)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upstreams_that_are_not_what_is_configured() {
    undisturbed(play_all).await;
}

/// # Errors
/// The results of the failed scenarios.
async fn play_all() -> Result<(), String> {
    let (nats, account) = (nats::start().await, Account::of_this_run());
    let steady = scenarios(account);
    let halved = Scenario::new("halved", account.policy(1.0, ""));
    let polled = portal::upstream(&[&account.policy(1.0, "")]).await;
    let all: Vec<Scenario> = scenarios(account).into_iter().chain([Scenario::new("halved", String::new())]).collect();
    let _scheduler = scheduler(&nats, account, &all, &polled).await;
    let mut played = Vec::new();
    for scenario in &steady {
        let upstream = if scenario.polled { polled.upstream() } else { upstream(&scenario.policy).await };
        played.push(play(&nats, account, scenario, upstream));
    }
    let upstream = upstream(&halved.policy).await;
    let (steady, halved) = tokio::join!(join_all(played), play_halved(&nats, account, &halved, upstream));
    let wrong: Vec<String> = steady.into_iter().chain([halved]).flatten().collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
