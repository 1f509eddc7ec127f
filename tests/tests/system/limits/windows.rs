//! Upstreams over HTTP that count in windows, and headers that tell of them. Windows begin at
//! another time than configured, strangers use keys and windows, and a capacity changes. The
//! figures of ten minutes are measured in virtual time
//! (`scheduler/core/tests/behaviour/saturation.rs`); these tests show that the effects occur.

#![allow(clippy::print_stdout, reason = "a failure, or --nocapture, shows what was measured")]

use crate::prelude::*;
use rampmeter_tests::fleet::Job;

/// Sixty requests in windows of ten seconds. As configured, windows begin at multiples of ten
/// seconds of the clock.
const HUB: &str = r#"
[[resource]]
name = "hub"
dialect = "ietf"
start = "full"
limit = [{ name = "many", algorithm = "fixed-window", capacity = 60, period = "10s" }]
"#;
const CAPACITY: usize = 60;
const PERIOD: Duration = Duration::from_secs(10);
/// Windows of the upstream begin this long after multiples of the period.
const FIRST_MS: u64 = 3_000;
const WORKERS: usize = 30;
/// More calls than any of these tests has time for.
const FOR_EVER: usize = 1_000_000;

/// Ten requests an hour for each tenant.
const TENANTS: &str = r#"
[[resource]]
name = "hub"
dialect = "ietf"
start = "full"
limit = [
    { name = "each", key = ["tenant"], algorithm = "fixed-window", capacity = 10, period = "1h", margin = 0 },
]
"#;
const TENANTS_UPSTREAM: &str = r#"
dialect = "ietf"
[[limit]]
name = "each"
limit = "requests=10/1h;fixed-window"
key = ["tenant"]
"#;

/// An upstream whose windows begin at the third of each ten seconds of the clock.
struct Hub {
    upstream: Upstream,
    started_ms: u64,
}

impl Hub {
    async fn start() -> Self {
        let config = Config::new(vec![policy(CAPACITY).parse().unwrap()]).dialect(Dialect::Ietf);
        let started_ms = unix_ms();
        Hub { upstream: Upstream::start(config.keep_admissions(100_000)).await.unwrap(), started_ms }
    }

    /// The window of a time since the start of the upstream.
    fn window(&self, at: Duration) -> u64 {
        (self.started_ms + at.as_millis() as u64 - FIRST_MS) / PERIOD.as_millis() as u64
    }

    /// The calls that a window has served, and those that it has refused.
    fn calls_in(&self, number: u64) -> (usize, usize) {
        let admissions = self.upstream.admissions().into_iter();
        let of_window = admissions.filter(|admission| self.window(admission.at) == number);
        let (served, refused): (Vec<_>, Vec<_>) = of_window.partition(|admission| admission.accepted);
        (served.len(), refused.len())
    }

    /// Waits for `count` whole windows, and returns what they have served and refused.
    async fn whole_windows(&self, count: u64) -> (usize, usize) {
        let first = (unix_ms() - FIRST_MS) / PERIOD.as_millis() as u64 + 1;
        let_pass(PERIOD * (count as u32 + 1), "whole windows pass").await;
        let windows = (first..first + count).map(|number| self.calls_in(number));
        let (served, refused) = windows.fold((0, 0), |sum, (served, refused)| (sum.0 + served, sum.1 + refused));
        println!("{served} served and {refused} refused in {count} windows");
        (served, refused)
    }
}

fn policy(capacity: usize) -> String {
    format!("requests={capacity}/10s;phase=3s")
}

async fn fleet(nats: &Server, hub: &Hub) -> Fleet {
    let api = Api::new(&hub.upstream);
    let job = Job { resource: "hub", asking: Asking::InLine, api, cost: BTreeMap::new() };
    Fleet::start(nats, WORKERS, FOR_EVER, &job).await
}

/// The capacity that the upstream has stated, once that is `stated`.
async fn capacity_becomes(worker: &Worker, stated: Option<f64>) {
    let stated_is = async || {
        let shown = worker.limit("many").await.reported;
        (shown.and_then(|shown| shown.capacity) == stated).then_some(())
    };
    until("the capacity is told", stated_is).await;
}

/// Waits until a window of the upstream has begun `since_ms` ago.
async fn in_a_window(since_ms: u64) {
    let period = PERIOD.as_millis() as u64;
    let wait = period - (unix_ms() - FIRST_MS - since_ms) % period;
    let_pass(Duration::from_millis(wait), "a window is so old").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_that_begin_at_another_time_are_used_up_without_a_429() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    // Answers state times in whole seconds. Near the start of a window they do not show whether it
    // has begun, so the test begins half a second later.
    in_a_window(500).await;
    let hub = Hub::start().await;
    let fleet = fleet(&nats, &hub).await;
    let worker = Worker::connect(&nats, "hub").await;
    until("the end of the window is told", async || worker.limit("many").await.reported?.window_ends_ms).await;
    let (served, refused) = hub.whole_windows(2).await;
    let throttled = fleet.throttled();
    fleet.stop().await;
    assert_eq!((refused, throttled), (0, 0));
    assert!(served * 100 >= 2 * CAPACITY * 90, "{served} served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capacity_that_changes_is_followed_by_what_headers_state() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    let hub = Hub::start().await;
    let fleet = fleet(&nats, &hub).await;
    let worker = Worker::connect(&nats, "hub").await;
    until("the end of the window is told", async || worker.limit("many").await.reported?.window_ends_ms).await;
    for capacity in [CAPACITY / 2, CAPACITY] {
        hub.upstream.change(vec![policy(capacity).parse().unwrap()]);
        capacity_becomes(&worker, (capacity < CAPACITY).then_some(capacity as f64)).await;
        let (served, refused) = hub.whole_windows(1).await;
        assert_eq!(refused, 0, "from {capacity} in a window on");
        assert!(served * 100 >= capacity * 90, "{served} of {capacity} served");
    }
    fleet.stop().await;
}

/// A stranger takes a fifth of each window, one call after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_leave_the_rest_of_each_window() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    let hub = Hub::start().await;
    let stranger = Api::new(&hub.upstream);
    let stranger = tokio::spawn(async move {
        loop {
            let_pass(PERIOD * 5 / CAPACITY as u32, "strangers call so often").await;
            stranger.call(&BTreeMap::new()).await.ok();
        }
    });
    let fleet = fleet(&nats, &hub).await;
    let_pass(PERIOD, "the first lessons are learned").await;
    let before = fleet.throttled();
    let (served, _) = hub.whole_windows(2).await;
    let throttled = fleet.throttled() - before;
    stranger.abort();
    fleet.stop().await;
    println!("{throttled} × 429");
    assert!(throttled <= 3 && served * 100 >= 2 * CAPACITY * 90, "{throttled} × 429, {served} served");
}

/// Nothing if a call of a tenant gets no permit at once, and otherwise whether the upstream serves
/// it.
async fn call(worker: &Worker, upstream: &Upstream, tenant: &str) -> Option<bool> {
    let permit = worker.ask(json!({"labels": {"tenant": tenant}, "mode": "allow"})).await;
    if permit["status"] != "granted" {
        return None;
    }
    let answer = http().get(format!("{}/process?tenant={tenant}", upstream.url())).send().await.unwrap();
    let status = answer.status().as_u16();
    let shown = answer.headers().iter().filter(|(name, _)| speaks_of_limits(name.as_str()));
    let headers: BTreeMap<&str, &str> = shown.map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    worker.settle(json!({"id": permit["id"], "response": {"status": status, "headers": headers}})).await;
    Some(status == 200)
}

#[tokio::test]
async fn what_headers_tell_of_a_key_counts_for_this_key_alone() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, TENANTS).await;
    let upstream = Upstream::start(Config::of(TENANTS_UPSTREAM.parse().unwrap())).await.unwrap();
    let stranger = format!("{}/process?tenant=a", upstream.url());
    let answers = within("strangers are served", join_all((0..6).map(|_| http().get(&stranger).send()))).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().status() == 200));
    let worker = Worker::connect(&nats, "hub").await;
    for (tenant, left) in [("a", 4), ("b", 10)] {
        for number in 0..12 {
            let served = call(&worker, &upstream, tenant).await;
            assert_eq!(served, (number < left).then_some(true), "call {number} of {tenant}");
        }
    }
}
