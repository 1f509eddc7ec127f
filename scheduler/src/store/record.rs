//! The stored form of records. It is separate from the core's types, so that each can change alone.

use super::clock_reading::ClockReading;
use super::discovered_record::DiscoveredRecord;
use super::envelope;
use super::learned::{LearnedRecord, StatedRecord};
use super::page_record::{PageRecord, StoredPages};
use super::permit_record::PermitRecord;
use super::rows::{CostRow, DebitRow, FreezeRow, KeyRow, OtherKeysRow, RateRow, UsedKeyRow};
use super::rules::RulesRevision;
use super::usage_record::UsageRecord;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_scheduler_core::durability::snapshot::{
    CountedUsage, KeySnapshot, KeysSnapshot, LevelSnapshot, Offset, Snapshot,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The state of a resource. Everything that its writer may still grant counts as spent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Grows with every change of leader.
    pub epoch: Epoch,
    /// The scheduler that wrote the record.
    pub leader: String,
    /// A random number for each term. After a power loss a revision can occur twice, and the nonce
    /// tells the terms apart.
    pub nonce: u64,
    /// The number of this checkpoint within the term.
    #[serde(rename = "mark")]
    pub checkpoint: u64,
    /// Whether the writer has stopped granting, so that any scheduler may take over.
    pub released: bool,
    /// The scheduler that takes over first, if the writer knows one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub successor: Option<String>,
    /// The time of the writing.
    pub saved: ClockReading,
    /// The number of values with remembered permits. They count only with the epoch of this record.
    pub permit_parts: usize,
    /// The buckets of limits without keys.
    pub levels: Vec<LevelRecord>,
    /// The buckets of keys.
    #[serde(skip_serializing_if = "KeysRecord::is_empty", default)]
    pub keys: KeysRecord,
    /// Frozen limits and spent quotas.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub freezes: Vec<FreezeRow>,
    /// Learned factors of costs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub costs: Vec<CostRow>,
    /// Unwritten limits that were found.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub found: Vec<DiscoveredRecord>,
    /// The revision of the rules in force at the writing.
    #[serde(rename = "rules", skip_serializing_if = "RulesRevision::is_none", default)]
    pub rules_revision: RulesRevision,
    /// The server that held the store at the writing, by an id that changes with every start.
    /// Unknown in a cluster.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<String>,
}

/// The buckets of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysRecord {
    listed: Vec<KeyRow>,
    /// The usage of listed keys, for limits that are no token buckets.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    taken: Vec<UsedKeyRow>,
    /// For limits whose used keys are all known: the state of each key that is not listed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    known: Vec<OtherKeysRow>,
    /// The time in nanoseconds after the writing at which all other keys are empty. Without it they
    /// are full.
    others_empty_in: Option<i64>,
    /// The rates by which levels of keys rise.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    rates: Vec<RateRow>,
    /// The pages with further known keys.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pages: Vec<PageRecord>,
}

/// The listed key of a limit that has the least left.
#[derive(Clone, Copy, Debug)]
pub struct FullestKey<'a> {
    /// The limit.
    pub limit: &'a Name,
    /// The key.
    pub key: &'a str,
    /// The level of its bucket, in millionths.
    pub micros: i64,
    /// How many keys of the limit are listed.
    pub listed: usize,
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelRecord {
    limit: Name,
    /// In millionths, after all promised permits and all that may still be granted are paid.
    micros: i64,
    /// What may still be granted, in millionths.
    budget: u64,
    /// Pending debits for promised permits.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    withheld: Vec<DebitRow>,
    /// The usage, if the limit is no token bucket.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    taken: Option<UsageRecord>,
    /// What was learned about the upstream's side of this limit, if anything.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    learned: Option<LearnedRecord>,
    /// The capacity that the upstream states, if that is less than what is written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    stated: Option<StatedRecord>,
}

impl StateRecord {
    /// The pages that this record names.
    pub(super) fn pages(&self) -> &[PageRecord] {
        &self.keys.pages
    }

    /// The version of the record's format.
    pub(super) fn format(&self) -> u32 {
        if self.keys.pages.is_empty() { envelope::FIRST } else { envelope::WITH_PAGES }
    }

    /// The core's snapshot of this record, with these permits and the keys of these pages.
    #[must_use]
    pub fn snapshot(&self, permits: &[PermitRecord], pages: StoredPages) -> Snapshot {
        let levels = self.levels.iter().map(|level| level.snapshot(i128::from(level.micros)));
        Snapshot {
            levels: levels.collect(),
            keys: self.keys.snapshot(pages),
            freezes: self.freezes.iter().map(FreezeRow::snapshot).collect(),
            costs: self.costs.iter().map(CostRow::factor).collect(),
            found: self.found.iter().filter_map(DiscoveredRecord::snapshot).collect(),
            permits: permits.iter().map(PermitRecord::snapshot).collect(),
            new_pages: Vec::new(),
        }
    }

    /// A snapshot for a successor that has lost later records. It keeps debts and drops stock. The
    /// budget of this record counts as spent a second time, because the lost records may have
    /// granted as much.
    #[must_use]
    pub fn cautious_snapshot(&self, pages: StoredPages) -> Snapshot {
        let level = |level: &LevelRecord| {
            let snapshot = level.snapshot(i128::from(level.micros).min(0) - i128::from(level.budget));
            LevelSnapshot { usage: snapshot.usage.map(doubted), ..snapshot }
        };
        Snapshot {
            levels: self.levels.iter().map(level).collect(),
            keys: self.keys.cautious(pages),
            freezes: self.freezes.iter().map(FreezeRow::snapshot).collect(),
            costs: self.costs.iter().map(CostRow::factor).collect(),
            found: self.found.iter().filter_map(DiscoveredRecord::snapshot).collect(),
            permits: Vec::new(),
            new_pages: Vec::new(),
        }
    }
}

impl KeysRecord {
    /// The stored form of the buckets of keys.
    #[must_use]
    pub fn of(snapshots: &KeysSnapshot) -> Self {
        let listed = |KeySnapshot { limit, key, micros, .. }: &KeySnapshot| KeyRow {
            limit: limit.clone(),
            key: key.clone(),
            micros: saturated(*micros),
        };
        let taken = |KeySnapshot { limit, key, usage, .. }: &KeySnapshot| {
            let usage = UsageRecord::of(usage.as_ref()?);
            Some(UsedKeyRow { limit: limit.clone(), key: key.clone(), usage })
        };
        let known = |others: &LevelSnapshot| OtherKeysRow {
            limit: others.limit.clone(),
            micros: saturated(others.micros),
            usage: others.usage.as_ref().map(UsageRecord::of),
        };
        KeysRecord {
            listed: snapshots.listed.iter().map(listed).collect(),
            taken: snapshots.listed.iter().filter_map(taken).collect(),
            known: snapshots.known.iter().map(known).collect(),
            others_empty_in: snapshots.others_empty_in.map(Offset::nanos),
            rates: snapshots.rates.iter().map(RateRow::of).collect(),
            pages: snapshots.pages.iter().map(PageRecord::of).collect(),
        }
    }

    /// The stored form of the keys of a page.
    pub(super) fn listing(keys: &[KeySnapshot]) -> Self {
        KeysRecord::of(&KeysSnapshot { listed: keys.to_vec(), ..KeysSnapshot::default() })
    }

    /// The fullest listed key of each limit.
    #[must_use]
    pub fn fullest(&self) -> Vec<FullestKey<'_>> {
        let mut fullest: BTreeMap<&Name, FullestKey<'_>> = BTreeMap::new();
        for KeyRow { limit, key, micros } in &self.listed {
            let found = fullest.entry(limit).or_insert(FullestKey { limit, key, micros: *micros, listed: 0 });
            found.listed += 1;
            if *micros < found.micros {
                (found.key, found.micros) = (key, *micros);
            }
        }
        fullest.into_values().collect()
    }

    /// The keys that are listed.
    pub(super) fn listed_keys(&self) -> Vec<KeySnapshot> {
        self.snapshot(StoredPages::new()).listed
    }

    fn is_empty(&self) -> bool {
        *self == KeysRecord::default()
    }

    /// A snapshot that keeps debts and drops stock.
    fn cautious(&self, pages: StoredPages) -> KeysSnapshot {
        let mut snapshots = self.snapshot(pages);
        let on_pages = snapshots.pages.iter_mut().flat_map(|page| &mut page.keys).flatten();
        for snapshot in snapshots.listed.iter_mut().chain(on_pages) {
            (snapshot.micros, snapshot.usage) = (snapshot.micros.min(0), snapshot.usage.take().map(doubted));
        }
        let empty = snapshots.others_empty_in.map_or(Offset::ZERO, |empty| empty.max(Offset::ZERO));
        KeysSnapshot { known: Vec::new(), others_empty_in: Some(empty), ..snapshots }
    }

    fn snapshot(&self, pages: StoredPages) -> KeysSnapshot {
        let keys = pages.into_iter().chain(std::iter::repeat(None));
        let taken: BTreeMap<(&Name, &str), &UsageRecord> =
            self.taken.iter().map(|row| ((&row.limit, row.key.as_str()), &row.usage)).collect();
        let snapshot = |KeyRow { limit, key, micros }: &KeyRow| KeySnapshot {
            limit: limit.clone(),
            key: key.clone(),
            micros: i128::from(*micros),
            usage: taken.get(&(limit, key.as_str())).map(|taken| taken.usage()),
        };
        let known = |OtherKeysRow { limit, micros, usage }: &OtherKeysRow| LevelSnapshot {
            limit: limit.clone(),
            micros: i128::from(*micros),
            usage: usage.as_ref().map(UsageRecord::usage),
            learned: None,
            stated: None,
            pending_debits: Vec::new(),
        };
        KeysSnapshot {
            listed: self.listed.iter().map(snapshot).collect(),
            known: self.known.iter().map(known).collect(),
            others_empty_in: self.others_empty_in.map(Offset::from_nanos),
            rates: self.rates.iter().filter_map(RateRow::rate).collect(),
            pages: self.pages.iter().zip(keys).map(|(page, keys)| page.page(keys)).collect(),
        }
    }
}

/// The same usage, with the note that an unknown leader may have used more.
fn doubted(usage: CountedUsage) -> CountedUsage {
    CountedUsage { doubted: true, ..usage }
}

/// The level in 64 bits. A level below that range becomes the lowest one.
fn saturated(micros: i128) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MIN)
}

impl LevelRecord {
    /// Its limit.
    #[must_use]
    pub fn limit(&self) -> &Name {
        &self.limit
    }

    /// The level that a successor begins with, in millionths.
    #[must_use]
    pub fn micros(&self) -> i64 {
        self.micros
    }

    /// What the writer may still grant, in millionths. The level is lower by this amount.
    #[must_use]
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// The stored form of the core's levels. `budget` is what may still be granted, by limit.
    #[must_use]
    pub fn all_of(snapshots: &[LevelSnapshot], budget: &[u64]) -> Vec<Self> {
        let budget = budget.iter().copied().chain(std::iter::repeat(0));
        snapshots.iter().zip(budget).map(|(snapshot, budget)| LevelRecord::of(snapshot, budget)).collect()
    }

    fn of(snapshot: &LevelSnapshot, budget: u64) -> Self {
        LevelRecord {
            limit: snapshot.limit.clone(),
            micros: saturated(snapshot.micros),
            budget,
            withheld: snapshot.pending_debits.iter().map(DebitRow::from).collect(),
            taken: snapshot.usage.as_ref().map(UsageRecord::of),
            learned: snapshot.learned.as_ref().map(LearnedRecord::of),
            stated: snapshot.stated.as_ref().map(StatedRecord::of),
        }
    }

    fn snapshot(&self, micros: i128) -> LevelSnapshot {
        let usage = self.taken.as_ref().map(UsageRecord::usage);
        let learned = self.learned.as_ref().and_then(LearnedRecord::snapshot);
        let stated = self.stated.as_ref().and_then(StatedRecord::snapshot);
        let pending_debits = self.withheld.iter().map(DebitRow::snapshot).collect();
        LevelSnapshot { limit: self.limit.clone(), micros, usage, learned, stated, pending_debits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::clock_reading::BootTime;

    fn cost_row() -> CostRow {
        CostRow { kind: "/a|PUT".to_owned(), unit: Name::new("units").unwrap(), millionths: 500_000, calls: 7 }
    }

    /// A damaged or old record leaves a successor its debts and what was learned, and no stock.
    #[test]
    fn a_successor_without_stock_has_learned_as_much() {
        let level = r#"{"limit":"per-minute","micros":9000000,"budget":300000,"learned":{"unit":"requests","algorithm":"token-bucket","capacity":40000000,"period":2000000000,"loss":250000,"estimated":3,"kept_back":0,"stock":7500000,"burst":0}}"#;
        let level: LevelRecord = serde_json::from_str(level).unwrap();
        let saved = ClockReading { unix_ms: 0, boot: None };
        let (leader, keys) = (String::new(), KeysRecord::default());
        let state = StateRecord {
            epoch: Epoch::FIRST,
            leader,
            nonce: 0,
            checkpoint: 1,
            released: false,
            successor: None,
            saved,
            permit_parts: 0,
            levels: vec![level],
            keys,
            freezes: Vec::new(),
            costs: vec![cost_row()],
            found: Vec::new(),
            rules_revision: RulesRevision::NONE,
            server: None,
        };
        let [whole, cautious] = [state.snapshot(&[], StoredPages::new()), state.cautious_snapshot(StoredPages::new())]
            .map(|snapshot| snapshot.levels[0].clone());
        assert_eq!((whole.micros, cautious.micros), (9_000_000, -300_000));
        assert_eq!(whole.learned.as_ref().map(|learned| learned.loss_ppm), Some(250_000));
        assert_eq!(cautious.learned, whole.learned);
        assert_eq!(state.cautious_snapshot(StoredPages::new()).costs, state.snapshot(&[], StoredPages::new()).costs);
    }

    #[test]
    fn the_format_stays_as_it_is() {
        let name = |name: &str| Name::new(name).unwrap();
        let state = StateRecord {
            epoch: Epoch::new(7),
            leader: "host-1-2f".to_owned(),
            nonce: 99,
            checkpoint: 3,
            released: false,
            successor: None,
            saved: ClockReading { unix_ms: 1_795_000_000_000, boot: Some(BootTime { id: "b".to_owned(), ms: 5 }) },
            permit_parts: 1,
            levels: vec![LevelRecord {
                limit: name("per-minute"),
                micros: -12_500_000,
                budget: 300_000,
                withheld: vec![DebitRow { ends: 5_000_000_000, micros: 2_000_000 }],
                taken: None,
                learned: None,
                stated: None,
            }],
            keys: KeysRecord {
                listed: vec![KeyRow { limit: name("per-client"), key: "team-a".to_owned(), micros: -3_000_000 }],
                taken: Vec::new(),
                known: vec![OtherKeysRow { limit: name("per-day"), micros: 5_000_000, usage: None }],
                others_empty_in: Some(2_500_000_000),
                rates: vec![RateRow {
                    limit: name("per-client"),
                    capacity_micros: 1_000_000,
                    period_nanos: 2_000_000_000,
                }],
                pages: Vec::new(),
            },
            freezes: vec![
                FreezeRow { limit: name("per-minute"), key: None, ends: 1_500_000_000, spent: false, ordered: true },
                FreezeRow {
                    limit: name("per-client"),
                    key: Some("team-a".to_owned()),
                    ends: 2_000_000_000,
                    spent: true,
                    ordered: false,
                },
            ],
            costs: vec![cost_row()],
            found: Vec::new(),
            rules_revision: RulesRevision::new(12),
            server: Some("NDGM".to_owned()),
        };
        let golden = r#"{"epoch":7,"leader":"host-1-2f","nonce":99,"mark":3,"released":false,"saved":{"unix_ms":1795000000000,"boot":{"id":"b","ms":5}},"permit_parts":1,"levels":[{"limit":"per-minute","micros":-12500000,"budget":300000,"withheld":[[5000000000,2000000]]}],"keys":{"listed":[["per-client","team-a",-3000000]],"known":[["per-day",5000000,null]],"others_empty_in":2500000000,"rates":[["per-client",1000000,2000000000]]},"freezes":[["per-minute",null,1500000000,false,true],["per-client","team-a",2000000000,true,false]],"costs":[["/a|PUT","units",500000,7]],"rules":12,"server":"NDGM"}"#;
        assert_eq!(serde_json::to_string(&state).unwrap(), golden);
        assert_eq!(serde_json::from_str::<StateRecord>(golden).unwrap(), state);
        let earlier = golden.replace("false,true],", "false],").replace("true,false]]", "true]]");
        let unordered = FreezeRow { ordered: false, ..state.freezes[0].clone() };
        assert_eq!(
            serde_json::from_str::<StateRecord>(&earlier).unwrap().freezes,
            [unordered, state.freezes[1].clone()]
        );
    }
}
