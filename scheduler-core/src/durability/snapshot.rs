//! The state that a successor starts from.

pub use super::freeze_snapshots::FreezeSnapshot;
use super::level_snapshots::ListedPromises;
use super::record_space::{KEYS_BYTES, MAX_KEYS_AT_STOP, fitting, fitting_costs, keep_first};
pub use crate::adaptation::cost_estimates::CostFactor;
pub use crate::adaptation::learned::{LearnedSnapshot, LimitPolicy, StatedSnapshot};
pub use crate::arithmetic::offset::Offset;
use crate::arithmetic::{Credit, Rate};
pub use crate::discovery::discovered_limit::{DiscoveredSnapshot, Evidence};
use crate::ids::{ClientNumber, LimitId};
use crate::ledger::KeyBucket;
pub use crate::ledger::key_pages::KeyPageId;
pub use crate::limits::DebitSnapshot;
use crate::limits::UsageBlock;
pub use crate::limits::usage::{ClaimedUsage, CountedUsage, ReportedUsage, UsageSpan};
use crate::permits::{Permit, Stage, State};
use crate::scheduler::Scheduler;
use crate::scheduler::parts::RecordedParts;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// The state of a resource at one instant. It names its limits, so that it outlives their change.
///
/// Levels count every promise as spent. A promise in `permits` can be returned later; any other
/// promise stays spent. So a snapshot with a shortened list is still safe.
///
/// A snapshot has no history of levels, so unused cost of an earlier call is not returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// All buckets without keys.
    pub levels: Vec<LevelSnapshot>,
    /// The buckets of keys.
    pub keys: KeysSnapshot,
    /// Freezes and spent quotas.
    pub freezes: Vec<FreezeSnapshot>,
    /// How far costs were off, by kind of call.
    pub costs: Vec<CostFactor>,
    /// Limits that were found.
    pub found: Vec<DiscoveredSnapshot>,
    /// Remembered permits, the latest start first, then returned ones.
    pub permits: Vec<PermitSnapshot>,
    /// Pages that the store must hold before this snapshot, which refers to them.
    pub new_pages: Vec<NewPage>,
}

/// The buckets of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysSnapshot {
    /// Keys that are listed one by one.
    pub listed: Vec<KeySnapshot>,
    /// For each limit with known unlisted keys, the state of each of these.
    pub known: Vec<LevelSnapshot>,
    /// How long after the snapshot all other keys are empty; none if they are full.
    pub others_empty_in: Option<Offset>,
    /// The rates at which the buckets of listed keys and of keys on pages refill. A limit without
    /// an entry has the rate that it has at the restore.
    pub rates: Vec<RateSnapshot>,
    /// Pages with more keys, the oldest first. Of several records of a key, a later page takes
    /// precedence, and `listed` over all pages.
    pub pages: Vec<KeyPage>,
}

impl KeysSnapshot {
    pub(crate) fn rates_by_limit(&self) -> BTreeMap<&Name, Rate> {
        self.rates
            .iter()
            .map(|RateSnapshot { limit, capacity, period }| (limit, Rate::new(*capacity, *period)))
            .collect()
    }
}

/// The rate of the buckets of a limit with keys: a capacity in each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateSnapshot {
    /// The limit.
    pub limit: Name,
    /// The capacity.
    pub capacity: Amount,
    /// The period.
    pub period: Span,
}

/// A page of keys at rest. It is written once, and every later checkpoint refers to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPage {
    /// Its id in the store.
    pub id: KeyPageId,
    /// The age of the page at the snapshot.
    pub age: Span,
    /// The budget of each of its keys since then, in millionths by limit.
    pub spent: Vec<(Name, u64)>,
    /// Its keys; `None` if they are lost or not yet read.
    pub keys: Option<Vec<KeySnapshot>>,
}

/// A page to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPage {
    /// Its id in the store.
    pub id: KeyPageId,
    /// The keys at the time of the snapshot.
    pub keys: Vec<KeySnapshot>,
}

/// The bucket of a key with all promises spent. Until the last promise is due, nothing else may be
/// granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySnapshot {
    /// Its limit.
    pub limit: Name,
    /// Its key.
    pub key: String,
    /// Its level in millionths.
    pub micros: i128,
    /// Its usage, if the limit does not count tokens.
    pub usage: Option<CountedUsage>,
}

/// A bucket without keys, or the state of each unlisted key of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelSnapshot {
    /// Its limit.
    pub limit: Name,
    /// Its level in millionths, with all promises spent.
    pub micros: i128,
    /// Its usage, if the limit does not count tokens. The level has no meaning then.
    pub usage: Option<CountedUsage>,
    /// The lessons about its upstream, if there are any.
    pub learned: Option<LearnedSnapshot>,
    /// The capacity that its upstream states, if that is less than what is written.
    pub stated: Option<StatedSnapshot>,
    /// Amounts that a successor keeps back for possible promises; ends ascend, and amounts never
    /// rise.
    pub pending_debits: Vec<DebitSnapshot>,
}

/// A remembered permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitSnapshot {
    /// Its id.
    pub id: PermitId,
    /// Its start, relative to the snapshot.
    pub start: Offset,
    /// Its class.
    pub class: Name,
    /// The client that its call counts for; none if it is unknown.
    pub client: Option<String>,
    /// Its charges by limit; a returned permit has none.
    pub bill: Vec<(Name, Amount)>,
    /// Its charges by limit and key.
    pub keyed: Vec<(Name, String, Amount)>,
    /// The limits in which the call holds a place, each with the end of the lease relative to the
    /// snapshot. For any other limit, the lease ends one period after the start.
    pub held_until: Vec<(Name, Offset)>,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Granted, without a reported outcome.
    Open,
    /// Settled.
    Settled,
    /// Given back.
    Returned,
}

impl<R: Clone> Scheduler<R> {
    /// The state at `now` with at most `most` permits, without waiting requests: clients ask again.
    /// This reads every key, which takes a sixth of a second for a million. Call it at the end of a
    /// term, when nothing is granted any more.
    #[must_use]
    pub fn snapshot(&mut self, now: Time, most: usize) -> Snapshot {
        self.advance(now);
        self.recorded_parts().snapshot(now, most)
    }
}

impl<R> RecordedParts<'_, R> {
    fn snapshot(&mut self, now: Time, most: usize) -> Snapshot {
        let new_pages = self.write_all_pages(now);
        let permits = self.latest_permits(most);
        let listed = ListedPromises::of(self.resource, now, &permits);
        let permits = permits.into_iter().filter_map(|(_, permit)| self.permit_snapshot(now, permit)).collect();
        let nothing = std::iter::repeat(UsageBlock { from: now, until: now, credit: Credit::ZERO });
        let (levels, keys) = (self.level_snapshots(nothing, &listed), self.keys_at_stop(now));
        let (freezes, costs) = (self.freeze_snapshots(now), fitting_costs(self.cost_estimates.ranked()));
        let found = self.search.map_or(Vec::new(), |search| search.snapshot(now));
        Snapshot { levels, keys, freezes, costs, found, permits, new_pages }
    }

    /// The keys on no page. If there are too many, keys with long periods and low levels come
    /// first.
    fn keys_at_stop(&self, now: Time) -> KeysSnapshot {
        let limit_of = |known: &KeyBucket| &self.resource[known.limit];
        let is_listed = |known: &&KeyBucket| known.page.is_none() && !known.bucket.is_as_new(limit_of(known), now);
        let rank = |known: &KeyBucket| (limit_of(known).lists_keys(), known.bucket.empty_at(limit_of(known), now));
        let rested = self.ledger.key_buckets().filter(is_listed);
        let mut lowest: Vec<_> = rested.map(|known| (rank(known), known)).collect();
        keep_first(&mut lowest, MAX_KEYS_AT_STOP + 1, |(one, _), (other, _)| other.cmp(one));
        let snapshot = |(_, known): &(_, &KeyBucket)| {
            KeySnapshot::of(limit_of(known), &known.key, &known.bucket, now, Credit::ZERO)
        };
        let listed = fitting(MAX_KEYS_AT_STOP, KEYS_BYTES, lowest.iter().map(snapshot));
        let left_out = lowest.get(listed.len()).map(|(rank, _)| *rank);
        let known = |limit: LimitId| {
            left_out.is_none_or(|(of_long_limit, _)| !of_long_limit && self.resource[limit].lists_keys())
        };
        let pages = self.key_pages(now, |_| Credit::ZERO);
        let empty = left_out.map(|(_, empty)| empty);
        self.keys_snapshot(now, listed, pages, empty, |limit| known(limit).then_some(Credit::ZERO))
    }

    fn latest_permits(&self, most: usize) -> Vec<(Time, &Permit<R>)> {
        let start = |permit: &'_ Permit<R>| match &permit.state {
            State::Waiting(_) => None,
            State::Returned => Some(Time::ORIGIN),
            State::Granted(granted) => Some(granted.start.at),
        };
        let mut latest: Vec<_> =
            self.permits.iter().filter_map(|permit| start(permit).map(|start| (start, permit))).collect();
        keep_first(&mut latest, most, |(a, first), (b, second)| b.cmp(a).then_with(|| first.id.cmp(&second.id)));
        latest
    }

    fn permit_snapshot(&self, now: Time, permit: &Permit<R>) -> Option<PermitSnapshot> {
        let (key, class, fate) = match &permit.state {
            State::Waiting(_) => return None,
            State::Returned => (None, self.resource.default_class(), Fate::Returned),
            State::Granted(granted) => {
                let fate = if granted.stage == Stage::Settled { Fate::Settled } else { Fate::Open };
                (Some(granted.start), granted.class, fate)
            }
        };
        // A unit without a charge may still turn out to have been used.
        let shared = permit.bill.applicable().limits().filter(|id| permit.bill.key_charge(*id).is_none());
        let name = |id: LimitId| self.resource[id].spec().name.clone();
        let bill = shared.map(|id| (name(id), permit.bill.get(id)));
        let keyed = permit.bill.all_keyed().map(|charge| (name(charge.limit), charge.key.to_string(), charge.amount));
        let client = permit.bill.client;
        let client = (client != ClientNumber::default()).then(|| self.meter.name(client).to_string());
        let leases = key.into_iter().flat_map(|key| self.ledger.leases(now, key, &permit.bill));
        Some(PermitSnapshot {
            held_until: leases.map(|(id, end)| (name(id), Offset::between(now, end))).collect(),
            id: permit.id.clone(),
            start: Offset::between(now, key.map_or(now, |key| key.at)),
            class: self.resource.classes()[class.index()].name.clone(),
            client: client.filter(|_| fate == Fate::Open),
            bill: if fate == Fate::Returned { Vec::new() } else { bill.collect() },
            keyed: if fate == Fate::Returned { Vec::new() } else { keyed.collect() },
            fate,
        })
    }
}
