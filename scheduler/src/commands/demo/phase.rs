//! One of the two phases.

use super::figures::Figures;
use super::fleet::Fleet;
use super::observation::Observation;
use super::progress::{Progress, View};
use super::waits::Waits;
use super::worker::Manner;
use super::{Options, scenario};
use anyhow::Context;
use rampmeter_upstream::Upstream;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The interval of the upstream's snapshots.
const TICK: Duration = Duration::from_millis(200);

/// A phase with its name and options.
#[derive(Clone, Copy)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) options: Options,
}

impl Phase {
    /// Runs the phase against an upstream of its own.
    pub(super) async fn run(self, manners: &[Manner], progress: &mut Progress) -> anyhow::Result<Figures> {
        progress.say(self.name);
        let upstream = Upstream::start(scenario::upstream(self.options.seed)?).await?;
        let waits = Arc::new(Waits::new());
        let mut observation = Observation::new(upstream.stats());
        let mut fleet = Fleet::start(self.options, &upstream.url(), manners, &waits);
        let watching = self.watch(&upstream, &waits, &mut observation, progress);
        tokio::select! {
            error = fleet.failed() => return Err(error).with_context(|| format!("a worker failed ({})", self.name)),
            ended = timeout(self.length(), watching) => drop(ended),
        }
        // The phase ends before the workers stop, so the last snapshot is taken now.
        observation.add(upstream.stats());
        let figures = figures(&observation, &waits);
        fleet.stop().await;
        upstream.stop().await;
        Ok(figures)
    }

    fn length(self) -> Duration {
        Duration::from_secs(self.options.seconds)
    }

    /// Takes snapshots and shows progress. Never returns.
    async fn watch(self, upstream: &Upstream, waits: &Waits, observation: &mut Observation, progress: &mut Progress) {
        let mut ticks = interval(TICK);
        // A late snapshot delays the next one too: two in quick succession would not show a burst.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let now = upstream.stats();
            let elapsed = now.uptime;
            observation.add(now);
            let figures = figures(observation, waits);
            progress.show(&View { phase: self.name, elapsed, length: self.length(), figures });
        }
    }
}

fn figures(observation: &Observation, waits: &Waits) -> Figures {
    let total = observation.total();
    Figures {
        sent: total.sent(),
        ok: total.ok,
        rate_limited: total.rate_limited,
        utilisation: observation.utilisation(),
        wait_ms: waits.percentiles(),
    }
}
