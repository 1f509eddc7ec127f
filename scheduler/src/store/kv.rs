//! Reading and writing the records.

use super::envelope::{self, Damage};
use super::record::{PermitRecord, StateRecord};
use async_nats::jetstream::kv::{self, Operation, UpdateErrorKind};
use async_nats::jetstream::{self, stream::StorageType};
use rampmeter_protocol::name::Name;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Permits in one value: 500 bytes each at most, well below a server's 1 MiB payload.
const PERMITS_PER_PART: usize = 1000;
/// Most values with permits of one resource: 250 000 permits, the latest starts first. Those left
/// out stay paid, but can't be taken back.
const MAX_PARTS: usize = 250;
/// How long one operation may take; an election of the store's leader takes longer and is retried.
const OPERATION: Duration = Duration::from_secs(2);

/// The KV bucket with the state of all resources.
#[derive(Clone, Debug)]
pub struct Store {
    bucket: kv::Store,
}

/// The revision of a resource's state record; 0 if there never was one.
pub type Revision = u64;

/// What the store knows of a resource.
#[derive(Debug)]
pub enum Found {
    /// Nothing: it never knew it.
    Nothing(Revision),
    /// A record, and its permits.
    State(Box<StateRecord>, Vec<PermitRecord>, Revision),
    /// A record that can't be used, and why.
    Damaged(Damage, Revision),
    /// A record in the format of a later build.
    Newer(u32),
}

/// Why the store did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else has written the record: they lead the resource now.
    #[error("another scheduler has taken the resource over")]
    Superseded,
    /// The store can't be reached, or refuses.
    #[error("the KV store does not answer: {0}")]
    Unavailable(String),
}

impl Store {
    /// The bucket called `prefix`, made if it does not exist.
    ///
    /// # Errors
    /// If `JetStream` is off, or the bucket can't be made.
    pub async fn open(client: &async_nats::Client, prefix: &Name, replicas: usize) -> Result<Self, StoreError> {
        let jetstream = jetstream::new(client.clone());
        if let Ok(bucket) = jetstream.get_key_value(&**prefix).await {
            return Ok(Store { bucket });
        }
        let config = kv::Config {
            bucket: prefix.to_string(),
            description: "state of Rampmeter's resources".to_owned(),
            history: 2,
            storage: StorageType::File,
            num_replicas: replicas,
            ..kv::Config::default()
        };
        let bucket = jetstream.create_key_value(config).await.map_err(unavailable)?;
        Ok(Store { bucket })
    }

    /// What is known of `resource`.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn read(&self, resource: &Name) -> Result<Found, StoreError> {
        let entry = within(self.bucket.entry(state_key(resource))).await?;
        let Some(entry) = entry else { return Ok(Found::Nothing(0)) };
        if entry.operation != Operation::Put {
            return Ok(Found::Damaged(Damage::Foreign, entry.revision));
        }
        match decode::<StateRecord>(&entry.value) {
            Ok(state) => {
                let permits = self.read_permits(resource, &state).await?;
                Ok(Found::State(Box::new(state), permits, entry.revision))
            }
            Err(Damage::Newer(version)) => Ok(Found::Newer(version)),
            Err(damage) => Ok(Found::Damaged(damage, entry.revision)),
        }
    }

    /// Writes the record if nobody else has since `revision`.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if somebody has.
    pub async fn write(
        &self,
        resource: &Name,
        state: &StateRecord,
        revision: Revision,
    ) -> Result<Revision, StoreError> {
        let value = encode(state);
        match tokio::time::timeout(OPERATION, self.bucket.update(state_key(resource), value.into(), revision)).await {
            Ok(Ok(revision)) => Ok(revision),
            Ok(Err(error)) if error.kind() == UpdateErrorKind::WrongLastRevision => Err(StoreError::Superseded),
            Ok(Err(error)) => Err(unavailable(error)),
            Err(elapsed) => Err(unavailable(elapsed)),
        }
    }

    /// Writes remembered permits, the first of them if there are too many, and says into how many
    /// values. They count once a record names that number.
    ///
    /// # Errors
    /// If the store can't be written.
    pub async fn write_permits(
        &self,
        resource: &Name,
        epoch: u64,
        permits: &[PermitRecord],
    ) -> Result<usize, StoreError> {
        let parts = permits.chunks(PERMITS_PER_PART).take(MAX_PARTS);
        let count = parts.len();
        for (index, part) in parts.enumerate() {
            let value = encode(&(epoch, part));
            within(self.bucket.put(permits_key(resource, index), value.into())).await?;
        }
        Ok(count)
    }

    /// A part that is missing or damaged is passed over: its permits stay paid.
    async fn read_permits(&self, resource: &Name, state: &StateRecord) -> Result<Vec<PermitRecord>, StoreError> {
        let mut permits = Vec::new();
        for index in 0..state.permit_parts.min(MAX_PARTS) {
            let value = within(self.bucket.get(permits_key(resource, index))).await?;
            let part = value.and_then(|value| decode::<(u64, Vec<PermitRecord>)>(&value).ok());
            if let Some((epoch, part)) = part
                && epoch == state.epoch
            {
                permits.extend(part);
            }
        }
        Ok(permits)
    }
}

fn state_key(resource: &Name) -> String {
    format!("state.{resource}")
}

fn permits_key(resource: &Name, part: usize) -> String {
    format!("permits.{resource}.{part}")
}

fn encode(record: &impl Serialize) -> Vec<u8> {
    envelope::seal(&serde_json::to_vec(record).expect("records are plain data"))
}

fn decode<T: DeserializeOwned>(value: &[u8]) -> Result<T, Damage> {
    let content = envelope::open(value)?;
    serde_json::from_slice(content).map_err(|error| Damage::Content(error.to_string()))
}

async fn within<T, E: std::fmt::Display>(operation: impl Future<Output = Result<T, E>>) -> Result<T, StoreError> {
    match tokio::time::timeout(OPERATION, operation).await {
        Ok(done) => done.map_err(unavailable),
        Err(elapsed) => Err(unavailable(elapsed)),
    }
}

fn unavailable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
