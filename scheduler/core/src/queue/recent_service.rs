//! Recent grants to each class and client: how many, after which waits, and with which share of the
//! resource.
//!
//! These counts are for people to look at. So settles correct nothing, and clients beyond a bound
//! are left out. The use meter (`ledger/usage_meter.rs`) counts what calls cost, and leaves out no
//! client.

use crate::ids::ClassId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a period lasts. Views show the present one and the one before.
const PERIOD: Span = Span::from_secs(300);
/// The most classes and clients that are told apart, two hundred bytes each. People look at fifty.
const MAX_SHARERS: usize = 1024;
/// Upper bounds of waits, in milliseconds; the last bucket is for longer waits.
const BOUNDS: [u64; 12] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 120_000, 600_000];

/// One granted permit.
pub(crate) struct GrantedService<'a> {
    pub(crate) class: ClassId,
    /// None or empty for requests without a client's name.
    pub(crate) client: Option<&'a Arc<str>>,
    /// The dominant share: the longest time that one of the limits needs to refill the cost.
    pub(crate) share: Span,
    /// The time from asking to the start.
    pub(crate) waited: Span,
    /// Whether it went ahead of its turn, because its class had starved.
    pub(crate) is_promoted: bool,
}

/// The grants to one class or client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServiceCount {
    pub(crate) granted: u64,
    pub(crate) promoted: u64,
    /// The sum of all shares, in nanoseconds.
    pub(crate) share: u128,
    waits: [u32; BOUNDS.len() + 1],
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sharer {
    Class(ClassId),
    Client(Arc<str>),
}

/// The grants of the present period and of the one before.
#[derive(Clone, Debug)]
pub(crate) struct RecentService {
    since: Time,
    present_began: Time,
    counts: BTreeMap<Sharer, [ServiceCount; 2]>,
}

impl ServiceCount {
    fn note(&mut self, service: &GrantedService<'_>) {
        self.granted += 1;
        self.promoted += u64::from(service.is_promoted);
        self.share += u128::from(service.share.nanos());
        let bucket = BOUNDS.iter().position(|bound| service.waited <= Span::from_millis(*bound));
        self.waits[bucket.unwrap_or(BOUNDS.len())] += 1;
    }

    fn and(mut self, other: &ServiceCount) -> Self {
        self.granted += other.granted;
        self.promoted += other.promoted;
        self.share += other.share;
        self.waits.iter_mut().zip(other.waits).for_each(|(wait, more)| *wait += more);
        self
    }

    /// The upper bound of `percent` of the waits, at most the last bound.
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

    /// Notes a permit that is granted at `now`.
    pub(crate) fn note(&mut self, now: Time, service: &GrantedService<'_>) {
        self.advance(now);
        let client = service.client.filter(|client| !client.is_empty());
        let client = client.map(|client| Sharer::Client(Arc::clone(client)));
        for sharer in [Some(Sharer::Class(service.class)), client].into_iter().flatten() {
            let has_room = self.counts.len() < MAX_SHARERS || matches!(sharer, Sharer::Class(_));
            if has_room || self.counts.contains_key(&sharer) {
                self.counts.entry(sharer).or_default()[0].note(service);
            }
        }
    }

    /// Begins another period, if the present one is over.
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

    /// Since when grants are counted.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    pub(crate) fn class(&self, class: ClassId) -> ServiceCount {
        self.counts.get(&Sharer::Class(class)).map_or(ServiceCount::default(), |[present, former]| present.and(former))
    }

    /// All clients that are told apart, by name.
    pub(crate) fn clients(&self) -> BTreeMap<Arc<str>, ServiceCount> {
        let client = |(sharer, [present, former]): (&Sharer, &[ServiceCount; 2])| match sharer {
            Sharer::Client(name) => Some((Arc::clone(name), present.and(former))),
            Sharer::Class(_) => None,
        };
        self.counts.iter().filter_map(client).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(recent: &mut RecentService, at: Time, client: &str, millis: u64) {
        let (share, waited) = (Span::from_millis(5), Span::from_millis(millis));
        let client = Some(&Arc::from(client));
        recent.note(at, &GrantedService { class: ClassId(0), client, share, waited, is_promoted: false });
    }

    fn at(secs: u64) -> Time {
        Time::ORIGIN + Span::from_secs(secs)
    }

    #[test]
    fn two_periods_are_counted_and_older_ones_forgotten() {
        let mut recent = RecentService::new(at(0));
        note(&mut recent, at(10), "a", 2);
        note(&mut recent, at(310), "b", 2);
        assert_eq!((recent.clients().len(), recent.since()), (2, at(0)));
        note(&mut recent, at(620), "b", 2);
        let clients = recent.clients();
        assert_eq!((clients.len(), clients["b"].granted, recent.since()), (1, 2, at(310)));
        recent.advance(at(5_000));
        assert_eq!((recent.clients().len(), recent.since()), (0, at(5_000)));
    }

    #[test]
    fn beyond_the_bound_clients_count_for_their_class_alone() {
        let mut recent = RecentService::new(at(0));
        for number in 0..=MAX_SHARERS {
            note(&mut recent, at(0), &number.to_string(), 0);
        }
        assert_eq!(
            (recent.clients().len(), recent.class(ClassId(0)).granted),
            (MAX_SHARERS - 1, MAX_SHARERS as u64 + 1)
        );
    }

    #[test]
    fn percentiles_are_bounds_of_buckets() {
        let mut recent = RecentService::new(at(0));
        assert_eq!(recent.class(ClassId(0)).wait_within(50), None);
        (0..99).for_each(|_| note(&mut recent, at(0), "a", 2));
        note(&mut recent, at(0), "a", 20_000);
        let count = recent.class(ClassId(0));
        let waits = [50, 99, 100].map(|percent| count.wait_within(percent).unwrap());
        assert_eq!(waits, [3, 3, 30_000].map(Span::from_millis));
        note(&mut recent, at(0), "a", 2_000_000);
        assert_eq!(recent.class(ClassId(0)).wait_within(100), Some(Span::from_secs(600)));
    }
}
