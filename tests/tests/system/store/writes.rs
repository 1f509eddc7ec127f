//! Checkpoints are written ahead of need, a few times a second, at any rate of permits.

use crate::prelude::*;
/// The most writes that are promised for each resource.
const MAX_WRITES_PER_SECOND: f64 = 5.0;
/// New keys of a long limit wait for the store, at most 20 ms.
const MAX_WRITES_FOR_KEYS: f64 = 50.0;
/// The time before writes are counted. Budgets grow with the first permits; until then there are
/// more writes.
const AT_FIRST: Span = Span::from_secs(2);
const TIME: Span = Span::from_secs(2);
/// The median of this many stretches counts. After a stall of the machine budgets grow again, with
/// more writes in that stretch.
const STRETCHES: usize = 3;
/// The writes that a stretch may have in excess: one at either end.
const ENDS: f64 = 2.0;

/// An answer that has not come within this time is taken for lost.
const LOST: Duration = Duration::from_secs(2);

/// Asks repeatedly for a while, and returns how many seconds it was.
async fn ask_for(time: Span, worker: &Worker, next: &mut impl FnMut() -> Value) -> f64 {
    let clock = Clock::start();
    while clock.now().since(Clock::START) < time {
        // A leader that paused keeps the answers that it was about to send.
        let _elapsed = tokio::time::timeout(LOST, worker.ask(next())).await;
    }
    clock.now().since(Clock::START).secs()
}

/// Asks with arrays of `at_once` in this mode.
async fn check(capacity: u64, period: &str, mode: &str, at_once: usize, most_granted: f64) {
    let limit = format!("capacity = {capacity}\nperiod = \"{period}\"\n");
    let next = || Value::Array(vec![json!({"mode": mode}); at_once]);
    check_asks(&limit, next, most_granted, MAX_WRITES_PER_SECOND).await;
}

/// Asks this way for a while, and checks the grants and the writes per second.
async fn check_asks(limit: &str, mut next: impl FnMut() -> Value, most_granted: f64, most_writes: f64) {
    let nats = nats::start().await;
    let resource = format!("[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"few\"\n{limit}");
    let _running = scheduler::start(&nats, &resource).await;
    let worker = Worker::connect(&nats, "hub").await;
    ask_for(AT_FIRST, &worker, &mut next).await;
    let mut stretches = Vec::new();
    for _ in 0..STRETCHES {
        let before = nats::writes(&nats).await;
        let secs = ask_for(TIME, &worker, &mut next).await;
        stretches.push(((nats::writes(&nats).await - before) as f64, secs));
    }
    let granted = worker.status().await.counters.granted as f64;
    stretches.sort_by(|(a, a_secs), (b, b_secs)| (a / a_secs).total_cmp(&(b / b_secs)));
    let (writes, secs) = stretches[STRETCHES / 2];
    assert!(writes <= most_writes * secs + ENDS, "{writes} writes in {secs} s for {granted} permits");
    assert!(writes >= secs, "a standby is to see that its leader lives: {writes} in {secs} s");
    assert!(granted > 0.0 && granted <= most_granted, "{granted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_limit_that_is_saturated() {
    check(50, "1s", "allow", 10, 550.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_resource_whose_permits_reach_ever_farther() {
    check(1000, "1s", "reserve", 64, f64::MAX).await;
}

/// Each key has to be in a checkpoint before its first grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_resource_with_ever_new_keys() {
    let mut client = 0;
    let next = || {
        client += 1;
        json!({"mode": "allow", "labels": {"client": client.to_string()}})
    };
    check_asks("capacity = 10\nperiod = \"1h\"\nkey = [\"client\"]\n", next, f64::MAX, MAX_WRITES_FOR_KEYS).await;
}
