//! Recent grants to each class and client: their number, waits and share of the resource.
//!
//! These counts are only shown to people, so settles correct nothing, and clients beyond a bound
//! are left out. What calls cost is counted in `ledger/usage_meter.rs`, which leaves out no client.

use rampmeter_policy::ids::{ClassId, ClientNumber};
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// The length of a period. Views show the present one and the one before.
const PERIOD: Span = Span::from_secs(300);
/// The most pairs of class and client that are counted apart, two hundred bytes each.
const MAX_SHARERS: usize = 1024;
/// Upper bounds of waits, in milliseconds; the last bucket is for longer waits.
const BOUNDS: [u64; 12] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 120_000, 600_000];

/// The grants to one class or client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServiceCount {
    pub(crate) granted: u64,
    pub(crate) promoted: u64,
    /// The sum of all shares, in nanoseconds.
    pub(crate) share: u128,
    waits: [u32; BOUNDS.len() + 1],
}

#[derive(Clone, Debug)]
pub(crate) struct RecentService {
    pub(crate) since: Time,
    present_began: Time,
    counts: BTreeMap<(ClassId, ClientNumber), [ServiceCount; 2]>,
}

impl ServiceCount {
    /// Counts one grant `waited` after it was asked for. `share` is the longest time that one of
    /// the limits needs to refill the cost. `is_promoted` means that the grant went ahead of its
    /// turn, because its class had starved.
    pub(crate) fn of_grant(share: Span, waited: Span, is_promoted: bool) -> Self {
        let mut waits = [0; BOUNDS.len() + 1];
        let bucket = BOUNDS.iter().position(|bound| waited <= Span::from_millis(*bound));
        waits[bucket.unwrap_or(BOUNDS.len())] = 1;
        ServiceCount { granted: 1, promoted: u64::from(is_promoted), share: u128::from(share.nanos()), waits }
    }

    fn and(mut self, other: &ServiceCount) -> Self {
        self.granted += other.granted;
        self.promoted += other.promoted;
        self.share += other.share;
        self.waits.iter_mut().zip(other.waits).for_each(|(wait, more)| *wait += more);
        self
    }

    /// Returns the upper bound of `percent` of the waits, at most the last bound.
    pub(crate) fn wait_within(&self, percent: u64) -> Option<Span> {
        let rank = (self.granted * percent).div_ceil(100);
        let mut seen = 0;
        let bucket = self.waits.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        });
        let bound = *bucket.and_then(|bucket| BOUNDS.get(bucket)).unwrap_or(&BOUNDS[BOUNDS.len() - 1]);
        (self.granted > 0).then(|| Span::from_millis(bound))
    }
}

impl RecentService {
    pub(crate) fn new(now: Time) -> Self {
        RecentService { since: now, present_began: now, counts: BTreeMap::new() }
    }

    pub(crate) fn note(&mut self, now: Time, class: ClassId, client: ClientNumber, grant: &ServiceCount) {
        self.advance(now);
        let has_room = self.counts.len() < MAX_SHARERS || self.counts.contains_key(&(class, client));
        let client = if has_room { client } else { ClientNumber::default() };
        let [present, _] = self.counts.entry((class, client)).or_default();
        *present = present.and(grant);
    }

    pub(crate) fn advance(&mut self, now: Time) {
        let lasted = now.since(self.present_began);
        if lasted < PERIOD {
            return;
        }
        let goes_on = lasted < Span::from_nanos(2 * PERIOD.nanos());
        (self.since, self.present_began) = (if goes_on { self.present_began } else { now }, now);
        self.counts.retain(|_, [present, former]| {
            *former = std::mem::take(present);
            goes_on && former.granted > 0
        });
    }

    pub(crate) fn class(&self, class: ClassId) -> ServiceCount {
        let of_class = self.counts.iter().filter(|((of, _), _)| *of == class).flat_map(|(_, counts)| counts);
        of_class.fold(ServiceCount::default(), ServiceCount::and)
    }

    pub(crate) fn clients(&self) -> BTreeMap<ClientNumber, ServiceCount> {
        let mut clients: BTreeMap<ClientNumber, ServiceCount> = BTreeMap::new();
        for ((_, client), [present, former]) in &self.counts {
            let count = clients.entry(*client).or_default();
            *count = count.and(present).and(former);
        }
        clients.remove(&ClientNumber::default());
        clients
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(recent: &mut RecentService, at: Time, client: u16, millis: u64) {
        let grant = ServiceCount::of_grant(Span::from_millis(5), Span::from_millis(millis), false);
        recent.note(at, ClassId(0), ClientNumber(client), &grant);
    }

    fn at(secs: u64) -> Time {
        Time::ORIGIN + Span::from_secs(secs)
    }

    #[test]
    fn two_periods_are_counted_and_older_ones_forgotten() {
        let mut recent = RecentService::new(at(0));
        note(&mut recent, at(10), 1, 2);
        note(&mut recent, at(310), 2, 2);
        assert_eq!((recent.clients().len(), recent.since), (2, at(0)));
        note(&mut recent, at(620), 2, 2);
        let clients = recent.clients();
        assert_eq!((clients.len(), clients[&ClientNumber(2)].granted, recent.since), (1, 2, at(310)));
        recent.advance(at(5_000));
        assert_eq!((recent.clients().len(), recent.since), (0, at(5_000)));
    }

    #[test]
    fn beyond_the_bound_clients_count_for_their_class_alone() {
        let mut recent = RecentService::new(at(0));
        for number in 1..=MAX_SHARERS as u16 + 1 {
            note(&mut recent, at(0), number, 0);
        }
        assert_eq!((recent.clients().len(), recent.class(ClassId(0)).granted), (MAX_SHARERS, MAX_SHARERS as u64 + 1));
    }

    #[test]
    fn percentiles_are_bounds_of_buckets() {
        let mut recent = RecentService::new(at(0));
        assert_eq!(recent.class(ClassId(0)).wait_within(50), None);
        (0..99).for_each(|_| note(&mut recent, at(0), 1, 2));
        note(&mut recent, at(0), 1, 20_000);
        let count = recent.class(ClassId(0));
        let waits = [50, 99, 100].map(|percent| count.wait_within(percent).unwrap());
        assert_eq!(waits, [3, 3, 30_000].map(Span::from_millis));
        note(&mut recent, at(0), 1, 2_000_000);
        assert_eq!(recent.class(ClassId(0)).wait_within(100), Some(Span::from_secs(600)));
    }
}
