//! Reads and writes the use of resources, one value per day.

use super::bucket::{StoreError, update, within};
use super::day_usage::StoredDayUsage;
use super::kv::{PARTS_AT_ONCE, Revision, Store, decode, encode};
use async_nats::jetstream::kv::Operation;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::civil::Date;
use rampmeter_protocol::name::Name;

impl Store {
    /// Returns the use of a day, empty if the value is missing or unreadable, and the revision for the next write.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn read_use(&self, resource: &Name, day: Date) -> Result<(StoredDayUsage, Revision), StoreError> {
        let Some(entry) = within(self.bucket.entry(use_key(resource, day))).await? else {
            return Ok(Default::default());
        };
        let is_there = entry.operation == Operation::Put;
        let used = is_there.then(|| decode(&entry.value)).transpose().unwrap_or_else(|damage| {
            tracing::error!(%resource, %day, %damage, "what was used on a day can't be read, and begins anew");
            None
        });
        Ok((used.unwrap_or_default(), entry.revision))
    }

    /// Returns the use of each of these days, in their order.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn read_uses(&self, resource: &Name, days: &[Date]) -> Result<Vec<StoredDayUsage>, StoreError> {
        let reads = days.iter().map(|day| self.read_use(resource, *day).boxed()).collect::<Vec<_>>();
        stream::iter(reads).buffered(PARTS_AT_ONCE).map_ok(|(used, _)| used).try_collect().await
    }

    /// Writes the use of a day if the stored value still has `revision`.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another scheduler has written.
    pub async fn write_use(
        &self,
        resource: &Name,
        day: Date,
        used: &StoredDayUsage,
        revision: Revision,
    ) -> Result<Revision, StoreError> {
        update(&self.bucket, &use_key(resource, day), encode(used), revision).await
    }

    /// Deletes the use of days before `oldest`.
    ///
    /// # Errors
    /// If the store can't be read or written.
    pub async fn delete_uses_before(&self, resource: &Name, oldest: Date) -> Result<(), StoreError> {
        let days = self.keys(&use_prefix(resource)).await?;
        for day in days.iter().filter_map(|day| day.parse::<Date>().ok()).filter(|day| *day < oldest) {
            within(self.bucket.purge(use_key(resource, day))).await?;
        }
        Ok(())
    }
}

fn use_key(resource: &Name, day: Date) -> String {
    format!("{}{day}", use_prefix(resource))
}

fn use_prefix(resource: &Name) -> String {
    format!("usage.{resource}.")
}
