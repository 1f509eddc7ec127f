//! What the rest of the process asks of a permit loop, and what the loop hands back.

use crate::limits::provider_view::ProviderNews;
use crate::permits::answers::tally::Tally;
use rampmeter_discovery::DiscoveredSnapshot;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::forecast::LimitForecast;
use rampmeter_protocol::status::Status;
use rampmeter_protocol::wall_clock::WallClockOrigin;
use rampmeter_scheduler_core::checkpoint_number::CheckpointNumber;
use rampmeter_scheduler_core::durability::checkpoint::Checkpoint;
use rampmeter_scheduler_core::views::Use;
use rampmeter_store::{ClockReading, RulesRevision};
use tokio::sync::oneshot;

/// An order to the loop. Dropping the sender of orders ends the loop.
#[derive(Debug)]
pub enum LoopRequest {
    /// Grant nothing more, send all waiting requests elsewhere, and say what a successor must know.
    /// The leader drops the sender of orders once the state is written.
    HandOver(oneshot::Sender<Handover>),
    /// The store holds this checkpoint.
    CheckpointWritten(CheckpointNumber),
    /// The standbys hold this checkpoint, while the store is silent.
    CheckpointWitnessed(CheckpointNumber),
    /// The store has refused this checkpoint because of its size.
    CheckpointRefused(CheckpointNumber),
    /// The store does not take checkpoints.
    StoreLost,
    /// Cut windows by another wall clock.
    WallClock {
        /// The wall clock.
        origin: WallClockOrigin,
        /// How far the clock of this machine is ahead of it.
        ahead_secs: f64,
    },
    /// Take what the provider of the limits says, or why it says nothing.
    Provider(ProviderNews),
    /// Go on under the rules that are known now.
    Rules,
    /// Report how things stand.
    Report(oneshot::Sender<Report>),
    /// Tell what was used since this was last asked.
    TakeUse(oneshot::Sender<Use>),
    /// Show when limits end.
    Forecasts(Vec<LimitForecast>),
}

/// The state of a loop, for the store. The loop hands out no other checkpoint before it learns what
/// became of this one.
#[derive(Clone, Debug)]
pub struct LoopState {
    /// The state of the core, with the budget of what may be granted.
    pub checkpoint: Checkpoint,
    /// The discovered limits.
    pub discovered: Vec<DiscoveredSnapshot>,
    /// The epoch.
    pub epoch: Epoch,
    /// When the state was taken.
    pub moment: ClockReading,
    /// The revision of the rules in force.
    pub rules_revision: RulesRevision,
    /// The highest epoch above ours that a client has named lately.
    pub named_epoch: Option<Epoch>,
}

impl LoopState {
    /// The present state around `checkpoint`.
    #[must_use]
    pub fn of(checkpoint: Checkpoint, discovered: Vec<DiscoveredSnapshot>, epoch: Epoch, rules: RulesRevision) -> Self {
        let moment = ClockReading::now();
        LoopState { checkpoint, discovered, epoch, moment, rules_revision: rules, named_epoch: None }
    }
}

/// How things stand.
#[derive(Clone, Debug)]
pub struct Report {
    /// The status as the protocol has it.
    pub status: Status,
    /// What was counted.
    pub tally: Tally,
    /// Permits that are remembered.
    pub remembered: usize,
    /// Calls that have started and were not settled.
    pub calls_in_flight: u64,
    /// Workers that the limits can feed, if calls have told how long they take.
    pub useful_workers: Option<f64>,
}

/// The last state of a leader.
#[derive(Debug)]
pub struct Handover {
    /// The whole state.
    pub state: LoopState,
    /// What was used and not yet reported.
    pub used: Use,
}
