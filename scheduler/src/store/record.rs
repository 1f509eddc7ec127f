//! The stored form of records. It is separate from the core's types, so that each can change alone.

use super::envelope;
use super::learned::{LearnedRecord, StatedRecord, ToldRecord};
use super::moment::Moment;
use super::page_record::{PageRecord, StoredPages};
use super::permit_record::PermitRecord;
use rampmeter_protocol::name::Name;
use rampmeter_scheduler_core::durability::snapshot::{
    CostFactor, DebitSnapshot, FreezeSnapshot, KeySnapshot, KeysSnapshot, LevelSnapshot, Snapshot, Usage, UsageSpan,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The state of a resource. Everything that its writer may still grant counts as spent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Grows with every change of leader.
    pub epoch: u64,
    /// The scheduler that wrote the record.
    pub leader: String,
    /// A random number for each term. After a power loss a revision can occur twice, and the nonce
    /// tells the terms apart.
    pub nonce: u64,
    /// The number of this checkpoint within the term.
    #[serde(rename = "mark")]
    pub checkpoint: u64,
    /// Whether its writer has stopped granting, so that any scheduler may take over.
    pub released: bool,
    /// The scheduler that takes over first, if the writer knows one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub successor: Option<String>,
    /// The time of the writing.
    pub saved: Moment,
    /// The number of values with remembered permits. They count only with the epoch of this record.
    pub permit_parts: usize,
    /// The buckets of limits without keys.
    pub levels: Vec<LevelRecord>,
    /// The buckets of keys.
    #[serde(skip_serializing_if = "KeysRecord::is_empty", default)]
    pub keys: KeysRecord,
    /// Frozen limits: limit, key, end in nanoseconds after the writing, and whether a quota is
    /// spent.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub freezes: Vec<(Name, Option<String>, u64, bool)>,
    /// Learned factors of costs: kind of call, unit, factor in millionths, and calls.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub costs: Vec<CostRecord>,
    /// The edition of the rules that counted at the writing; 0 if there were none.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub rules: u64,
    /// The server that held the store at the writing, by an id that changes with every start.
    /// Unknown in a cluster.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<String>,
}

/// A learned factor of costs.
pub type CostRecord = (String, Name, i64, u64);

/// The buckets of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysRecord {
    /// Limit, key and level in millionths, after all promised permits are paid.
    listed: Vec<(Name, String, i64)>,
    /// Limit, key and usage, for limits that are no token buckets.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    taken: Vec<(Name, String, UsageRecord)>,
    /// For limits with only known keys: the level and usage of each key that is not listed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    known: Vec<(Name, i64, Option<UsageRecord>)>,
    /// The time in nanoseconds after the writing at which all other keys are empty. Without it they
    /// are full.
    others_empty_in: Option<i64>,
    /// The pages with further known keys.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pages: Vec<PageRecord>,
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelRecord {
    limit: Name,
    /// In millionths, after all promised permits and all that may still be granted are paid.
    micros: i64,
    /// What may still be granted, in millionths.
    budget: u64,
    /// Pending debits for promised permits: the end in nanoseconds after the writing, and the
    /// amount in millionths.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    withheld: Vec<(u64, u64)>,
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

/// The usage of a limit that is no token bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct UsageRecord {
    /// Wall time at the writing, by the writer's clock.
    unix_nanos: u64,
    /// Beginning and end in nanoseconds after the writing, and the amount in millionths.
    spans: Vec<(i64, i64, u64)>,
    /// What the upstream has told, if anything.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    told: Option<ToldRecord>,
}

impl UsageRecord {
    fn of(taken: &Usage) -> Self {
        let span = |span: &UsageSpan| (span.from_nanos, span.until_nanos, span.micros);
        UsageRecord {
            unix_nanos: taken.unix_nanos,
            spans: taken.spans.iter().map(span).collect(),
            told: taken.told.as_ref().map(ToldRecord::of),
        }
    }

    fn usage(&self) -> Usage {
        let span = |&(from_nanos, until_nanos, micros): &(i64, i64, u64)| UsageSpan { from_nanos, until_nanos, micros };
        let told = self.told.as_ref().map(ToldRecord::told);
        Usage { unix_nanos: self.unix_nanos, spans: self.spans.iter().map(span).collect(), doubted: false, told }
    }
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
            freezes: self.freeze_snapshots(),
            costs: self.cost_factors(),
            permits: permits.iter().map(PermitRecord::snapshot).collect(),
            new_pages: Vec::new(),
        }
    }

    /// A snapshot for a successor that has lost later records. It keeps debts and drops stock. What
    /// could be granted under this record counts as granted once more.
    #[must_use]
    pub fn cautious_snapshot(&self, pages: StoredPages) -> Snapshot {
        let level = |level: &LevelRecord| {
            let snapshot = level.snapshot(i128::from(level.micros).min(0) - i128::from(level.budget));
            LevelSnapshot { taken: snapshot.taken.map(doubted), ..snapshot }
        };
        Snapshot {
            levels: self.levels.iter().map(level).collect(),
            keys: self.keys.cautious(pages),
            freezes: self.freeze_snapshots(),
            costs: self.cost_factors(),
            permits: Vec::new(),
            new_pages: Vec::new(),
        }
    }

    fn cost_factors(&self) -> Vec<CostFactor> {
        let factor = |(kind, unit, millionths, calls): &CostRecord| CostFactor {
            kind: kind.clone(),
            unit: unit.clone(),
            millionths: *millionths,
            calls: *calls,
        };
        self.costs.iter().map(factor).collect()
    }

    fn freeze_snapshots(&self) -> Vec<FreezeSnapshot> {
        let snapshot = |(limit, key, nanos, spent): &(Name, Option<String>, u64, bool)| FreezeSnapshot {
            limit: limit.clone(),
            key: key.clone(),
            nanos: *nanos,
            spent: *spent,
        };
        self.freezes.iter().map(snapshot).collect()
    }
}

/// The stored form of learned factors.
#[must_use]
pub fn costs_of(factors: &[CostFactor]) -> Vec<CostRecord> {
    factors.iter().map(|factor| (factor.kind.clone(), factor.unit.clone(), factor.millionths, factor.calls)).collect()
}

/// The stored form of freezes.
#[must_use]
pub fn freezes_of(snapshots: &[FreezeSnapshot]) -> Vec<(Name, Option<String>, u64, bool)> {
    snapshots
        .iter()
        .map(|snapshot| (snapshot.limit.clone(), snapshot.key.clone(), snapshot.nanos, snapshot.spent))
        .collect()
}

impl KeysRecord {
    /// The stored form of the buckets of keys.
    #[must_use]
    pub fn of(snapshots: &KeysSnapshot) -> Self {
        let listed = snapshots
            .listed
            .iter()
            .map(|snapshot| (snapshot.limit.clone(), snapshot.key.clone(), saturated(snapshot.micros)));
        let taken = snapshots.listed.iter().filter_map(|snapshot| {
            let taken = snapshot.taken.as_ref()?;
            Some((snapshot.limit.clone(), snapshot.key.clone(), UsageRecord::of(taken)))
        });
        let known = snapshots.known.iter().map(|others| {
            let taken = others.taken.as_ref().map(UsageRecord::of);
            (others.limit.clone(), saturated(others.micros), taken)
        });
        KeysRecord {
            listed: listed.collect(),
            taken: taken.collect(),
            known: known.collect(),
            others_empty_in: snapshots.others_empty_in,
            pages: snapshots.pages.iter().map(PageRecord::of).collect(),
        }
    }

    /// The stored form of the keys of a page.
    pub(super) fn listing(keys: &[KeySnapshot]) -> Self {
        KeysRecord::of(&KeysSnapshot { listed: keys.to_vec(), ..KeysSnapshot::default() })
    }

    /// The keys that are listed.
    pub(super) fn listed_keys(&self) -> Vec<KeySnapshot> {
        self.snapshot(StoredPages::new()).listed
    }

    /// Limit, key and level in millionths of each listed key.
    #[must_use]
    pub fn listed(&self) -> &[(Name, String, i64)] {
        &self.listed
    }

    fn is_empty(&self) -> bool {
        *self == KeysRecord::default()
    }

    /// A snapshot that keeps debts and drops stock.
    fn cautious(&self, pages: StoredPages) -> KeysSnapshot {
        let mut snapshots = self.snapshot(pages);
        let on_pages = snapshots.pages.iter_mut().flat_map(|page| &mut page.keys).flatten();
        for snapshot in snapshots.listed.iter_mut().chain(on_pages) {
            (snapshot.micros, snapshot.taken) = (snapshot.micros.min(0), snapshot.taken.take().map(doubted));
        }
        KeysSnapshot { known: Vec::new(), others_empty_in: Some(self.others_empty_in.unwrap_or(0).max(0)), ..snapshots }
    }

    fn snapshot(&self, pages: StoredPages) -> KeysSnapshot {
        let keys = pages.into_iter().chain(std::iter::repeat(None));
        let taken: BTreeMap<(&Name, &str), &UsageRecord> =
            self.taken.iter().map(|(limit, key, taken)| ((limit, key.as_str()), taken)).collect();
        let snapshot = |(limit, key, micros): &(Name, String, i64)| KeySnapshot {
            limit: limit.clone(),
            key: key.clone(),
            micros: i128::from(*micros),
            taken: taken.get(&(limit, key.as_str())).map(|taken| taken.usage()),
        };
        let known = |(limit, micros, taken): &(Name, i64, Option<UsageRecord>)| LevelSnapshot {
            limit: limit.clone(),
            micros: i128::from(*micros),
            taken: taken.as_ref().map(UsageRecord::usage),
            learned: None,
            stated: None,
            pending_debits: Vec::new(),
        };
        KeysSnapshot {
            listed: self.listed.iter().map(snapshot).collect(),
            known: self.known.iter().map(known).collect(),
            others_empty_in: self.others_empty_in,
            pages: self.pages.iter().zip(keys).map(|(page, keys)| page.page(keys)).collect(),
        }
    }
}

/// The same usage, with the note that an unknown leader may have used more.
fn doubted(taken: Usage) -> Usage {
    Usage { doubted: true, ..taken }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(revision: &u64) -> bool {
    *revision == 0
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
            withheld: snapshot.pending_debits.iter().map(|step| (step.nanos, step.micros)).collect(),
            taken: snapshot.taken.as_ref().map(UsageRecord::of),
            learned: snapshot.learned.as_ref().map(LearnedRecord::of),
            stated: snapshot.stated.as_ref().map(StatedRecord::of),
        }
    }

    fn snapshot(&self, micros: i128) -> LevelSnapshot {
        let step = |(nanos, micros): &(u64, u64)| DebitSnapshot { nanos: *nanos, micros: *micros };
        let taken = self.taken.as_ref().map(UsageRecord::usage);
        let learned = self.learned.as_ref().and_then(LearnedRecord::snapshot);
        let stated = self.stated.as_ref().and_then(StatedRecord::snapshot);
        let pending_debits = self.withheld.iter().map(step).collect();
        LevelSnapshot { limit: self.limit.clone(), micros, taken, learned, stated, pending_debits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::moment::BootTime;

    /// A damaged or old record leaves a successor its debts and what was learned, and no stock.
    #[test]
    fn a_successor_without_stock_has_learned_as_much() {
        let level = r#"{"limit":"per-minute","micros":9000000,"budget":300000,"learned":{"unit":"requests","algorithm":"token-bucket","capacity":40000000,"period":2000000000,"loss":250000,"estimated":3,"kept_back":0,"stock":7500000,"burst":0}}"#;
        let level: LevelRecord = serde_json::from_str(level).unwrap();
        let saved = Moment { unix_ms: 0, boot: None };
        let (leader, keys) = (String::new(), KeysRecord::default());
        let state = StateRecord {
            epoch: 1,
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
            costs: vec![("/a|PUT".to_owned(), Name::new("units").unwrap(), 500_000, 7)],
            rules: 0,
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
            epoch: 7,
            leader: "host-1-2f".to_owned(),
            nonce: 99,
            checkpoint: 3,
            released: false,
            successor: None,
            saved: Moment { unix_ms: 1_795_000_000_000, boot: Some(BootTime { id: "b".to_owned(), ms: 5 }) },
            permit_parts: 1,
            levels: vec![LevelRecord {
                limit: name("per-minute"),
                micros: -12_500_000,
                budget: 300_000,
                withheld: vec![(5_000_000_000, 2_000_000)],
                taken: None,
                learned: None,
                stated: None,
            }],
            keys: KeysRecord {
                listed: vec![(name("per-client"), "team-a".to_owned(), -3_000_000)],
                taken: Vec::new(),
                known: vec![(name("per-day"), 5_000_000, None)],
                others_empty_in: Some(2_500_000_000),
                pages: Vec::new(),
            },
            freezes: vec![
                (name("per-minute"), None, 1_500_000_000, false),
                (name("per-client"), Some("team-a".to_owned()), 2_000_000_000, true),
            ],
            costs: vec![("/a|PUT".to_owned(), name("units"), 500_000, 7)],
            rules: 12,
            server: Some("NDGM".to_owned()),
        };
        let golden = r#"{"epoch":7,"leader":"host-1-2f","nonce":99,"mark":3,"released":false,"saved":{"unix_ms":1795000000000,"boot":{"id":"b","ms":5}},"permit_parts":1,"levels":[{"limit":"per-minute","micros":-12500000,"budget":300000,"withheld":[[5000000000,2000000]]}],"keys":{"listed":[["per-client","team-a",-3000000]],"known":[["per-day",5000000,null]],"others_empty_in":2500000000},"freezes":[["per-minute",null,1500000000,false],["per-client","team-a",2000000000,true]],"costs":[["/a|PUT","units",500000,7]],"rules":12,"server":"NDGM"}"#;
        assert_eq!(serde_json::to_string(&state).unwrap(), golden);
        assert_eq!(serde_json::from_str::<StateRecord>(golden).unwrap(), state);
    }
}
