//! Reads and writes the pages of keys that a record names.

use super::bucket::{StoreError, within};
use super::envelope::FIRST;
use super::kv::{PARTS_AT_ONCE, Store};
use super::record::{KeysRecord, StateRecord, StoredPages};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_scheduler_core::durability::snapshot::{KeyPageId, KeySnapshot, NewPage};

impl Store {
    /// Writes pages, which count once a record names them. One that is too large is left out, and counts as lost.
    ///
    /// # Errors
    /// If the store can't be written.
    pub async fn write_pages(&self, resource: &Name, pages: &[NewPage]) -> Result<(), StoreError> {
        let mut writes = Vec::with_capacity(pages.len());
        for NewPage { id, keys } in pages {
            let key = page_key(resource, *id);
            let value = self.seal(&key, FIRST, &(id.serial, KeysRecord::listing(keys)));
            if let Err(error) = self.check_size(&value) {
                tracing::error!(%resource, %error, "a page of keys is not written; its limits' keys may start empty");
                continue;
            }
            writes.push(within(self.bucket.put(key, value.into())).boxed());
        }
        stream::iter(writes).buffer_unordered(PARTS_AT_ONCE).try_collect::<Vec<_>>().await.map(drop)
    }

    /// Reads the pages that `state` names.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn read_pages(&self, resource: &Name, state: &StateRecord) -> Result<StoredPages, StoreError> {
        let mut reads = Vec::new();
        for page in state.pages() {
            reads.push(self.read_page(resource, page.id).boxed());
        }
        stream::iter(reads).buffered(PARTS_AT_ONCE).try_collect().await
    }

    async fn read_page(&self, resource: &Name, id: KeyPageId) -> Result<Option<Vec<KeySnapshot>>, StoreError> {
        let key = page_key(resource, id);
        let value = within(self.bucket.get(&key)).await?;
        let page = value.and_then(|value| self.unseal::<(u64, KeysRecord)>(&key, &value).ok());
        let page = page.filter(|(serial, _)| *serial == id.serial).map(|(_, keys)| keys.listed_keys());
        if page.is_none() {
            tracing::error!(%resource, page = key, "a page of keys is missing or damaged; its limits' keys start empty");
        }
        Ok(page)
    }

    /// Deletes the pages of former terms that `state`, the first record of this term, does not name.
    ///
    /// # Errors
    /// If the store can't be read or written.
    pub async fn delete_pages_of_former_terms(&self, resource: &Name, state: &StateRecord) -> Result<(), StoreError> {
        let named: Vec<String> = state.pages().iter().map(|page| page_key(resource, page.id)).collect();
        let prefix = page_prefix(resource);
        let is_former = |page: &String| {
            let epoch = page.split('.').next().and_then(|epoch| epoch.parse::<u64>().ok());
            epoch.is_some_and(|epoch| Epoch::new(epoch) < state.epoch)
        };
        let former = self.keys(&prefix).await?.into_iter().filter(is_former);
        for key in former.map(|page| format!("{prefix}{page}")).filter(|key| !named.contains(key)) {
            within(self.bucket.purge(key)).await?;
        }
        Ok(())
    }
}

fn page_key(resource: &Name, id: KeyPageId) -> String {
    format!("{}{}.{}", page_prefix(resource), id.epoch, id.address)
}

fn page_prefix(resource: &Name) -> String {
    format!("pages.{resource}.")
}
