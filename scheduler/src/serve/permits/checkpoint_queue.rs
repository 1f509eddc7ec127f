//! Checkpoints on their way from a permit loop to the store.

use crate::serve::permits::order::PendingCheckpoint;
use rampmeter_protocol::time::Time;
use tokio::sync::mpsc;

/// Hands checkpoints to the leader, which writes them.
///
/// At most one checkpoint is under way: the next one is handed out after the answer to the last.
#[derive(Debug)]
pub(crate) struct CheckpointQueue {
    leader: mpsc::Sender<PendingCheckpoint>,
    writing: bool,
}

impl CheckpointQueue {
    pub(crate) fn new(leader: mpsc::Sender<PendingCheckpoint>) -> Self {
        CheckpointQueue { leader, writing: false }
    }

    /// When the next checkpoint can be handed out, if the core wants one at `wanted`.
    pub(crate) fn next(&self, wanted: Option<Time>) -> Option<Time> {
        wanted.filter(|_| !self.writing)
    }

    /// Hands a checkpoint out.
    pub(crate) fn push(&mut self, pending: PendingCheckpoint) {
        self.writing = self.leader.try_send(pending).is_ok();
    }

    /// The store has taken the checkpoint.
    pub(crate) fn note_written(&mut self) {
        self.writing = false;
    }
}
