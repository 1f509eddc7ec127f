//! Places of calls in flight that a predecessor granted, and of which this scheduler knows the
//! number alone.
//!
//! A crash leaves a number of places and the ends of their leases. The settle of an unknown call
//! frees one of them: the one whose lease ends first. So at any time, the places that are left are
//! at least as many as the calls that still hold one, whichever place each call had.

use super::CountedBucket;
use crate::arithmetic::{Credit, StartCost};
use crate::policy::Limit;
use rampmeter_protocol::time::Time;
use std::collections::VecDeque;

impl CountedBucket {
    /// Notes that all present usage is by calls of a predecessor.
    pub(super) fn inherit(&mut self, limit: &Limit) {
        if !limit.counts_calls_in_flight() {
            return;
        }
        let (mut used, mut least, mut places) = (self.total, self.total, VecDeque::new());
        for (time, change) in &self.steps {
            used += *change;
            if used < least {
                places.push_back((*time, least - used));
                least = used;
            }
        }
        self.inherited = Some(places).filter(|places| !places.is_empty()).map(Box::new);
    }

    /// Ends an unlisted call of a predecessor. Returns whether a place was kept for it.
    pub(crate) fn end_inherited(&mut self, limit: &Limit, now: Time, cost: StartCost) -> bool {
        if self.inherited.is_none() {
            return false;
        }
        self.advance(limit, now);
        let freed = self.take_inherited(cost.credit);
        freed.iter().for_each(|(until, credit)| self.add_usage(limit, now, *until, -*credit));
        !freed.is_empty()
    }

    /// Takes up to `most` of the places, because they are free or their call is listed.
    pub(super) fn take_inherited(&mut self, most: Credit) -> Vec<(Time, Credit)> {
        let (mut left, mut taken) = (most, Vec::new());
        let Some(places) = self.inherited.as_deref_mut() else { return taken };
        while let Some((until, held)) = places.pop_front() {
            let part = held.min(left);
            if until > self.now && part > Credit::ZERO {
                taken.push((until, part));
            }
            if until > self.now && held > part {
                places.push_front((until, held - part));
                return taken;
            }
            left -= if until > self.now { part } else { Credit::ZERO };
        }
        self.inherited = None;
        taken
    }
}
