//! A budget in money, while clients leave in the middle of answers, and proxies, schedulers and NATS are
//! killed: what the vendor bills never exceeds it.

use crate::prelude::*;
use rampmeter_tests::vendor::Vendor;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const CLIENTS: usize = 64;
const CYCLES: Cycles = Cycles { usual: 6, long: 120 };
/// The time between two faults: ten minutes for all of a long run.
const BETWEEN: std::ops::Range<Duration> = Duration::from_millis(300)..Duration::from_secs(9);
const USUAL_BETWEEN: std::ops::Range<Duration> = Duration::from_millis(300)..Duration::from_millis(900);
/// How long each part of an answer takes: so long that the budget lasts for the whole run.
const PART: Duration = Duration::from_millis(20);
const LONG_PART: Duration = Duration::from_millis(900);
/// Of so many of a hundred answers a client reads the beginning alone.
const LEAVES: u64 = 10;

fn budget(dollars: f64) -> String {
    format!(
        "[[resource]]\nname = \"hub\"\ndialect = \"openai\"\nstart = \"full\"\n\
         [[resource.limit]]\nname = \"budget\"\nunit = \"usd\"\nalgorithm = \"quota\"\nresets = \"never\"\n\
         capacity = {dollars}\n"
    )
}

#[derive(Clone)]
struct Shared {
    urls: Arc<Mutex<[String; 2]>>,
    ends: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
}

/// Calls as often as it may, until it is refused.
async fn client(number: usize, shared: Shared, mut dice: Rng) {
    let http = http();
    let body = json!({
        "model": "gpt-4o", "max_tokens": 200, "stream": true,
        "messages": [{ "role": "user", "content": "a".repeat(50) }],
    });
    let mut turn = number;
    while !shared.ends.load(Ordering::Relaxed) {
        let url = shared.urls.lock().unwrap()[turn % 2].clone();
        let calling = http.post(format!("{url}/v1/chat/completions")).body(body.to_string()).send();
        let Ok(answer) = calling.await else {
            turn += 1;
            let_pass(Duration::from_millis(20), "the proxy starts again").await;
            continue;
        };
        match answer.status().as_u16() {
            200 if dice.chance(LEAVES) => drop(answer),
            200 => drop(answer.bytes().await),
            429 | 403 => {
                shared.refused.fetch_add(1, Ordering::Relaxed);
                return;
            }
            _ => turn += 1,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "figures for people")]
async fn a_vendor_bills_no_more_than_the_budget_whatever_dies() {
    let run = Run::of("budget::a_vendor_bills_no_more_than_the_budget_whatever_dies");
    run.tell();
    let (dollars, part, between) = if is_long() { (10.0, LONG_PART, BETWEEN) } else { (2.0, PART, USUAL_BETWEEN) };
    let (mut dice, mut nats) = (run.dice(), nats::start().await);
    let vendor = Vendor::start(part).await;
    let resources = budget(dollars);
    let configuration = scheduler::configuration(nats.url(), &resources);
    let mut pair = Pair::start(RAMPMETER, [&configuration; 2]).await;
    let of_proxy = format!("{resources}[[proxy]]\nmax_wait = \"20s\"\n");
    let arguments = ["--nats", nats.url(), "--upstream", vendor.url()].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let start = async || ProxyProcess::start(RAMPMETER, &of_proxy, &arguments, &[]).await;
    let mut proxies = [start().await, start().await];
    let shared = Shared {
        urls: Arc::new(Mutex::new(proxies.each_ref().map(|proxy| proxy.url().to_owned()))),
        ends: Arc::default(),
        refused: Arc::default(),
    };
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(number, shared.clone(), Rng::new(run.seed() + number as u64)));
    }
    for cycle in 0..CYCLES.count() {
        let_pass(dice.span(between.clone()), "faults come at any point").await;
        match cycle % 4 {
            0 | 2 => {
                let place = cycle / 2 % 2;
                proxies[place].kill().await;
                proxies[place] = start().await;
                proxies[place].url().clone_into(&mut shared.urls.lock().unwrap()[place]);
            }
            1 => {
                let leader = pair.leader().await;
                pair.process_mut(leader).kill().await;
                pair.process_mut(leader).restart();
            }
            _ => {
                nats.kill().await.unwrap();
                nats.restart().await.unwrap();
            }
        }
        assert!(vendor.billed() as f64 <= 1e6 * dollars, "{} are billed", vendor.billed());
    }
    let ending = if is_long() { Duration::from_secs(600) } else { Duration::from_secs(60) };
    tokio::time::timeout(ending, async { while clients.join_next().await.is_some() {} }).await.ok();
    shared.ends.store(true, Ordering::Relaxed);
    let (billed, calls, refused) =
        (vendor.billed() as f64 / 1e6, vendor.calls(), shared.refused.load(Ordering::Relaxed));
    println!(
        "the vendor bills {billed:.6} of {dollars} for {calls} calls; {refused} of {CLIENTS} clients were refused"
    );
    assert!(billed <= dollars, "{billed}");
    assert!(refused > 0 && billed >= 0.1 * dollars, "{billed} and {refused}");
}
