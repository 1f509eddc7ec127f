//! Places of calls in flight that a predecessor granted, and of which this scheduler knows the
//! number alone.
//!
//! A crash leaves a number of places and the ends of their leases. The settle of an unknown call
//! frees one of them: the one whose lease ends first, among those that have begun. So at any time, the
//! places that are left are at least as many as the calls that still hold one, whichever place each
//! call had.

use super::CountedBucket;
use crate::arithmetic::{Credit, StartCost};
use crate::limits::usage::{MAX_BLOCKS, UsageBlock};
use crate::policy::Limit;
use rampmeter_protocol::time::Time;

impl CountedBucket {
    /// Notes that all present usage is by calls of a predecessor. Each fall of usage below all before is
    /// the end of a lease, unless the predecessor has named the `places`.
    pub(super) fn inherit(&mut self, limit: &Limit, places: Vec<UsageBlock>) {
        let mut places = if places.is_empty() { self.falls() } else { places };
        places.retain(|place| limit.counts_calls_in_flight() && place.until > self.now && place.credit > Credit::ZERO);
        places.sort_by_key(|place| place.until);
        self.inherited = Some(places).filter(|places| !places.is_empty()).map(Box::new);
    }

    fn falls(&self) -> Vec<UsageBlock> {
        let (mut used, mut least, mut falls) = (self.total, self.total, Vec::new());
        for (until, change) in &self.steps {
            used += *change;
            if used < least {
                falls.push(UsageBlock { from: self.now, until: *until, credit: least - used });
                least = used;
            }
        }
        falls
    }

    /// The places of all calls, if some of these start after `now`: usage alone does not show a lease
    /// that ends as another one begins. Places beyond the bound are freed by no settle. Own calls hold
    /// theirs until `renewed` at least.
    pub(super) fn named_places(&self, budget: UsageBlock, renewed: Option<Time>) -> Vec<UsageBlock> {
        let now = budget.from;
        let own = self.calls.iter().map(|(key, call)| UsageBlock {
            from: key.at.max(now),
            until: renewed.map_or(call.until, |end| call.until.max(end)),
            credit: call.cost,
        });
        let inherited = self.inherited.iter().flat_map(|places| places.iter().copied());
        let mut places: Vec<UsageBlock> = own.chain(inherited).chain([budget]).collect();
        places.iter_mut().for_each(|place| place.from = place.from.max(now));
        places.retain(|place| place.until > now && place.credit > Credit::ZERO);
        if places.iter().all(|place| place.from == now) {
            return Vec::new();
        }
        places.sort_by_key(|place| (place.from, place.until));
        places.dedup_by(|next, place| {
            let same = (next.from, next.until) == (place.from, place.until);
            place.credit += if same { next.credit } else { Credit::ZERO };
            same
        });
        places.truncate(MAX_BLOCKS);
        places
    }

    /// Ends an unlisted call of a predecessor. Returns whether a place was kept for it.
    pub(crate) fn end_inherited(&mut self, limit: &Limit, now: Time, cost: StartCost) -> bool {
        self.advance(limit, now);
        let (now, mut left) = (self.now, cost.credit);
        let Some(places) = self.inherited.as_deref_mut() else { return false };
        let mut freed = Vec::new();
        for place in places.iter_mut().filter(|place| place.from <= now && place.until > now) {
            let part = place.credit.min(left);
            place.credit -= part;
            left -= part;
            freed.push((place.until, part));
        }
        self.forget_ended_places();
        freed.retain(|(_, part)| *part > Credit::ZERO);
        freed.iter().for_each(|(until, part)| self.add_usage(limit, now, *until, -*part));
        !freed.is_empty()
    }

    /// Takes the places of a call that is listed, which end with it.
    pub(super) fn take_inherited(&mut self, end: Time, cost: Credit) {
        let mut left = cost;
        let Some(places) = self.inherited.as_deref_mut() else { return };
        let ended = places.partition_point(|place| place.until <= end);
        let (own, later) = places.split_at_mut(ended);
        for place in own.iter_mut().rev().chain(later) {
            let part = place.credit.min(left);
            place.credit -= part;
            left -= part;
        }
        self.forget_ended_places();
    }

    fn forget_ended_places(&mut self) {
        let now = self.now;
        let Some(places) = self.inherited.as_deref_mut() else { return };
        places.retain(|place| place.until > now && place.credit > Credit::ZERO);
        if places.is_empty() {
            self.inherited = None;
        }
    }
}
