//! Schedulers hand over again and again under limits of every kind, with calls of 50 ms. The upstream
//! refuses none of them, and in the end the scheduler counts exactly the calls that were made.

use crate::prelude::*;
use rampmeter_upstream::{Preset, ResponseTime, Rule};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize};

const CYCLES: Cycles = Cycles { usual: 5, long: 200 };
/// Attempts in which every leader has to hand over.
const ATTEMPTS: usize = 3;
const CALL: Duration = Duration::from_millis(50);
const PLACES: usize = 6;
const KEYS: usize = 4;
const PLACES_OF_KEY: usize = 2;
/// They want more than the limits allow.
const WORKERS: usize = 20;
/// Calls that end between two hand-overs.
const BETWEEN: usize = 20;
/// The capacity of the limit that shows all charges, because it hardly ever refills.
const CHARGED: f64 = 2e4;

/// Half of each limit of the upstream is margin, because a busy machine bunches calls. A lost settle
/// would hold its place beyond the end of the test.
fn hub() -> String {
    format!(
        r#"
[[resource]]
name = "hub"
limit = [
    {{ name = "bucket", capacity = 400, period = "2s", margin = 200 }},
    {{ name = "fixed", algorithm = "fixed-window", capacity = 1000, period = "5s", margin = 500 }},
    {{ name = "sliding", algorithm = "sliding-window", capacity = 1000, period = "5s", margin = 500 }},
    {{ name = "in-flight", algorithm = "concurrency", capacity = {PLACES}, time_to_live = "1h" }},
    {{ name = "bucket-by-key", key = ["client"], capacity = 100, period = "2s" }},
    {{ name = "in-flight-by-key", key = ["client"], algorithm = "concurrency", capacity = {PLACES_OF_KEY}, time_to_live = "1h" }},
    {{ name = "charged", unit = "units", capacity = {CHARGED}, period = "PT8760H", margin = 0 }},
]
"#
    )
}

async fn upstream() -> Upstream {
    let policies = ["requests=400/2s", "requests=1000/5s;fixed-window", "requests=1000/5s;sliding-window"];
    let mut preset = Preset::new(policies.map(|policy| Rule::new(policy.parse().unwrap())).into());
    preset.concurrency = NonZeroUsize::new(PLACES);
    let config = Config { response_time: ResponseTime::fixed(CALL), ..Config::of(preset) };
    Upstream::start(config).await.unwrap()
}

/// What all workers have done so far.
#[derive(Default)]
struct Made {
    stop: AtomicBool,
    calls: AtomicUsize,
    units: AtomicUsize,
    throttled: AtomicUsize,
}

/// Makes calls until the end. Each is charged two units: one call in five takes only one of them, and
/// one permit in five is given back.
async fn calls(hub: Resource, api: Api, number: usize, made: Arc<Made>) {
    let key = (number % KEYS).to_string();
    for turn in number.. {
        if made.stop.load(Ordering::Relaxed) {
            return;
        }
        let cost = Cost::requests(1).and("units", 2);
        let permit = hub.acquire(cost).label("client", &key).await.unwrap();
        if turn % 5 == 0 {
            continue;
        }
        let call = permit.begin();
        let outcome = api.call(&BTreeMap::new()).await.unwrap();
        made.throttled.fetch_add(usize::from(outcome.is_throttled()), Ordering::Relaxed);
        let units = if turn % 5 == 1 { 1 } else { 2 };
        call.settle(outcome.cost(Cost::requests(1).and("units", units as f64)));
        made.units.fetch_add(units, Ordering::Relaxed);
        made.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many calls of each key may start at once.
async fn free_by_key(worker: &Worker) -> Vec<usize> {
    let mut free = Vec::new();
    for key in 0..KEYS {
        let ask = json!({"mode": "allow", "labels": {"client": key.to_string()}, "cost": {"requests": 1}});
        let answers = worker.ask(Value::Array(vec![ask; PLACES_OF_KEY + 1])).await;
        let granted: Vec<_> =
            answers.as_array().unwrap().iter().filter(|answer| answer["status"] == "granted").collect();
        let back = granted.iter().map(|answer| json!({"id": answer["id"], "used": false}));
        worker.settle(Value::Array(back.collect())).await;
        free.push(granted.len());
    }
    free
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_limits_of_every_kind() {
    Run::of("hand_overs::under_limits_of_every_kind").tell();
    for _ in 0..ATTEMPTS {
        if hand_overs().await {
            return;
        }
    }
    panic!("a standby took over without a hand-over in each of {ATTEMPTS} attempts");
}

/// Hands over and counts. Returns false if a standby took over from a leader that the machine had
/// stopped for a while: then some places are held until their leases end.
async fn hand_overs() -> bool {
    let (nats, upstream) = (nats::start().await, upstream().await);
    let configuration = scheduler::configuration(nats.url(), &hub());
    let mut pair = Pair::start(RAMPMETER, [&configuration; 2]).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let (hub, api, made) = (client.resource("hub").unwrap(), Api::new(&upstream), Arc::<Made>::default());
    let workers = (0..WORKERS).map(|number| tokio::spawn(calls(hub.clone(), api.clone(), number, Arc::clone(&made))));
    let workers: Vec<_> = workers.collect();
    for cycle in 1..=CYCLES.count() {
        until("calls end", async || (made.calls.load(Ordering::Relaxed) >= cycle * BETWEEN).then_some(())).await;
        let leader = pair.leader().await;
        let process = pair.process_mut(leader);
        process.terminate();
        assert!(process.ended().await.success(), "{}", process.log());
        process.restart();
    }
    made.stop.store(true, Ordering::Relaxed);
    within("all calls end", join_all(workers)).await.into_iter().for_each(Result::unwrap);
    client.close().await;

    assert_eq!(made.throttled.load(Ordering::Relaxed), 0, "the upstream refused calls");
    if pair.was_replaced() {
        return false;
    }
    let worker = Worker::connect(&nats, "hub").await;
    let level = async |name: &str| {
        let limits = worker.status_of_leader().await.limits;
        limits.iter().find(|limit| &*limit.name == name).unwrap().level
    };
    until("the last settles arrive", async || (level("in-flight").await == PLACES as f64).then_some(())).await;
    let charged = CHARGED - level("charged").await;
    assert_eq!(charged.round(), made.units.load(Ordering::Relaxed) as f64, "no charge is lost, and no refund");
    // A key gets its first budget with the next checkpoint.
    let all_free = async || (free_by_key(&worker).await == [PLACES_OF_KEY; KEYS]).then_some(());
    until("every key has its places", all_free).await;
    true
}
