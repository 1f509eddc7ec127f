//! The nats-server dies and stays away for a while. Workers and schedulers find it again, and no
//! earlier message counts twice.

use crate::prelude::*;

const USUAL_MS: [u64; 6] = [500, 3000, 1000, 5000, 500, 2000];
const LONG_MS: [u64; 4] = [10_000, 500, 30_000, 15_000];
/// Rounds of both drills in a long run.
const LONG_ROUNDS: usize = 5;

fn outages() -> Vec<Duration> {
    let usual = USUAL_MS.into_iter();
    let all: Vec<u64> = match is_long() {
        true => (0..LONG_ROUNDS).flat_map(|_| usual.clone().chain(LONG_MS)).collect(),
        false => usual.collect(),
    };
    all.into_iter().map(Duration::from_millis).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outages_of_the_server() {
    let run = Run::of("nats::outages_of_the_server");
    let (mut nats, _pair, mut drill) = pair_under_load(run).await;
    for outage in outages() {
        nats.kill().await.unwrap();
        let_pass(outage, "the server is away for so long").await;
        nats.restart().await.unwrap();
        let listens_again = drill.now();
        let first = drill.witness().grants_after(listens_again).await;
        drill.note("first grant", first);
        drill.until_made(100).await;
    }
    let report = drill.end().await;
    report.check();
    assert!(report.longest("first grant").secs() <= 10.0, "{report}");
}
