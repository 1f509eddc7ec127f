//! One client asks for all that it can get, beside a hundred quiet ones, which notice next to
//! nothing.

use crate::NOISY_CLIENT;
use crate::prelude::*;
use tokio::time::interval;

/// Three calls per second for each client, as in a web service.
const HUB: &str = r#"
[[resource]]
name = "hub"
limit = [{ name = "per-client", key = ["client"], capacity = 3, period = "1s" }]
"#;

const ROUNDS: Cycles = Cycles { usual: 1, long: 7 };
const QUIET: usize = 100;
/// Each quiet client asks twice a second, for `QUIET` seconds in each half of a round.
const ASKS: usize = 2 * 2 * QUIET;
const BETWEEN: Duration = Duration::from_millis(5);
/// Fifty thousand requests in a second; five in a usual run, to leave a small machine to other
/// tests.
const ASKS_PER_MS: Cycles = Cycles { usual: 5, long: 50 };
const MAX_OF_ALONE: f64 = 2.0;

/// Round trips of quiet clients, none of which is refused.
async fn quiet_round_trips(worker: &Worker) -> Times {
    let clock = Clock::start();
    let (mut turns, mut asking) = (interval(BETWEEN), JoinSet::new());
    for number in 0..ASKS {
        turns.tick().await;
        let (worker, client) = (worker.clone(), format!("quiet-{}", number % QUIET));
        asking.spawn(async move {
            let asked = clock.now();
            let answer = worker.ask(json!({ "mode": "wait", "labels": { "client": client } })).await;
            (answer, clock.now().since(asked))
        });
    }
    let mut times = Times::default();
    for (answer, took) in asking.join_all().await {
        assert_eq!(answer["status"], "granted", "{answer}");
        times.add(took);
    }
    times
}

/// A client that asks all the time, in its own process so that it does not delay the measuring
/// clients.
struct Noisy {
    child: Child,
    clock: Clock,
}

impl Noisy {
    fn start(nats: &str, subject: &str) -> Self {
        let mut command = Command::new(NOISY_CLIENT);
        command.args([nats, subject, &ASKS_PER_MS.count().to_string()]).kill_on_drop(true);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Noisy { child, clock: Clock::start() }
    }

    /// Ends it, and returns how often it asked per second.
    async fn end(mut self) -> f64 {
        drop(self.child.stdin.take());
        let output = within("the noisy client ends", self.child.wait_with_output()).await.unwrap();
        let asked: f64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        asked / self.clock.now().since(Clock::START).secs()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "what was measured, with --nocapture")]
async fn one_noisy_beside_a_hundred_quiet() {
    let nats = nats::start().await;
    let scheduler = Process::start(RAMPMETER, &nats, HUB).await;
    let quiet = Worker::connect(&nats, "hub").await;
    quiet_round_trips(&quiet).await;
    let mut ratios = Vec::new();
    for round in 1..=ROUNDS.count() {
        let alone = quiet_round_trips(&quiet).await;
        let noisy = Noisy::start(nats.url(), &quiet.subject("permit"));
        let beside = quiet_round_trips(&quiet).await;
        let rate = noisy.end().await;
        let p99 = |times: &Times| times.quantile(99).unwrap_or(Span::ZERO).millis();
        println!(
            "round {round}: alone {alone}, beside {rate:.0} asks/s {beside}; p99 {:.2} and {:.2} ms",
            p99(&alone),
            p99(&beside)
        );
        ratios.push(p99(&beside) / p99(&alone));
    }
    ratios.sort_by(f64::total_cmp);
    println!("p99 beside the noisy one to that alone: {ratios:.2?}");
    assert!(!is_long() || ratios[ratios.len() / 2] <= MAX_OF_ALONE, "{ratios:.2?}");
    scheduler.stop().await;
}
