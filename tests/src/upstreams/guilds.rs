//! Discord as jobs see it: an upstream that limits each server (a "guild") separately. It remembers
//! the order of calls.

use crate::api::http;
use crate::patience::let_pass;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::put;
use rampmeter_jobs::{Attempt, Failure, Queue, WorkerBuilder};
use rampmeter_protocol::clock::Clock;
use rampmeter_upstream::{Account, Cost, Policy};
use rampmeter_worker_sdk::{Outcome, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How soon another worker gets the jobs of a killed one.
pub const LEASE: Duration = Duration::from_secs(1);
/// The attempts at a job: more than the kills of a test can spoil.
const ATTEMPTS: u32 = 100;

/// A new queue `roles` for jobs with and without a class.
pub async fn queue(url: &str) -> Queue {
    let queue = Queue::builder().lease(LEASE).class("urgent").class("usual");
    queue.create(url, "roles").await.unwrap()
}

/// An upstream with one policy for each guild. It ends when it is dropped.
pub struct Guilds {
    url: String,
    seen: Arc<Seen>,
    serving: JoinHandle<()>,
}

struct Seen {
    policy: Policy,
    takes: Duration,
    clock: Clock,
    /// The lock guards accounts and calls, for as long as one call takes to be counted.
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    accounts: BTreeMap<String, Account>,
    calls: Vec<GuildCall>,
}

/// A call that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuildCall {
    /// Its guild.
    pub guild: String,
    /// Its job.
    pub job: u32,
    /// Whether the answer was 429.
    pub throttled: bool,
    /// When it arrived, since the start of the upstream.
    pub at: Duration,
}

/// A resource `discord` that allows each guild this capacity per period. Half of it is margin,
/// because calls of tests on a busy machine are late.
pub fn discord(capacity: u32, period: Duration) -> String {
    discord_by("token-bucket", capacity, period)
}

/// The same, counted by this algorithm.
pub fn discord_by(algorithm: &str, capacity: u32, period: Duration) -> String {
    let (period, margin) = (period.as_millis(), capacity / 2);
    format!(
        "[[resource]]\nname = \"discord\"\nclasses = [{{ name = \"urgent\" }}, {{ name = \"usual\" }}]\ndefault_class = \"usual\"\n\
         [[resource.limit]]\nname = \"per-guild\"\nkey = [\"guild\"]\nalgorithm = \"{algorithm}\"\ncapacity = {capacity}\nperiod = \"{period}ms\"\nmargin = {margin}\n"
    )
}

impl Guilds {
    /// Starts an upstream that allows each guild this capacity per period.
    pub async fn start(capacity: u32, period: Duration) -> Self {
        Self::start_slow(capacity, period, Duration::ZERO).await
    }

    /// The same, with answers that take this long.
    pub async fn start_slow(capacity: u32, period: Duration, takes: Duration) -> Self {
        Self::start_with(&format!("requests={capacity}/{}ms", period.as_millis()), takes).await
    }

    /// The same with this policy for each guild.
    pub async fn start_with(policy: &str, takes: Duration) -> Self {
        let policy = policy.parse().unwrap();
        let seen = Arc::new(Seen { policy, takes, clock: Clock::start(), book: Mutex::default() });
        let app = Router::new().route("/guilds/{guild}/roles/{job}", put(called)).with_state(seen.clone());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Guilds { url, seen, serving }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The calls so far, in the order of their arrival.
    pub fn calls(&self) -> Vec<GuildCall> {
        self.seen.book.lock().unwrap().calls.clone()
    }

    /// The number of different jobs that were admitted, over all guilds.
    pub fn done(&self) -> usize {
        let calls = self.calls();
        let done = calls.iter().filter(|call| !call.throttled).map(|call| (&*call.guild, call.job));
        done.collect::<BTreeSet<_>>().len()
    }

    /// Checks that every guild has had jobs 0 to `jobs` in order, each once or more, and that no
    /// answer was 429. Returns the number of repeated calls.
    pub fn check(&self, guilds: u32, jobs: u32) -> usize {
        let calls = self.calls();
        let throttled: Vec<&GuildCall> = calls.iter().filter(|call| call.throttled).collect();
        assert!(throttled.is_empty(), "answered 429: {throttled:?}");
        for guild in 0..guilds {
            let mut order: Vec<u32> =
                calls.iter().filter(|call| call.guild == name(guild)).map(|call| call.job).collect();
            // The same job again, after a death, directly behind the first.
            order.dedup();
            assert_eq!(order, (0..jobs).collect::<Vec<u32>>(), "{}", name(guild));
        }
        calls.len() - (guilds * jobs) as usize
    }
}

impl Drop for Guilds {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The name of a guild.
pub fn name(guild: u32) -> String {
    format!("guild {guild}")
}

async fn called(State(seen): State<Arc<Seen>>, Path((guild, job)): Path<(String, u32)>) -> StatusCode {
    let status = seen.count(guild, job);
    let_pass(seen.takes, "a call takes its time").await;
    status
}

impl Seen {
    fn count(&self, guild: String, job: u32) -> StatusCode {
        let mut book = self.book.lock().unwrap();
        let at = self.clock.now().since(Clock::START).duration();
        let account = book.accounts.entry(guild.clone()).or_insert_with(|| Account::new(vec![self.policy.clone()]));
        let throttled = account.admit(at, &Cost::new()).is_err();
        book.calls.push(GuildCall { guild, job, throttled, at });
        if throttled { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::NO_CONTENT }
    }
}

/// A worker that attempts a job often enough to survive many deaths.
pub fn worker(queue: &Queue, discord: Resource) -> WorkerBuilder {
    queue.worker(discord).group_label("guild").max_attempts(ATTEMPTS)
}

/// Calls the upstream at `url` for each job; the payload is the job's number.
pub fn handler(url: &str) -> impl Fn(Attempt) -> futures::future::BoxFuture<'static, Result<Outcome, Failure>> + use<> {
    let (http, url) = (http(), url.to_owned());
    move |attempt| {
        let (http, job) = (http.clone(), String::from_utf8_lossy(&attempt.payload).into_owned());
        let url = format!("{url}/guilds/{}/roles/{job}", attempt.group);
        Box::pin(async move {
            let answer = http.put(url).send().await?;
            Ok(Outcome::status(answer.status().as_u16()))
        })
    }
}
