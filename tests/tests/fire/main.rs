//! Fire drills: schedulers, servers, the network and the store fail under load, and not one token
//! too many is admitted.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

/// Declares a drill for each name: what its run does.
macro_rules! drills {
    ($module:literal $($(#[$about:meta])* $name:ident($run:ident): $drill:expr;)*) => {
        $($(#[$about])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let $run = Run::of(concat!($module, "::", stringify!($name)));
            $drill.await;
        })*
    };
}

mod budget;
mod cluster;
mod hand_overs;
mod hostile;
mod jobs;
mod kills;
mod lossy;
mod nats;
mod neighbour;
mod partitions;
mod places;
mod rate;
mod rolling;
mod stalls;
mod store;
mod windows;

/// The program, as it ships.
const RAMPMETER: &str = env!("CARGO_BIN_EXE_rampmeter-under-test");
/// A worker that runs jobs.
const JOBS_WORKER: &str = env!("CARGO_BIN_EXE_jobs-worker");
const NOISY_CLIENT: &str = env!("CARGO_BIN_EXE_noisy-client");

use prelude::*;

/// Two schedulers beside a NATS server, and a drill whose load is on them.
async fn pair_under_load(run: Run) -> (Server, Pair, Drill) {
    let nats = rampmeter_tests::nats::start().await;
    let configuration = scheduler::configuration(nats.url(), &audited_hub());
    let pair = Pair::start(RAMPMETER, [&configuration; 2]).await;
    let drill = Drill::begin(run, plan(nats.url())).await;
    (nats, pair, drill)
}

/// What most of these tests use.
mod prelude {
    pub(crate) use crate::{RAMPMETER, pair_under_load};
    pub(crate) use rampmeter_tests::drill::{Report, plan};
    pub(crate) use rampmeter_tests::prelude::*;
}
