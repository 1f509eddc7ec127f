//! Upstreams over HTTP that count in windows, and headers that tell of them. Windows begin at
//! another time than is written, strangers use keys and windows, and a capacity changes. The
//! figures of ten minutes are virtual time's (`scheduler-core/tests/behaviour/saturation.rs`);
//! these tests show that the effects occur.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]
#![allow(clippy::print_stdout, reason = "a failure, or --nocapture, shows what was measured")]

use futures::future::join_all;
use rampmeter_nats_server::Server;
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::headers::speaks_of_limits;
use rampmeter_tests::api::{Api, http};
use rampmeter_tests::fleet::{Asking, Fleet, Job};
use rampmeter_tests::patience::{let_pass, until, within};
use rampmeter_tests::worker::Worker;
use rampmeter_tests::{nats, scheduler};
use rampmeter_upstream::{Config, Dialect, Upstream};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Sixty requests in windows of ten seconds. By the configuration, windows follow the clock.
const HUB: &str = r#"
[[resource]]
name = "hub"
dialect = "ietf"
start = "full"
[[resource.limit]]
name = "many"
algorithm = "fixed-window"
capacity = 60
period = "10s"
"#;
const CAPACITY: usize = 60;
const PERIOD: Duration = Duration::from_secs(10);
const WORKERS: usize = 30;
/// More calls than any of these tests has time for.
const FOR_EVER: usize = 1_000_000;

/// Ten requests an hour for each tenant.
const TENANTS: &str = r#"
[[resource]]
name = "hub"
dialect = "ietf"
start = "full"
[[resource.limit]]
name = "each"
key = ["tenant"]
algorithm = "fixed-window"
capacity = 10
period = "1h"
margin = 0
"#;
const TENANTS_UPSTREAM: &str = r#"
dialect = "ietf"
[[limit]]
name = "each"
limit = "requests=10/1h;fixed-window"
key = ["tenant"]
"#;

/// An upstream whose windows begin three seconds after it has, and every ten seconds from then on.
async fn windows(capacity: usize) -> Upstream {
    let config = Config::new(vec![policy(capacity).parse().unwrap()]).dialect(Dialect::Ietf);
    Upstream::start(config.keep_admissions(100_000)).await.unwrap()
}

fn policy(capacity: usize) -> String {
    format!("requests={capacity}/10s;phase=3s")
}

async fn fleet(nats: &Server, upstream: &Upstream) -> Fleet {
    let job = Job { resource: "hub", asking: Asking::InLine, api: Api::new(upstream), cost: BTreeMap::new() };
    Fleet::start(nats, WORKERS, FOR_EVER, &job).await
}

/// The window of a time since the start of the upstream.
fn window(at: Duration) -> u64 {
    (at + PERIOD - Duration::from_secs(3)).as_secs() / PERIOD.as_secs()
}

/// The windows that have begun.
fn begun(upstream: &Upstream) -> u64 {
    upstream.admissions().last().map_or(0, |admission| window(admission.at))
}

/// The calls that a window has served, and those that it has refused.
fn calls_in(upstream: &Upstream, number: u64) -> (usize, usize) {
    let of_window = upstream.admissions().into_iter().filter(|admission| window(admission.at) == number);
    let (served, refused): (Vec<_>, Vec<_>) = of_window.partition(|admission| admission.accepted);
    (served.len(), refused.len())
}

/// Waits for `count` whole windows, and returns what they have served and refused.
async fn whole_windows(upstream: &Upstream, count: u64) -> (usize, usize) {
    let first = begun(upstream) + 1;
    let_pass(PERIOD * (count as u32 + 1), "whole windows pass").await;
    let windows = (first..first + count).map(|number| calls_in(upstream, number));
    let (served, refused) = windows.fold((0, 0), |sum, (served, refused)| (sum.0 + served, sum.1 + refused));
    println!("{served} served and {refused} refused in {count} windows");
    (served, refused)
}

/// The capacity that the upstream has stated, once that is `stated`.
async fn capacity_becomes(worker: &Worker, stated: Option<f64>) {
    let stated_is = async || {
        let told = worker.limit("many").await.told;
        (told.and_then(|told| told.capacity) == stated).then_some(())
    };
    until("the capacity is told", stated_is).await;
}

/// Waits until a window of the clock is eight seconds old, so that each run is alike.
async fn late_in_a_window() {
    let period = PERIOD.as_millis() as u64;
    let wait = (period + 8_000 - unix_ms() % period) % period;
    let_pass(Duration::from_millis(wait), "a run begins at this second of the clock").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_that_begin_at_another_time_are_used_up_without_a_429() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    late_in_a_window().await;
    let upstream = windows(CAPACITY).await;
    let fleet = fleet(&nats, &upstream).await;
    let worker = Worker::connect(&nats, "hub").await;
    until("the end of the window is told", async || worker.limit("many").await.told?.window_ends_ms).await;
    let (served, refused) = whole_windows(&upstream, 2).await;
    let throttled = fleet.throttled();
    fleet.stop().await;
    assert_eq!((refused, throttled), (0, 0));
    assert!(served * 100 >= 2 * CAPACITY * 90, "{served} served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capacity_that_changes_is_followed_by_what_headers_state() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    let upstream = windows(CAPACITY).await;
    let fleet = fleet(&nats, &upstream).await;
    let worker = Worker::connect(&nats, "hub").await;
    until("the end of the window is told", async || worker.limit("many").await.told?.window_ends_ms).await;
    for capacity in [CAPACITY / 2, CAPACITY] {
        upstream.change(vec![policy(capacity).parse().unwrap()]);
        capacity_becomes(&worker, (capacity < CAPACITY).then_some(capacity as f64)).await;
        let (served, refused) = whole_windows(&upstream, 1).await;
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
    let upstream = windows(CAPACITY).await;
    let stranger = Api::new(&upstream);
    let stranger = tokio::spawn(async move {
        loop {
            let_pass(PERIOD * 5 / CAPACITY as u32, "strangers call so often").await;
            stranger.call(&BTreeMap::new()).await.ok();
        }
    });
    let fleet = fleet(&nats, &upstream).await;
    let_pass(PERIOD, "the first lessons are learned").await;
    let before = fleet.throttled();
    let (served, _) = whole_windows(&upstream, 2).await;
    let throttled = fleet.throttled() - before;
    stranger.abort();
    fleet.stop().await;
    println!("{throttled} × 429");
    assert!(throttled <= 3 && served * 100 >= 2 * CAPACITY * 90, "{throttled} × 429, {served} served");
}

/// Whether a call of a tenant gets a permit at once, and then is served.
async fn call(worker: &Worker, upstream: &Upstream, tenant: &str) -> Option<bool> {
    let permit = worker.ask(json!({"labels": {"tenant": tenant}, "mode": "allow"})).await;
    if permit["status"] != "granted" {
        return None;
    }
    let answer = http().get(format!("{}/process?tenant={tenant}", upstream.url())).send().await.unwrap();
    let status = answer.status().as_u16();
    let told = answer.headers().iter().filter(|(name, _)| speaks_of_limits(name.as_str()));
    let headers: BTreeMap<&str, &str> = told.map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
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
