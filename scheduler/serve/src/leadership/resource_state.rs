//! The state record of one resource, as known to this process.

use crate::context::ProcessContext;
use crate::health::ServingState;
use crate::leadership::last_seen::{LastSeenRecord, note};
use crate::leadership::standby::memory::StandbyMemory;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Time;
use rampmeter_store::{CLOCK_KEY, Revision, StateRecord, StoredState};
use std::sync::atomic::Ordering;

/// The latest record of one resource that was read or written here. An earlier record never replaces it.
#[derive(Debug)]
pub(crate) struct ResourceState {
    pub(crate) context: ProcessContext,
    pub(crate) name: Name,
    seen: Option<LastSeenRecord>,
    /// The checkpoints that this process holds for leaders.
    pub(crate) memory: StandbyMemory,
    /// The server of the store when this process first read a record.
    first_server: Option<String>,
}

impl ResourceState {
    pub(crate) fn new(context: ProcessContext, name: Name) -> Self {
        ResourceState { context, name, seen: None, memory: StandbyMemory::default(), first_server: None }
    }

    pub(crate) fn seen(&self) -> Option<&LastSeenRecord> {
        self.seen.as_ref()
    }

    pub(crate) fn now(&self) -> Time {
        self.context.clock.now()
    }

    pub(crate) fn set_duty(&self, duty: ServingState) {
        self.context.health.set(&self.name, duty);
    }

    /// Explains why the store failed: by the server's denial, if there was one, else by `error`.
    pub(crate) fn reason(&self, error: &impl ToString) -> String {
        self.context.denials.reason(&[&*self.name, CLOCK_KEY], error)
    }

    /// Returns how often the connection was made, which changes with every reconnection.
    pub(crate) fn connects(&self) -> u64 {
        self.context.client.statistics().connects.load(Ordering::Relaxed)
    }

    pub(crate) async fn look(&mut self) -> Result<(), String> {
        let found = self.context.store.read(&self.name).await.map_err(|error| error.to_string())?;
        if let StoredState::Record(record) = found.state {
            if self.seen.is_none() {
                self.first_server = self.context.store.server();
            }
            self.note(*record, found.revision);
        }
        Ok(())
    }

    /// Notes a record that was read or written. Returns whether it is later than the known one.
    pub(crate) fn note(&mut self, record: StateRecord, revision: Revision) -> bool {
        self.memory.note_stored(&record, revision);
        note(&mut self.seen, self.context.clock.now(), record, revision)
    }

    /// Returns whether the record is certainly the latest: if its server still runs, or if this process has
    /// watched the store since before the last restart. In a cluster the other servers keep the latest.
    pub(crate) fn is_latest(&self, record: &StateRecord) -> bool {
        let server = self.context.store.server();
        is_latest(server.as_deref(), record.server.as_deref(), self.first_server.as_deref())
    }
}

/// Implements [`ResourceState::is_latest`], from the server of the store now, when the record was written, and when
/// this process first read one. `server` is `None` in a cluster. A record without a server is of another one.
fn is_latest(server: Option<&str>, written: Option<&str>, first: Option<&str>) -> bool {
    server.is_none() || written == server || first != server
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_trusted_as_far_as_it_was_watched() {
        // The present server, the one at the writing, the first one of this process, and whether
        // the record is the latest.
        let table = [
            (Some("b"), Some("b"), Some("b"), true),
            (Some("b"), Some("a"), Some("b"), false),
            (Some("b"), None, Some("b"), false),
            (Some("b"), Some("a"), Some("a"), true),
            (Some("b"), None, Some("a"), true),
            // A cluster.
            (None, None, None, true),
            (None, Some("a"), None, true),
        ];
        for (server, written, first, expected) in table {
            assert_eq!(is_latest(server, written, first), expected, "{server:?} {written:?} {first:?}");
        }
    }
}
