//! What a successor must know.

pub use super::freeze_snapshots::FreezeSnapshot;
use super::level_snapshots::ListedPromises;
use super::record_space::{MOST_AT_STOP, ROOM, fitting, keep_first};
pub use crate::adaptation::learned::{LearnedSnapshot, LimitPolicy};
use crate::arithmetic::Credit;
use crate::ids::LimitId;
use crate::ledger::KeyBucket;
pub use crate::ledger::key_pages::PageId;
use crate::limits::distance;
pub use crate::limits::usage::{Usage, UsageSpan};
use crate::scheduler::Scheduler;
use crate::scheduler::permits::{Permit, Stage, State};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Time;

/// The state of a resource at an instant, by name, so that it outlives a change of limits.
///
/// Levels have every promise in them. A promise that is also listed in `permits` can be taken back
/// later; one that is not listed stays paid. So a snapshot whose list is shortened is still safe.
///
/// How full buckets have been is not in it: a call that started before the snapshot and needed less
/// than it was charged gives nothing back afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// All buckets without keys.
    pub levels: Vec<LevelSnapshot>,
    /// Those of keys.
    pub keys: KeysSnapshot,
    /// What the upstream has asked to wait with.
    pub freezes: Vec<FreezeSnapshot>,
    /// Remembered permits, the latest start first, and then those that were given back.
    pub permits: Vec<PermitSnapshot>,
    /// What the store has to hold before it: pages that it names.
    pub new_pages: Vec<NewPage>,
}

/// The buckets of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysSnapshot {
    /// Those that are known.
    pub listed: Vec<KeySnapshot>,
    /// Limits of which it is known how all others are.
    pub known: Vec<LevelSnapshot>,
    /// In how many nanoseconds from the snapshot on all others are empty; negative if they were before. Full where this is left out.
    pub others_empty_in: Option<i64>,
    /// Where more keys are known, the oldest page first: what is on a later one counts, and what is listed here most of all.
    pub pages: Vec<KeyPage>,
}

/// Keys that rest: told once, and named in every checkpoint since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPage {
    /// Where it is.
    pub id: PageId,
    /// How many nanoseconds before the snapshot its keys were so.
    pub age_nanos: u64,
    /// What each of its keys may have been granted since, in millionths by limit.
    pub spent: Vec<(Name, u64)>,
    /// Its keys; `None` as long as nobody has read them, or if they are lost.
    pub keys: Option<Vec<KeySnapshot>>,
}

/// A page that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPage {
    /// Where.
    pub id: PageId,
    /// The keys, as they are now.
    pub keys: Vec<KeySnapshot>,
}

/// The level of a key's bucket, with everything that was promised paid, and nothing else to be granted until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySnapshot {
    /// Its limit.
    pub limit: Name,
    /// Its key.
    pub key: String,
    /// Its level in millionths.
    pub micros: i128,
    /// What is taken, where the limit counts something else than tokens.
    pub taken: Option<Usage>,
}

/// The level of a bucket without keys, or of each key's that is not known one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelSnapshot {
    /// Its limit.
    pub limit: Name,
    /// Its level in millionths, with all promises paid.
    pub micros: i128,
    /// What is taken, where the limit counts something else than tokens; its level says nothing then.
    pub taken: Option<Usage>,
    /// What was learned of how its upstream keeps it, if that is anything.
    pub learned: Option<LearnedSnapshot>,
    /// What a successor withholds because it may have been promised for later; ends ascend, amounts do not.
    pub pending_debits: Vec<DebitSnapshot>,
}

/// A step of what is withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebitSnapshot {
    /// Until when, in nanoseconds from the snapshot on.
    pub nanos: u64,
    /// How much, in millionths.
    pub micros: u64,
}

/// One permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitSnapshot {
    /// Its id.
    pub id: PermitId,
    /// Its start, in nanoseconds from the snapshot on; negative if it was before.
    pub start_nanos: i64,
    /// Its class.
    pub class: Name,
    /// What it was charged, by limit; nothing more can be given back when it is empty.
    pub bill: Vec<(Name, Amount)>,
    /// What it was charged, by limit and key.
    pub keyed: Vec<(Name, String, Amount)>,
    /// Of the limits that its call holds a place of, when its lease ends, in nanoseconds from the snapshot on. Where that is left
    /// out, it was never renewed.
    pub held_until: Vec<(Name, i64)>,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Granted, and not heard of since.
    Open,
    /// Settled.
    Settled,
    /// Given back.
    Returned,
}

impl<R: Clone> Scheduler<R> {
    /// The state at `now`, with `most` permits at most. Waiting requests are not in it: they are asked again.
    #[must_use]
    pub fn snapshot(&mut self, now: Time, most: usize) -> Snapshot {
        self.ledger.advance(now);
        let new_pages = self.turn_all_pages(now);
        let permits = self.latest_permits(most);
        let listed = ListedPromises::of(&self.resource, now, &permits);
        let permits = permits.into_iter().filter_map(|(_, permit)| self.permit_snapshot(now, permit)).collect();
        let nothing = vec![Credit::ZERO; self.resource.limits().len()];
        let (levels, keys) = (self.level_snapshots(now, (now, &nothing), &listed), self.keys_at_stop(now));
        Snapshot { levels, keys, freezes: self.freeze_snapshots(now), permits, new_pages }
    }

    /// The buckets of keys that are on no page: those of long limits first, and the lowest first where there are too many to list.
    fn keys_at_stop(&self, now: Time) -> KeysSnapshot {
        let limits = self.resource.limits();
        let limit_of = |known: &KeyBucket| &limits[known.limit.index()];
        let is_told = |known: &&KeyBucket| {
            let limit = limit_of(known);
            known.page.is_none() && !known.bucket.is_as_new(limit, now)
        };
        let rank = |known: &KeyBucket| {
            let limit = limit_of(known);
            (limit.lists_keys(), known.bucket.empty_at(limit, now))
        };
        let told = self.ledger.keys.iter().filter(is_told);
        let mut lowest: Vec<_> = told.map(|known| (rank(known), known)).collect();
        keep_first(&mut lowest, MOST_AT_STOP + 1, |(one, _), (other, _)| other.cmp(one));
        let mark = |(_, known): &(_, &KeyBucket)| {
            KeySnapshot::of(limit_of(known), &known.key, &known.bucket, now, Credit::ZERO)
        };
        let listed = fitting(MOST_AT_STOP, ROOM, lowest.iter().map(mark));
        let left_out = lowest.get(listed.len()).map(|(rank, _)| *rank);
        let known = |limit: LimitId| {
            left_out.is_none_or(|(of_long_limit, _)| !of_long_limit && limits[limit.index()].lists_keys())
        };
        let pages = self.key_pages(now, |_| Credit::ZERO);
        let empty = left_out.map(|(_, empty)| empty);
        self.keys_snapshot(now, listed, pages, empty, |limit| known(limit).then_some(Credit::ZERO))
    }

    /// Those of the latest starts, where there are too many.
    fn latest_permits(&self, most: usize) -> Vec<(Time, &Permit<R>)> {
        let start = |permit: &'_ Permit<R>| match &permit.state {
            State::Waiting(_) => None,
            State::Returned => Some(Time::ORIGIN),
            State::Granted(granted) => Some(granted.key.at),
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
            State::Granted(granted) if granted.stage == Stage::Settled => {
                (Some(granted.key), granted.class, Fate::Settled)
            }
            State::Granted(granted) => (Some(granted.key), granted.class, Fate::Open),
        };
        // A unit that nothing was charged for may still turn out to have been used.
        let shared = permit.bill.reached().limits().filter(|id| permit.bill.key_of(*id).is_none());
        let name = |id: LimitId| self.resource.limits()[id.index()].spec().name.clone();
        let bill = shared.map(|id| (name(id), permit.bill.get(id)));
        let keyed = permit.bill.all_keyed().map(|charge| (name(charge.limit), charge.key.to_string(), charge.amount));
        let leases = key.into_iter().flat_map(|key| self.ledger.leases(now, key, &permit.bill));
        Some(PermitSnapshot {
            held_until: leases.map(|(id, end)| (name(id), distance(now, end))).collect(),
            id: permit.id.clone(),
            start_nanos: distance(now, key.map_or(now, |key| key.at)),
            class: self.resource.classes()[class.index()].name.clone(),
            bill: if fate == Fate::Returned { Vec::new() } else { bill.collect() },
            keyed: if fate == Fate::Returned { Vec::new() } else { keyed.collect() },
            fate,
        })
    }
}
