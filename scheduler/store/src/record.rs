//! The record of a resource's state: a snapshot of the core, with its writer and time.

use super::clock_reading::ClockReading;
use super::envelope;
use super::rules::RulesRevision;
use rampmeter_discovery::DiscoveredSnapshot;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_scheduler_core::durability::snapshot::{
    CountedUsage, FreezeSnapshot, KeyPage, KeySnapshot, KeysSnapshot, LevelSnapshot, Offset, OtherKeysSnapshot,
    PermitSnapshot, RateSnapshot, Snapshot, UnsettledCall,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The state of a resource. Everything that its writer may still grant counts as spent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Grows with every change of leader.
    pub epoch: Epoch,
    /// The scheduler that wrote the record.
    pub leader: String,
    /// A random number for each term, since a revision may occur twice after a power loss.
    pub nonce: u64,
    /// The number of this checkpoint within the term.
    #[serde(rename = "mark")]
    pub checkpoint: u64,
    /// Whether the writer has stopped granting, so that any scheduler may take over.
    pub released: bool,
    /// The scheduler that takes over first, if the writer knows one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub successor: Option<String>,
    /// The standbys that hold later checkpoints of this term while the store is silent.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub standbys: Vec<String>,
    /// When the record was written.
    pub saved: ClockReading,
    /// The number of values with remembered permits. They count only with the epoch of this record.
    pub permit_parts: usize,
    /// The buckets of limits without keys.
    pub levels: Vec<LevelSnapshot>,
    /// The buckets of keys.
    #[serde(skip_serializing_if = "KeysRecord::is_empty", default)]
    pub keys: KeysRecord,
    /// Frozen limits and spent quotas.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub freezes: Vec<FreezeSnapshot>,
    /// Calls of quotas that are not settled. Early records have none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unsettled: Vec<UnsettledCall>,
    /// Discovered limits.
    #[serde(rename = "found", skip_serializing_if = "Vec::is_empty", deserialize_with = "readable", default)]
    pub discovered: Vec<DiscoveredSnapshot>,
    /// The revision of the rules then in force.
    #[serde(rename = "rules", skip_serializing_if = "RulesRevision::is_none", default)]
    pub rules_revision: RulesRevision,
    /// The server that held the store then, by an id that changes with every start. `None` in a cluster.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<String>,
}

/// The buckets of keys. A key whose limit is no token bucket is in two lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysRecord {
    /// Limits, keys, and their levels in millionths, after all promised permits are paid.
    listed: Vec<(Name, String, i64)>,
    /// The usage of listed keys, for limits that are no token buckets.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    taken: Vec<(Name, String, CountedUsage)>,
    /// For limits whose used keys are all known, the state of each key that is not listed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    known: Vec<OtherKeysSnapshot>,
    /// When, after the record was written, all other keys are empty. Without it they are full.
    others_empty_in: Option<Offset>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    rates: Vec<RateSnapshot>,
    /// The pages with further known keys.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pages: Vec<KeyPage>,
}

/// The keys of each page that a record names, in its order; `None` for a missing or damaged page.
pub type StoredPages = Vec<Option<Vec<KeySnapshot>>>;

/// The listed key of a limit with the least left.
#[derive(Clone, Copy, Debug)]
pub struct FullestKey<'a> {
    /// The name of the key's limit.
    pub limit: &'a Name,
    /// The key.
    pub key: &'a str,
    /// The level of its bucket, in millionths.
    pub micros: i64,
    /// The number of listed keys of the limit.
    pub listed: usize,
}

impl StateRecord {
    pub(super) fn pages(&self) -> &[KeyPage] {
        &self.keys.pages
    }

    pub(super) fn format(&self) -> u32 {
        if self.keys.pages.is_empty() { envelope::FIRST } else { envelope::WITH_PAGES }
    }

    /// Returns the core's snapshot, with these permits and the keys of these pages.
    #[must_use]
    pub fn snapshot(&self, permits: Vec<PermitSnapshot>, pages: StoredPages) -> Snapshot {
        Snapshot {
            levels: self.levels.clone(),
            keys: self.keys.snapshot(pages),
            freezes: self.freezes.clone(),
            permits,
            unsettled: self.unsettled.clone(),
            new_pages: Vec::new(),
        }
    }

    /// Returns a snapshot for a successor that has lost later records. It keeps debts and drops stock. The budget
    /// of this record counts as spent a second time, because the lost records may have granted as much.
    #[must_use]
    pub fn cautious_snapshot(&self, pages: StoredPages) -> Snapshot {
        let mut snapshot = Snapshot { unsettled: Vec::new(), ..self.snapshot(Vec::new(), pages) };
        for level in &mut snapshot.levels {
            level.micros = level.micros.min(0).saturating_sub_unsigned(level.budget);
            level.usage.iter_mut().for_each(doubt);
        }
        let keys = &mut snapshot.keys;
        let on_pages = keys.pages.iter_mut().flat_map(|page| &mut page.keys).flatten();
        for key in keys.listed.iter_mut().chain(on_pages) {
            key.micros = key.micros.min(0);
            key.usage.iter_mut().for_each(doubt);
        }
        keys.known.clear();
        keys.others_empty_in = Some(keys.others_empty_in.map_or(Offset::ZERO, |empty| empty.max(Offset::ZERO)));
        snapshot
    }
}

/// Reads the limits that this build knows. Others may have other kinds of evidence.
fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<DiscoveredSnapshot>, D::Error> {
    let all = Vec::<serde_json::Value>::deserialize(deserializer)?;
    Ok(all.into_iter().filter_map(|limit| serde_json::from_value(limit).ok()).collect())
}

/// Marks that an unknown leader may have used more.
fn doubt(usage: &mut CountedUsage) {
    usage.doubted = true;
}

impl KeysRecord {
    /// Returns the stored form of the buckets of keys.
    #[must_use]
    pub fn of(snapshots: &KeysSnapshot) -> Self {
        let KeysSnapshot { listed, known, others_empty_in, rates, pages } = snapshots;
        KeysRecord {
            known: known.clone(),
            others_empty_in: *others_empty_in,
            rates: rates.clone(),
            pages: pages.iter().map(|page| KeyPage { keys: None, ..page.clone() }).collect(),
            ..KeysRecord::listing(listed)
        }
    }

    /// Returns the stored form of the keys of a page.
    pub(super) fn listing(keys: &[KeySnapshot]) -> Self {
        let level = |known: &KeySnapshot| (known.limit.clone(), known.key.clone(), known.micros);
        let usage = |known: &KeySnapshot| Some((known.limit.clone(), known.key.clone(), known.usage.clone()?));
        KeysRecord {
            listed: keys.iter().map(level).collect(),
            taken: keys.iter().filter_map(usage).collect(),
            ..KeysRecord::default()
        }
    }

    /// Returns the key with the least left, for each limit with listed keys.
    #[must_use]
    pub fn fullest(&self) -> Vec<FullestKey<'_>> {
        let mut fullest: BTreeMap<&Name, FullestKey<'_>> = BTreeMap::new();
        for (limit, key, micros) in &self.listed {
            let found = fullest.entry(limit).or_insert(FullestKey { limit, key, micros: *micros, listed: 0 });
            found.listed += 1;
            if *micros < found.micros {
                (found.key, found.micros) = (key, *micros);
            }
        }
        fullest.into_values().collect()
    }

    pub(super) fn listed_keys(&self) -> Vec<KeySnapshot> {
        let taken = self.taken.iter().map(|(limit, key, usage)| ((limit, key), usage));
        let taken: BTreeMap<(&Name, &String), &CountedUsage> = taken.collect();
        let snapshot = |(limit, key, micros): &(Name, String, i64)| KeySnapshot {
            limit: limit.clone(),
            key: key.clone(),
            micros: *micros,
            usage: taken.get(&(limit, key)).copied().cloned(),
        };
        self.listed.iter().map(snapshot).collect()
    }

    fn is_empty(&self) -> bool {
        *self == KeysRecord::default()
    }

    fn snapshot(&self, pages: StoredPages) -> KeysSnapshot {
        let keys = pages.into_iter().chain(std::iter::repeat(None));
        let page = |(page, keys): (&KeyPage, _)| KeyPage { keys, ..page.clone() };
        KeysSnapshot {
            listed: self.listed_keys(),
            known: self.known.clone(),
            others_empty_in: self.others_empty_in,
            rates: self.rates.clone(),
            pages: self.pages.iter().zip(keys).map(page).collect(),
        }
    }
}
