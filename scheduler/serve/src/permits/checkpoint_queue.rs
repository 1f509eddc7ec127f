//! Checkpoints on their way from a permit loop to the store.

use crate::permits::answers::loop_request::PendingCheckpoint;
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

    /// Notes that the store has taken or refused the checkpoint.
    pub(crate) fn note_answer(&mut self) {
        self.writing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::epoch::Epoch;
    use rampmeter_scheduler_core::durability::checkpoint::Checkpoint;
    use rampmeter_scheduler_core::durability::snapshot::Snapshot;
    use rampmeter_scheduler_core::ids::CheckpointNumber;
    use rampmeter_store::{ClockReading, RulesRevision};

    fn pending(number: u64) -> PendingCheckpoint {
        let checkpoint = Checkpoint { number: CheckpointNumber(number), state: Snapshot::default() };
        let moment = ClockReading { unix_ms: 0, boot: None };
        PendingCheckpoint {
            checkpoint,
            discovered: Vec::new(),
            epoch: Epoch::FIRST,
            moment,
            rules_revision: RulesRevision::NONE,
            named_epoch: None,
        }
    }

    #[test]
    fn one_checkpoint_is_under_way_at_a_time() {
        let (leader, mut taken) = mpsc::channel(1);
        let mut queue = CheckpointQueue::new(leader);
        let wanted = Some(Time::ORIGIN);
        assert_eq!((queue.next(None), queue.next(wanted)), (None, wanted));
        queue.push(pending(1));
        assert_eq!(queue.next(wanted), None, "it is being written");
        assert_eq!(taken.try_recv().unwrap().checkpoint.number, CheckpointNumber(1));
        assert_eq!(queue.next(wanted), None, "the store has not answered");
        queue.note_answer();
        assert_eq!(queue.next(wanted), wanted);
        drop(taken);
        queue.push(pending(2));
        assert_eq!(queue.next(wanted), wanted, "no leader has taken it");
    }
}
