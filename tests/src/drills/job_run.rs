//! Jobs for many Discord servers. Random kills hit worker processes and the scheduler. The workers'
//! clocks of the day are seconds apart.

use crate::fire::Run;
use crate::guilds::{Guilds, discord_by, name};
use crate::nats;
use crate::patience::let_pass;
use crate::process::{Process, Program};
use crate::wrong_clock::WrongClock;
use rampmeter_jobs::Job;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// By how many seconds each worker's clock is fast.
const CLOCKS: [i64; 3] = [0, 3, -3];
/// How many times longer than its limits and the scheduler's deaths allow a run may take.
const SLOWER_TIMES: u32 = 6;

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of servers.
    pub guilds: u32,
    /// The jobs for each.
    pub jobs: u32,
    /// The calls that each server allows in a period.
    pub capacity: u32,
    /// The period.
    pub period: Duration,
    /// The pauses between kills.
    pub pauses: (Duration, Duration),
    /// The percentage of kills that hit the scheduler. After such a kill no key gets anything for a
    /// period.
    pub schedulers: u64,
}

/// A worker process.
pub struct JobsWorker {
    command: Command,
    child: Child,
}

impl JobsWorker {
    /// Starts `program` on the queue `roles`, with these environment variables.
    pub fn start(program: Program, nats_url: &str, upstream: &Guilds, environment: &[(&str, String)]) -> Self {
        let mut command = Command::new(program);
        command.args([nats_url, "roles", upstream.url()]).envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).kill_on_drop(true);
        JobsWorker { child: command.spawn().unwrap(), command }
    }

    /// Kills it (SIGKILL), and starts another instead.
    pub async fn replace(&mut self) {
        self.kill().await;
        self.child = self.command.spawn().unwrap();
    }

    /// Kills it (SIGKILL).
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Publishes all jobs, and runs them under fire. Checks that every job is done, in order, without a
/// 429.
#[allow(clippy::print_stdout, reason = "a run tells what it measured")]
pub async fn discord_under_fire(run: &Run, program: Program, worker: Program, size: Size) {
    run.tell();
    let mut dice = run.dice();
    let nats = nats::start().await;
    // A worker that keeps to every window of this length keeps to fixed windows too.
    let resource = discord_by("sliding-window", size.capacity, size.period);
    let policy = format!("requests={}/{}ms;sliding-window", size.capacity, size.period.as_millis());
    let mut scheduler = Process::start(program, &nats, &resource).await;
    let upstream = Guilds::start_with(&policy, Duration::ZERO).await;
    let queue = crate::guilds::queue(nats.url()).await;
    for job in 0..size.jobs {
        for guild in 0..size.guilds {
            queue.publish(Job::new(name(guild), job.to_string()).id(format!("{guild}-{job}"))).await.unwrap();
        }
    }
    let clock = WrongClock::build().await;
    let mut workers = CLOCKS.map(|fast| JobsWorker::start(worker, nats.url(), &upstream, &clock.fast_by(fast)));
    let all = (size.guilds * size.jobs) as usize;
    let (mut kills, mut rounds) =
        (0, SLOWER_TIMES * size.period * size.jobs.div_ceil(size.capacity) + Duration::from_secs(60));
    while upstream.done() < all {
        let pause = dice.span(size.pauses.0..size.pauses.1);
        let_pass(pause, "kills come at any point").await;
        assert!(rounds > pause, "{} of {all} jobs are done", upstream.done());
        rounds -= pause;
        if dice.chance(size.schedulers) {
            scheduler.kill().await;
            scheduler.restart();
        } else {
            workers[kills % CLOCKS.len()].replace().await;
        }
        kills += 1;
    }
    crate::patience::until("the queue is empty", async || queue.status().await.unwrap().is_empty().then_some(())).await;
    let twice = upstream.check(size.guilds, size.jobs);
    println!("{all} jobs of {} guilds, {kills} kills: all done, in order, {twice} twice, 0 × 429", size.guilds);
}
