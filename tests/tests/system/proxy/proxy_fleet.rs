//! Three proxies share one account. One is killed and one is stopped, again and again, under load.
//! The upstream admits not one request too many, and each program is served in the end.

use crate::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize};

const CYCLES: Cycles = Cycles { usual: 3, long: 360 };
const PROGRAMS: usize = 30;
/// The time between two faults, which therefore come at any point of a second.
const BETWEEN: std::ops::Range<Duration> = Duration::from_millis(100)..Duration::from_millis(1100);
/// How long a proxy is stopped: longer than any promise of a start lasts.
const STOPPED: Duration = Duration::from_millis(800);
/// How long a program waits before it turns to another proxy.
const IMPATIENT: Duration = Duration::from_secs(10);

/// A hundred requests a second, with a margin for pauses of a busy machine.
const API: &str = "[[resource]]\nname = \"api\"\ndialect = \"sentinel-hub\"\n\
    [[resource.limit]]\nname = \"few\"\ncapacity = 100\nperiod = \"1s\"\nmargin = 40\n";

/// The state that all programs share. A program holds the lock only while it reads a URL.
#[derive(Clone)]
struct Shared {
    urls: Arc<Mutex<[String; 3]>>,
    ends: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
}

/// Calls one proxy after the other until it is told to end. A call that fails is made again at the
/// next proxy.
async fn program(number: usize, shared: Shared) {
    let http = http();
    let mut turn = number;
    while !shared.ends.load(Ordering::Relaxed) {
        let url = shared.urls.lock().unwrap()[turn % 3].clone();
        let answered = http.get(format!("{url}/process")).timeout(IMPATIENT).send().await;
        match answered.map(|answer| answer.status().as_u16()) {
            Ok(200) => shared.served.fetch_add(1, Ordering::Relaxed),
            Ok(status) => panic!("a program got {status}"),
            Err(error) => {
                turn += 1;
                // A call that could not connect has reached no proxy, and does not count as failed.
                shared.failed.fetch_add(usize::from(!error.is_connect()), Ordering::Relaxed)
            }
        };
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "figures for people")]
async fn proxies_that_are_killed_and_stopped_admit_not_one_request_too_many() {
    let run = Run::of("proxy_fleet::proxies_that_are_killed_and_stopped_admit_not_one_request_too_many");
    let (mut dice, nats) = (run.dice(), nats::start().await);
    let _running = scheduler::start(&nats, API).await;
    let upstream = upstream(&["requests=100/1s"]).await;
    let arguments = ["--nats", nats.url(), "--resource", "api", "--upstream", &upstream.url()];
    let start = async || ProxyProcess::start(RAMPMETER, "", &arguments, &[]).await;
    let mut proxies = [start().await, start().await, start().await];
    let shared = Shared {
        urls: Arc::new(Mutex::new(proxies.each_ref().map(|proxy| proxy.url().to_owned()))),
        ends: Arc::default(),
        served: Arc::default(),
        failed: Arc::default(),
    };
    let programs: Vec<_> = (0..PROGRAMS).map(|number| tokio::spawn(program(number, shared.clone()))).collect();
    for cycle in 0..CYCLES.count() {
        let (killed, stopped) = (cycle % 3, (cycle + 1) % 3);
        let_pass(dice.span(BETWEEN), "faults come at any point").await;
        proxies[stopped].pause();
        proxies[killed].kill().await;
        let_pass(STOPPED, "promises of starts lapse meanwhile").await;
        proxies[stopped].resume();
        proxies[killed] = start().await;
        shared.urls.lock().unwrap()[killed] = proxies[killed].url().to_owned();
    }
    let_pass(dice.span(BETWEEN), "the rest of the load").await;
    shared.ends.store(true, Ordering::Relaxed);
    for ended in within("all programs are served", join_all(programs)).await {
        ended.unwrap();
    }
    let total = upstream.stats().total;
    let (served, failed) = (shared.served.load(Ordering::Relaxed), shared.failed.load(Ordering::Relaxed));
    println!("served {served}, failed once {failed}, upstream {total:?}");
    assert_eq!(total.rate_limited, 0, "seed {}", run.seed());
    assert!(served > 0 && failed <= CYCLES.count() * PROGRAMS, "{failed} of {served} calls failed");
}
