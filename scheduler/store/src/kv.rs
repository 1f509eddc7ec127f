//! Reads and writes the records of resources.

use super::bucket::{self, OpenError, StoreError, is_missing, unavailable, within};
use super::envelope::{self, RecordError};
use super::record::StateRecord;
use super::state_keys::StateKeys;
use async_nats::jetstream::kv::{self, Entry, Operation};
use async_nats::jetstream::{self, stream::StorageType};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use rampmeter_nats::servers::PRIVATE;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;
use rampmeter_scheduler_core::durability::snapshot::PermitSnapshot;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Bound on the permits that a record remembers. Further permits stay paid, but can't be returned.
pub const MAX_PERMITS: usize = 250_000;
/// Bound on the bytes of permits in one value, unless a single permit is longer.
const PART_BYTES: usize = 256 << 10;
/// Bound on the values of one resource's permits: 128 MiB of a snapshot, all but the last at least half full.
const MAX_PARTS: usize = 1024;
/// The part of a server's `max_payload` that the headers of a write may take.
const HEADERS_BYTES: usize = 1024;
/// Parts written or read concurrently, to keep a hand-over short.
pub(super) const PARTS_AT_ONCE: usize = 16;
/// Values kept for each key: the present one, and one to fall back to.
const HISTORY: i64 = 2;
const STATE_KEYS: &str = "state.";
/// The key that is written and read back for the store's time.
pub const CLOCK_KEY: &str = "clock";
/// Bound on the readings of the store's clock, of which the one with the shortest round trip counts.
const CLOCK_TRIES: usize = 4;
/// Resources that are taken over together share one reading of the clock.
const SAME_READING: Span = Span::from_millis(100);
/// A round trip that is short enough: a small part of the distance of starts from the ends of windows.
const SHORT_ROUND_TRIP: Span = Span::from_millis(5);

/// The KV bucket with the state of all resources.
#[derive(Clone, Debug)]
pub struct Store {
    client: async_nats::Client,
    pub(super) bucket: kv::Store,
    /// The last reading of the store's clock, and when it was made. Locked while reading, because concurrent
    /// readings of this process would push each other's values out of the store.
    clock: Arc<Mutex<Option<(Time, WallClockOrigin)>>>,
    keys: StateKeys,
}

/// The revision of a resource's state record; 0 if there never was one.
pub type Revision = u64;

/// The stored state of a resource.
#[derive(Debug)]
pub struct StoredEntry {
    /// The revision for the next write.
    pub revision: Revision,
    /// The state.
    pub state: StoredState,
}

/// The state of a resource, if it can be read.
#[derive(Debug)]
pub enum StoredState {
    /// The store never had a record.
    Nothing,
    /// A record.
    Record(Box<StateRecord>),
    /// A record that can't be used, with the record before it if that one can.
    Damaged(RecordError, Option<Box<StateRecord>>),
    /// A record in the format of a later build.
    Newer(u32),
}

impl Store {
    /// Opens the bucket called `prefix`, and creates it if needed. Waits for servers that are not ready.
    ///
    /// # Errors
    /// If `JetStream` is off, or the bucket can't be created.
    pub async fn open(client: &async_nats::Client, prefix: &Name, replicas: usize) -> Result<Self, OpenError> {
        let config = kv::Config {
            bucket: prefix.to_string(),
            description: "state of Rampmeter's resources".to_owned(),
            history: HISTORY,
            storage: StorageType::File,
            num_replicas: replicas,
            ..kv::Config::default()
        };
        let bucket = bucket::wait_for(&jetstream::new(client.clone()), &config).await?;
        Ok(Store { client: client.clone(), bucket, clock: Arc::default(), keys: StateKeys::default() })
    }

    /// Returns the store with keys that sign and verify its values.
    #[must_use]
    pub fn with_keys(self, keys: StateKeys) -> Self {
        Store { keys, ..self }
    }

    /// Opens the bucket called `prefix`, if it exists.
    ///
    /// # Errors
    /// If `JetStream` is off, or does not answer.
    pub async fn existing(client: &async_nats::Client, prefix: &Name) -> Result<Option<Self>, StoreError> {
        let bucket = bucket::existing(&jetstream::new(client.clone()), prefix).await?;
        let keys = StateKeys::default();
        Ok(bucket.map(|bucket| Store { client: client.clone(), bucket, clock: Arc::default(), keys }))
    }

    /// Returns the server that holds the bucket: its id, which changes with every start, or for a private server
    /// its name, which it keeps over a clean stop. `None` in a cluster, whose servers share their data.
    #[must_use]
    pub fn server(&self) -> Option<String> {
        let info = self.client.server_info();
        let is_private = info.server_name.starts_with(PRIVATE);
        info.cluster.is_none().then_some(if is_private { info.server_name } else { info.server_id })
    }

    /// Returns why nothing can be written, if the server reports the bucket as missing.
    pub async fn trouble(client: &async_nats::Client, prefix: &Name) -> Option<String> {
        let missing = is_missing(&jetstream::new(client.clone()), prefix).await;
        missing.then(|| format!("the KV bucket `{prefix}` is gone; `rampmeter state init` makes a new one"))
    }

    /// Returns the resources that have a record.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn resources(&self) -> Result<Vec<Name>, StoreError> {
        let mut names: Vec<Name> =
            self.keys(STATE_KEYS).await?.iter().filter_map(|name| Name::new(name).ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the rest of each key that begins with `prefix`.
    pub(super) async fn keys(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let keys: Vec<String> = within(self.bucket.keys()).await?.try_collect().await.map_err(unavailable)?;
        Ok(keys.iter().filter_map(|key| key.strip_prefix(prefix)).map(str::to_owned).collect())
    }

    /// Reads the state of `resource`.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn read(&self, resource: &Name) -> Result<StoredEntry, StoreError> {
        let entry = within(self.bucket.entry(state_key(resource))).await?;
        let Some(entry) = entry else { return Ok(StoredEntry { revision: 0, state: StoredState::Nothing }) };
        let state = match self.parse(&entry) {
            Ok(record) => StoredState::Record(Box::new(record)),
            Err(RecordError::Newer(version)) => StoredState::Newer(version),
            Err(damage) => StoredState::Damaged(damage, self.record_before(&entry).await),
        };
        Ok(StoredEntry { revision: entry.revision, state })
    }

    /// Watches the record of `resource`, beginning with the present one.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn watch(&self, resource: &Name) -> Result<kv::Watch, StoreError> {
        within(self.bucket.watch_with_history(state_key(resource))).await
    }

    /// Writes the record if the stored one still has `revision`.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another record was written, [`StoreError::TooLarge`] if this one is too large.
    pub async fn write(
        &self,
        resource: &Name,
        state: &StateRecord,
        revision: Revision,
    ) -> Result<Revision, StoreError> {
        let value = self.sealed(resource, state);
        self.check_size(&value)?;
        bucket::update(&self.bucket, &state_key(resource), value, revision).await
    }

    /// Encodes a record for another scheduler, as it would be stored.
    #[must_use]
    pub fn sealed(&self, resource: &Name, state: &StateRecord) -> Vec<u8> {
        self.seal(&state_key(resource), state.format(), state)
    }

    /// Decodes a record that another scheduler has [sealed](Store::sealed).
    ///
    /// # Errors
    /// If the value is damaged, or no scheduler has written it.
    pub fn unsealed(&self, resource: &Name, value: &[u8]) -> Result<StateRecord, RecordError> {
        self.unseal(&state_key(resource), value)
    }

    /// Returns the age of the record at `revision`, by the store's clock.
    ///
    /// # Errors
    /// If the store can't be read or written.
    pub async fn age(&self, resource: &Name, revision: Revision) -> Result<Span, StoreError> {
        let entry = within(self.bucket.entry_for_revision(state_key(resource), revision)).await?;
        let now = within(self.bucket.put(CLOCK_KEY, "".into())).await?;
        let now = within(self.bucket.entry_for_revision(CLOCK_KEY, now)).await?;
        let (Some(entry), Some(now)) = (entry, now) else { return Ok(Span::ZERO) };
        let nanos = (now.created - entry.created).whole_nanoseconds();
        Ok(Span::from_nanos(u64::try_from(nanos).unwrap_or(0)))
    }

    /// Returns the store's wall clock at the origin of `clock`, within half the shortest of several round trips.
    ///
    /// # Errors
    /// If the store can't be read or written.
    pub async fn wall_clock_origin(&self, clock: Clock) -> Result<WallClockOrigin, StoreError> {
        let mut last = self.clock.lock().await;
        let read = match *last {
            Some((at, read)) if clock.now().since(at) <= SAME_READING => return Ok(read),
            Some(_) | None => self.read_clock(clock).await?,
        };
        *last = Some((clock.now(), read));
        Ok(read)
    }

    async fn read_clock(&self, clock: Clock) -> Result<WallClockOrigin, StoreError> {
        let mut best: Option<(Span, WallClockOrigin)> = None;
        for _ in 0..CLOCK_TRIES {
            let asked = clock.now();
            let revision = within(self.bucket.put(CLOCK_KEY, "".into())).await?;
            let took = clock.now().since(asked);
            let entry = within(self.bucket.entry_for_revision(CLOCK_KEY, revision)).await?;
            // So many other schedulers may have read the clock meanwhile that this entry is gone.
            let Some(entry) = entry else { continue };
            let unix = u64::try_from(entry.created.unix_timestamp_nanos()).unwrap_or(0);
            let middle = asked + Span::from_nanos(took.nanos() / 2);
            best = best.into_iter().chain([(took, WallClockOrigin::of(middle, unix))]).min();
            if took <= SHORT_ROUND_TRIP {
                break;
            }
        }
        best.map(|(_, wall_clock)| wall_clock).ok_or_else(|| unavailable("its clock can't be read"))
    }

    /// Writes the first remembered permits, all if possible. Returns the number of values, for the next record.
    ///
    /// # Errors
    /// If the store can't be written.
    pub async fn write_permits(
        &self,
        resource: &Name,
        epoch: Epoch,
        permits: &[PermitSnapshot],
    ) -> Result<usize, StoreError> {
        // An epoch and brackets come on top of the permits.
        let most = PART_BYTES.min(self.max_value().saturating_sub(HEADERS_BYTES));
        let (mut rest, mut writes) = (permits, Vec::new());
        while !rest.is_empty() && writes.len() < MAX_PARTS {
            let (part, others) = rest.split_at(fitting(rest, most));
            let index = writes.len();
            // Each part is encoded when its turn comes: encoding or measuring all at once would delay other tasks.
            let key = permits_key(resource, index);
            let write = async move {
                let value = self.seal(&key, envelope::FIRST, &(epoch, part));
                within(self.bucket.put(key, value.into())).await
            };
            writes.push(write.boxed());
            rest = others;
            tokio::task::yield_now().await;
        }
        let count = writes.len();
        stream::iter(writes).buffer_unordered(PARTS_AT_ONCE).try_collect::<Vec<_>>().await?;
        Ok(count)
    }

    /// Reads the permits that `state` remembers. The permits of a missing or damaged part stay paid.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn read_permits(&self, resource: &Name, state: &StateRecord) -> Result<Vec<PermitSnapshot>, StoreError> {
        let mut reads = Vec::new();
        for index in 0..state.permit_parts.min(MAX_PARTS) {
            reads.push(self.read_part(permits_key(resource, index), state.epoch).boxed());
        }
        stream::iter(reads).buffered(PARTS_AT_ONCE).try_concat().await
    }

    async fn read_part(&self, key: String, of_epoch: Epoch) -> Result<Vec<PermitSnapshot>, StoreError> {
        let value = within(self.bucket.get(&key)).await?;
        let part = value.and_then(|value| self.unseal::<(Epoch, Vec<PermitSnapshot>)>(&key, &value).ok());
        Ok(part.filter(|(epoch, _)| *epoch == of_epoch).map(|(_, part)| part).unwrap_or_default())
    }

    /// Fails if the server accepts no value of this size.
    pub(super) fn check_size(&self, value: &[u8]) -> Result<(), StoreError> {
        if value.len() <= self.max_value() { Ok(()) } else { Err(StoreError::TooLarge(value.len())) }
    }

    /// Returns the longest value that the server accepts, in bytes.
    fn max_value(&self) -> usize {
        self.client.server_info().max_payload.saturating_sub(HEADERS_BYTES)
    }

    /// Decodes the record in an entry.
    ///
    /// # Errors
    /// If there is no record, or it can't be used.
    pub fn parse(&self, entry: &Entry) -> Result<StateRecord, RecordError> {
        match entry.operation {
            Operation::Put => self.unseal(&entry.key, &entry.value),
            Operation::Delete | Operation::Purge => Err(RecordError::Deleted),
        }
    }

    pub(super) fn seal(&self, key: &str, version: u32, record: &impl Serialize) -> Vec<u8> {
        envelope::seal(&self.keys, &self.name_of(key), version, &content(record))
    }

    pub(super) fn unseal<T: DeserializeOwned>(&self, key: &str, value: &[u8]) -> Result<T, RecordError> {
        from_content(envelope::open(&self.keys, &self.name_of(key), value)?)
    }

    /// Returns the name under which a value is signed. It includes the bucket, so that no value counts in another.
    fn name_of(&self, key: &str) -> String {
        format!("{}.{key}", self.bucket.name)
    }

    /// Returns the last readable record of the key before `entry`.
    async fn record_before(&self, entry: &Entry) -> Option<Box<StateRecord>> {
        let mut history = within(self.bucket.history(&entry.key)).await.ok()?;
        let mut before = None;
        while let Some(Ok(older)) = history.next().await {
            if older.revision < entry.revision {
                before = self.parse(&older).ok().map(Box::new).or(before);
            }
        }
        before
    }
}

/// Returns how many of the first permits fit into one value of `most` bytes: at least one, if there is any.
fn fitting(permits: &[PermitSnapshot], most: usize) -> usize {
    let mut left = most;
    let fits = |permit: &&PermitSnapshot| left.checked_sub(content(permit).len() + 1).map(|rest| left = rest).is_some();
    permits.iter().take_while(fits).count().clamp(1, permits.len())
}

fn state_key(resource: &Name) -> String {
    format!("{STATE_KEYS}{resource}")
}

fn permits_key(resource: &Name, part: usize) -> String {
    format!("permits.{resource}.{part}")
}

pub(super) fn encode(record: &impl Serialize) -> Vec<u8> {
    envelope::seal(&StateKeys::default(), "", envelope::FIRST, &content(record))
}

fn content(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("records are plain data")
}

/// Decodes the content of a stored value without checking its signature.
///
/// # Errors
/// If the value is damaged, or was written by a newer build.
pub fn decode<T: DeserializeOwned>(value: &[u8]) -> Result<T, RecordError> {
    from_content(envelope::open(&StateKeys::default(), "", value)?)
}

fn from_content<T: DeserializeOwned>(content: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(content).map_err(|error| RecordError::Content(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::id::PermitId;
    use rampmeter_scheduler_core::durability::snapshot::{Fate, Offset};

    /// A permit with a key of this many control characters, which take six bytes each.
    fn permit(controls: usize) -> PermitSnapshot {
        let name = |name| Name::new(name).unwrap();
        PermitSnapshot {
            id: PermitId::new("a").unwrap(),
            start: Offset::ZERO,
            class: name("default"),
            client: None,
            bill: Vec::new(),
            keyed: vec![(name("each"), "\u{1}".repeat(controls), 1)],
            held_until: Vec::new(),
            fate: Fate::Open,
        }
    }

    /// Reaches `kv::PART_BYTES`.
    #[test]
    fn permits_are_cut_by_their_bytes() {
        for (controls, count) in [(0, 2_818), (4096, 10), (50_000, 1)] {
            let permits = vec![permit(controls); 3_000];
            let part = &permits[..fitting(&permits, PART_BYTES)];
            assert_eq!(part.len(), count, "{controls}");
            let next = content(&permits[..count + 1].to_vec()).len();
            assert!(content(&part).len() <= PART_BYTES + 1 || count == 1);
            assert!(next > PART_BYTES, "{controls}: another one would have had room");
        }
        // The 128 MiB of a snapshot have room in values that are half full.
        const { assert!(MAX_PARTS * PART_BYTES / 2 >= 128 << 20) };
    }
}
