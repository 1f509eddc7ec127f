//! The state at the end of a term.

use super::limit_snapshots::ListedPromises;
use super::limit_snapshots::UnlistedFreezes;
use super::record_space::{MAX_KEYS_AT_STOP, RecordSpace, encoded, encoded_key, keep_first};
use super::snapshot::{Fate, KeySnapshot, KeysSnapshot, Offset, PermitSnapshot, Snapshot};
use crate::arithmetic::Credit;
use crate::ids::{ClientNumber, LimitId};
use crate::ledger::KeyBucket;
use crate::limits::UsageBlock;
use crate::permits::{Permit, Stage, State};
use crate::policy::KeyCharge;
use crate::scheduler::Scheduler;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// The state at `now` with at most `most` permits, without waiting requests: clients ask again.
    /// If there are more, or they take more than 128 MiB, promises and open calls come first.
    /// This reads every key, which takes a sixth of a second for a million. Call it at the end of a
    /// term, when nothing is granted any more.
    #[must_use]
    pub fn snapshot(&mut self, now: Time, most: usize) -> Snapshot {
        self.advance(now);
        let new_pages = self.write_all_pages(now);
        let first = self.first_permits(most);
        let permits = first.iter().filter_map(|permit| self.permit_snapshot(now, permit));
        let permits = RecordSpace::of_permits().fitting(1, most, permits, encoded);
        assert!(permits.len() <= first.len() && first.len() <= most, "a snapshot has at most so many permits");
        let listed = ListedPromises::of(&self.resource, now, &first[..permits.len()]);
        let nothing = std::iter::repeat(UsageBlock { from: now, until: now, credit: Credit::ZERO });
        let mut space = self.record_space();
        let (freezes, unlisted) = self.freeze_snapshots(now, &mut space);
        let (levels, keys) = (self.level_snapshots(nothing, &listed), self.keys_at_stop(now, space, &unlisted));
        Snapshot { levels, keys, freezes, permits, new_pages }
    }

    /// The keys on no page. If there are too many, keys with long periods and low levels come
    /// first.
    fn keys_at_stop(&self, now: Time, mut space: RecordSpace, unlisted: &UnlistedFreezes) -> KeysSnapshot {
        let limit_of = |known: &KeyBucket| &self.resource[known.limit];
        let is_listed = |known: &&KeyBucket| known.page.is_none() && !known.bucket.is_as_new(limit_of(known), now);
        let rank = |known: &KeyBucket| (limit_of(known).lists_keys(), known.bucket.empty_at(limit_of(known), now));
        let rested = self.ledger.keys.iter().filter(is_listed);
        let mut lowest: Vec<_> = rested.map(|known| (rank(known), known)).collect();
        keep_first(&mut lowest, MAX_KEYS_AT_STOP + 1, |(one, _), (other, _)| other.cmp(one));
        let snapshot = |(_, known): &(_, &KeyBucket)| {
            KeySnapshot::of(limit_of(known), &known.key, &known.bucket, now, Credit::ZERO)
        };
        let pages = self.key_pages(now, &mut space, |_| Credit::ZERO);
        let has_pages = pages.is_some();
        let listed = space.fitting(1, MAX_KEYS_AT_STOP, lowest.iter().map(snapshot), encoded_key);
        let left_out = lowest.get(listed.len()).map(|(rank, _)| *rank);
        let is_long = |limit: LimitId| self.resource[limit].lists_keys();
        let known = |limit: LimitId| match left_out {
            Some((of_long_limit, _)) => !of_long_limit && is_long(limit) && has_pages,
            None => has_pages || !is_long(limit),
        };
        let empty = left_out.map(|(_, empty)| empty).or((!has_pages).then_some(now));
        let allowed = |limit| known(limit).then_some(Credit::ZERO);
        self.keys_snapshot(now, listed, pages.unwrap_or_default(), empty, allowed, unlisted)
    }

    /// The permits to remember: promises, then calls in flight, then settled and returned ones; of
    /// each, those that start last.
    fn first_permits(&self, most: usize) -> Vec<&Permit<R>> {
        let rank = |permit: &Permit<R>| match &permit.state {
            State::Waiting(_) => None,
            State::Returned => Some((false, Time::ORIGIN)),
            State::Granted(granted) => Some((granted.is_open(), granted.start.at)),
        };
        let ranked = self.permits.iter().filter_map(|permit| rank(permit).map(|rank| (rank, permit)));
        let mut first: Vec<_> = ranked.collect();
        keep_first(&mut first, most, |(a, one), (b, other)| b.cmp(a).then_with(|| one.id.cmp(&other.id)));
        first.into_iter().map(|(_, permit)| permit).collect()
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
        let bill = shared.map(|id| (name(id), permit.bill.get(id).micros()));
        let key_charge = |charge: &KeyCharge| (name(charge.limit), charge.key.to_string(), charge.amount.micros());
        let keyed = permit.bill.all_keyed().map(key_charge);
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
