//! The KV bucket with the rules of all resources in one value, so that one write changes all or none.

use super::bucket::{self, OpenError, StoreError, within};
use async_nats::jetstream::kv::{self, Entry, Operation};
use async_nats::jetstream::{self, stream::StorageType};
use futures::StreamExt;
use rampmeter_protocol::name::Name;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of editions kept. If the latest is invalid, the last valid one before it counts.
const HISTORY: i64 = 64;
/// The key of the editions that people write.
const RULES_KEY: &str = "rules";
/// The key of the schedulers' copy of the edition in force, which outlives any number of invalid editions.
const COPY_KEY: &str = "counts";
/// The prefix of the copy's first line, before the revision. A deletion has no text after it.
const COPY_PREFIX: &str = "# revision ";

/// The editions of the rules.
#[derive(Clone, Debug)]
pub struct RuleStore {
    bucket: kv::Store,
}

/// The revision of an edition of the rules, which grows with every edition in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RulesRevision(u64);

impl RulesRevision {
    /// No rules.
    pub const NONE: RulesRevision = RulesRevision(0);

    /// Creates the revision with this number in the store; 0 means none.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        RulesRevision(number)
    }

    /// Returns the number in the store and in messages.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns whether there are no rules.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for RulesRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One edition of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edition {
    /// Its revision.
    pub revision: RulesRevision,
    /// The text; `None` if the rules were deleted.
    pub text: Option<Vec<u8>>,
}

impl RuleStore {
    /// Opens the bucket of this prefix, and creates it if needed.
    ///
    /// # Errors
    /// If `JetStream` is off or does not answer, or the bucket can't be created.
    pub async fn open(client: &async_nats::Client, prefix: &Name, replicas: usize) -> Result<Self, OpenError> {
        let config = kv::Config {
            bucket: bucket_name(prefix),
            description: "limits of Rampmeter's resources, applied while schedulers run".to_owned(),
            history: HISTORY,
            storage: StorageType::File,
            num_replicas: replicas,
            ..kv::Config::default()
        };
        Ok(RuleStore { bucket: bucket::open(&jetstream::new(client.clone()), &config).await? })
    }

    /// Opens the bucket of this prefix, if it exists.
    ///
    /// # Errors
    /// If `JetStream` is off, or does not answer.
    pub async fn existing(client: &async_nats::Client, prefix: &Name) -> Result<Option<Self>, StoreError> {
        let bucket = bucket::existing(&jetstream::new(client.clone()), &bucket_name(prefix)).await?;
        Ok(bucket.map(|bucket| RuleStore { bucket }))
    }

    /// Opens the bucket of this prefix. If needed, it is created with as many replicas as the state's bucket.
    ///
    /// # Errors
    /// See [`open`](RuleStore::open).
    pub async fn open_beside_state(client: &async_nats::Client, prefix: &Name) -> Result<Self, OpenError> {
        if let Some(existing) = Self::existing(client, prefix).await? {
            return Ok(existing);
        }
        let state = within(jetstream::new(client.clone()).get_stream(format!("KV_{prefix}"))).await;
        Self::open(client, prefix, state.map_or(1, |stream| stream.cached_info().config.num_replicas)).await
    }

    /// Returns all kept editions, the latest first, always with the last one [in force](RuleStore::keep).
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn editions(&self) -> Result<Vec<Edition>, StoreError> {
        let latest = within(self.bucket.entry(RULES_KEY)).await?;
        let Some(latest) = latest else { return Ok(Vec::new()) };
        let mut history = within(self.bucket.history(RULES_KEY)).await?;
        let mut editions = vec![Edition::from(latest)];
        while let Some(entry) = within(async { history.next().await.transpose() }).await? {
            editions.push(Edition::from(entry));
        }
        let latest = editions[0].revision;
        editions.extend(self.kept().await?.filter(|kept| kept.revision < latest));
        editions.sort_by_key(|edition| std::cmp::Reverse(edition.revision));
        editions.dedup_by_key(|edition| edition.revision);
        Ok(editions)
    }

    /// Keeps a copy of the edition in force, so that any number of invalid editions may follow it.
    ///
    /// # Errors
    /// If the store can't be written.
    pub async fn keep(&self, edition: &Edition) -> Result<(), StoreError> {
        if self.kept().await?.is_some_and(|kept| kept.revision >= edition.revision) {
            return Ok(());
        }
        let copy = match &edition.text {
            Some(text) => [format!("{COPY_PREFIX}{}\n", edition.revision).as_bytes(), text].concat(),
            None => format!("{COPY_PREFIX}{}", edition.revision).into_bytes(),
        };
        within(self.bucket.put(COPY_KEY, copy.into())).await.map(drop)
    }

    async fn kept(&self) -> Result<Option<Edition>, StoreError> {
        let copy = within(self.bucket.get(COPY_KEY)).await?;
        let copy = copy.and_then(|copy| String::from_utf8(copy.to_vec()).ok());
        Ok(copy.and_then(|copy| {
            let copy = copy.strip_prefix(COPY_PREFIX)?;
            let (revision, text) =
                copy.split_once('\n').map_or((copy, None), |(revision, text)| (revision, Some(text)));
            let revision = RulesRevision::new(revision.parse().ok()?);
            Some(Edition { revision, text: text.map(|text| text.as_bytes().to_vec()) })
        }))
    }

    /// Watches the editions, beginning with the present one.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn watch(&self) -> Result<kv::Watch, StoreError> {
        within(self.bucket.watch_with_history(RULES_KEY)).await
    }

    /// Deletes all rules if no edition was written since `revision`, and returns the deletion's revision.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another edition was written, or if the store does not take it.
    pub async fn delete(&self, revision: RulesRevision) -> Result<RulesRevision, StoreError> {
        let deleted = within(self.bucket.delete_expect_revision(RULES_KEY, Some(revision.get()))).await;
        let latest = within(self.bucket.entry(RULES_KEY)).await?.map(|entry| RulesRevision::new(entry.revision));
        match (deleted, latest) {
            (Ok(()), Some(revision)) => Ok(revision),
            (Err(_), Some(latest)) if latest != revision => Err(StoreError::Superseded),
            (Ok(()), None) => Ok(revision),
            (Err(error), _) => Err(error),
        }
    }

    /// Writes another edition if none was written since `revision`.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another edition was written.
    pub async fn write(&self, text: &str, revision: RulesRevision) -> Result<RulesRevision, StoreError> {
        let written = bucket::update(&self.bucket, RULES_KEY, text.into(), revision.get()).await;
        written.map(RulesRevision::new)
    }
}

impl From<Entry> for Edition {
    fn from(entry: Entry) -> Self {
        let text = match entry.operation {
            Operation::Put => Some(entry.value.to_vec()),
            Operation::Delete | Operation::Purge => None,
        };
        Edition { revision: RulesRevision::new(entry.revision), text }
    }
}

fn bucket_name(prefix: &Name) -> String {
    format!("{prefix}-rules")
}
