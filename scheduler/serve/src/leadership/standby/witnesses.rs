//! The standbys listed in a leader's stored record, which hold its checkpoints.

use crate::context::ProcessContext;
use crate::leadership::last_seen::LastSeenRecord;
use crate::leadership::standby::memory::{HELD, StandbyMemory};
use futures::future::join_all;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_store::{Revision, StateRecord};
use std::collections::BTreeSet;
use std::time::Duration;

/// Bound on the standbys of a record. Each must acknowledge every checkpoint while the store is silent.
pub(crate) const MAX_STANDBYS: usize = 8;
/// How long the store has for a checkpoint before the standbys are asked. A healthy store takes milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);
/// How long a leader goes on without the store: through elections and short outages.
pub(crate) const LONGEST_RIDE: Span = Span::from_secs(40);
/// After this age of its last record, a leader grants nothing more, and what it has granted has started.
pub(crate) const CERTAINLY_OVER: Span = Span::from_secs(45);
/// How long a standby has to answer.
const ANSWER: Duration = Duration::from_millis(250);
/// The pause before standbys are asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// The standbys of the records that the store may hold.
#[derive(Clone, Debug)]
pub(crate) struct Witnesses {
    listed: BTreeSet<String>,
    /// Whether each of those records lists any. A successor asks only listed ones.
    all_list: bool,
}

/// The state from which a successor goes on.
#[derive(Debug)]
pub(crate) enum Latest {
    Stored,
    /// A later checkpoint of the same term.
    Held(Box<LastSeenRecord>),
    /// No standby of the record answers. A leader may have gone on with them.
    Unknown,
}

impl Witnesses {
    /// Notes the standbys of a record that is about to be written.
    pub(crate) fn note_written(&mut self, record: &StateRecord) {
        self.listed.extend(record.standbys.iter().cloned());
        self.all_list &= !record.standbys.is_empty();
    }

    /// Returns the standbys of the only record that the store may hold.
    pub(crate) fn of(record: &StateRecord) -> Self {
        Witnesses { listed: record.standbys.iter().cloned().collect(), all_list: !record.standbys.is_empty() }
    }

    /// Returns once all standbys hold the checkpoint `record`. Never returns if a record lists none.
    pub(crate) async fn hold(&self, context: &ProcessContext, resource: &Name, record: &StateRecord) {
        if !self.all_list {
            std::future::pending::<()>().await;
        }
        let value = context.store.sealed(resource, record);
        loop {
            let asks = self.listed.iter().map(|standby| ask(context, resource, standby, value.clone()));
            if join_all(asks).await.iter().all(|answer| answer.as_deref() == Some(HELD)) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Seals the memories of the standbys in a record, either of this process or of those that answer. Returns the
/// state from which a successor that writes over `revision` goes on.
pub(crate) async fn latest(
    context: &ProcessContext,
    resource: &Name,
    own: &StandbyMemory,
    record: &StateRecord,
    revision: Revision,
) -> Latest {
    let held = own.seal(revision);
    if record.released || record.standbys.is_empty() {
        return Latest::Stored;
    }
    if record.standbys.contains(&context.leader) {
        return later(record, held);
    }
    let asks = record.standbys.iter().take(MAX_STANDBYS);
    let answers = join_all(asks.map(|standby| ask(context, resource, standby, revision.to_string().into()))).await;
    let mut answers = answers.into_iter().flatten().peekable();
    if answers.peek().is_none() {
        return Latest::Unknown;
    }
    let now = context.clock.now();
    let records = answers.filter_map(|value| context.store.unsealed(resource, &value).ok());
    let last = records.max_by_key(|held| (held.nonce == record.nonce, held.checkpoint));
    later(record, last.map(|record| LastSeenRecord { record, revision: 0, since: now, led_since: now }))
}

/// Returns what was held, if it is a later checkpoint of the term that wrote `record`.
fn later(record: &StateRecord, held: Option<LastSeenRecord>) -> Latest {
    let is_later =
        |held: &LastSeenRecord| held.record.nonce == record.nonce && held.record.checkpoint > record.checkpoint;
    held.filter(is_later).map_or(Latest::Stored, |held| Latest::Held(Box::new(held)))
}

async fn ask(context: &ProcessContext, resource: &Name, standby: &str, payload: Vec<u8>) -> Option<Vec<u8>> {
    let asked = context.client.request(context.subjects.witness(resource, standby), payload.into());
    let answer = tokio::time::timeout(ANSWER, asked).await.ok()?.ok()?;
    Some(answer.payload.to_vec())
}
