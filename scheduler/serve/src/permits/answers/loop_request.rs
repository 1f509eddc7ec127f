//! Requests to a permit loop from the rest of the process, and the replies.

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

/// A request to the loop. Dropping the sender ends the loop.
#[derive(Debug)]
pub enum LoopRequest {
    /// Grant nothing more, send all waiting requests elsewhere, and return the state for a successor. The
    /// leader drops the sender once that is written.
    HandOver(oneshot::Sender<Handover>),
    /// The store holds this checkpoint.
    CheckpointWritten(CheckpointNumber),
    /// The standbys hold this checkpoint, while the store is silent.
    CheckpointWitnessed(CheckpointNumber),
    /// The store has refused this checkpoint as too large.
    CheckpointRefused(CheckpointNumber),
    /// The store does not take checkpoints.
    StoreLost,
    /// Align windows with another wall clock.
    WallClock {
        /// The wall clock.
        origin: WallClockOrigin,
        /// How far this machine's clock is ahead of that clock.
        ahead_secs: f64,
    },
    /// Apply news from the provider of the limits.
    Provider(ProviderNews),
    /// Apply the rules that are known now.
    Rules,
    /// Report the status and counts.
    Report(oneshot::Sender<Report>),
    /// Return the use since the last such request.
    TakeUse(oneshot::Sender<Use>),
    /// Include these forecasts in the status.
    Forecasts(Vec<LimitForecast>),
}

/// The state of a loop, for the store. No other checkpoint is handed out before the fate of this one is known.
#[derive(Clone, Debug)]
pub struct LoopState {
    /// The state of the core, with the grant budget.
    pub checkpoint: Checkpoint,
    /// The discovered limits.
    pub discovered: Vec<DiscoveredSnapshot>,
    /// The epoch of the checkpoint.
    pub epoch: Epoch,
    /// When the state was taken.
    pub moment: ClockReading,
    /// The revision of the rules in force.
    pub rules_revision: RulesRevision,
    /// The highest epoch above ours that a client has named lately.
    pub named_epoch: Option<Epoch>,
}

impl LoopState {
    /// Creates the state around `checkpoint`, as of now.
    #[must_use]
    pub fn of(checkpoint: Checkpoint, discovered: Vec<DiscoveredSnapshot>, epoch: Epoch, rules: RulesRevision) -> Self {
        let moment = ClockReading::now();
        LoopState { checkpoint, discovered, epoch, moment, rules_revision: rules, named_epoch: None }
    }
}

/// The status and counts of a loop.
#[derive(Clone, Debug)]
pub struct Report {
    /// The status in the form of the protocol.
    pub status: Status,
    /// The counts.
    pub tally: Tally,
    /// The number of remembered permits.
    pub remembered: usize,
    /// The number of calls that have started and were not settled.
    pub calls_in_flight: u64,
    /// The number of workers that the limits can keep busy, if the duration of calls is known.
    pub useful_workers: Option<f64>,
}

/// The last state of a leader.
#[derive(Debug)]
pub struct Handover {
    /// The whole state.
    pub state: LoopState,
    /// The use that was not yet reported.
    pub used: Use,
}
