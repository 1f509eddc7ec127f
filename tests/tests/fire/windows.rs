//! The leader changes between schedulers whose clocks differ much. No window of the upstream
//! exceeds its capacity.

use crate::prelude::*;
use async_nats::Message;
use rampmeter_protocol::clock::wall_clock_origin;
use rampmeter_protocol::wall_clock::WallClockOrigin;
use tokio::sync::watch;

const CYCLES: Cycles = Cycles { usual: 12, long: 200 };
/// Kills come at any point of a window.
const BETWEEN: std::ops::Range<Duration> = Duration::from_millis(500)..Duration::from_secs(8);
/// The errors of the two clocks, in seconds.
const CLOCKS: [i64; 2] = [3, -3];
const CAPACITY: u64 = 100;
const WINDOW: Duration = Duration::from_secs(10);
/// Requests at once: they use up a window within a second.
const ASKED: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);
/// How long they ask without a break, and how long the break is.
const ASKING: std::ops::Range<Duration> = Duration::from_secs(3)..Duration::from_secs(7);
const SILENT: std::ops::Range<Duration> = Duration::from_secs(4)..Duration::from_secs(9);
/// A killed scheduler does not answer its requests.
const LOST: Duration = Duration::from_millis(500);

/// From the request to the start of the granted call.
type Granted = (Time, Time);

fn hub() -> String {
    let (capacity, seconds) = (CAPACITY, WINDOW.as_secs());
    format!(
        "[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"windows\"\nalgorithm = \"fixed-window\"\ncapacity = {capacity}\nperiod = \"{seconds}s\"\n"
    )
}

/// Asks for a while, pauses for a while, and repeats both until `stop`. If the scheduler's clock
/// differed, calls around a boundary would fall into one upstream window.
async fn ask_on(worker: Worker, clock: Clock, mut dice: Rng, stop: watch::Receiver<bool>) -> Vec<Granted> {
    let mut granted = Vec::new();
    let mut until = clock.now() + Span::from(dice.span(ASKING));
    while !*stop.borrow() {
        if until <= clock.now() {
            let_pass(dice.span(SILENT), "nobody asks for a while").await;
            until = clock.now() + Span::from(dice.span(ASKING));
        }
        let asked = clock.now();
        let many = json!(vec![json!({"mode": "allow"}); ASKED]);
        let mut answers = worker.send("permit", many.to_string()).await;
        let mut missing = ASKED;
        while missing > 0
            && let Ok(answer) = tokio::time::timeout(LOST, answers.next()).await
        {
            let some = told(&answer);
            missing = if some.is_empty() { 0 } else { missing.saturating_sub(some.len()) };
            let delays = some.iter().filter_map(|answer| answer["delay_ms"].as_f64());
            granted.extend(delays.map(|delay| (asked, clock.now() + Span::from_nanos((delay * 1e6) as u64))));
        }
        let_pass(PAUSE, "the next asks a little later").await;
    }
    granted
}

/// The answers in one message: one or several, or none for *no responders*.
fn told(answer: &Message) -> Vec<Value> {
    match serde_json::from_slice(&answer.payload) {
        Ok(Value::Array(answers)) => answers,
        Ok(answer) => vec![answer],
        Err(_) => Vec::new(),
    }
}

/// How many calls certainly started in each window of this machine's clock.
fn by_window(granted: &[Granted], wall_clock: WallClockOrigin) -> BTreeMap<u128, u64> {
    let window = |at: Time| wall_clock.unix_nanos(at) / WINDOW.as_nanos();
    let mut counts = BTreeMap::new();
    for (asked, start) in granted.iter().filter(|(asked, start)| window(*asked) == window(*start)) {
        assert!(asked <= start);
        *counts.entry(window(*start)).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_seconds_apart() {
    let run = Run::of("windows::clocks_that_are_seconds_apart");
    run.tell();
    let mut dice = run.dice();
    let nats = nats::start().await;
    let configuration = scheduler::configuration(nats.url(), &hub());
    let mut pair = Pair::start_by(CLOCKS, RAMPMETER, &configuration).await;
    let (clock, (stop, stopped)) = (Clock::start(), watch::channel(false));
    let wall_clock = wall_clock_origin(clock.now());
    let asking = tokio::spawn(ask_on(Worker::connect(&nats, "hub").await, clock, run.dice(), stopped));
    for _ in 0..CYCLES.count() {
        let_pass(dice.span(BETWEEN), "kills come at any point of a window").await;
        let leader = pair.leader().await;
        pair.process_mut(leader).kill().await;
        pair.process_mut(leader).restart();
    }
    stop.send_replace(true);
    let counts = by_window(&asking.await.unwrap(), wall_clock);
    assert!(counts.values().all(|count| *count <= CAPACITY), "{counts:?}");
    // The capacity is also used: a change of leaders costs a part of a window only.
    assert!(counts.values().any(|count| *count > CAPACITY / 2), "{counts:?}");
}
