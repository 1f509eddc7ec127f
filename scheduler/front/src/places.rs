//! Bounded places that clients of the front share.

use rampmeter_protocol::name::Name;
use rampmeter_protocol::shared_places::SharedPlaces;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A holder may have this many times the free places: two thirds of all, if no other holder has any.
const TIMES_FREE: usize = 2;
/// The bits of an IPv6 address that its owner chooses: all addresses of a network are one client.
const OWN_BITS: u32 = 64;

/// A client, identified by the token that it shows, or else by its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Party {
    Token(Name),
    Address(IpAddr),
}

impl Party {
    pub(super) fn at(address: IpAddr) -> Self {
        Party::Address(match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> OWN_BITS << OWN_BITS).into(),
        })
    }
}

/// Places of which no holder has more than twice as many as are free. Shared by all clones.
#[derive(Clone, Debug)]
pub(super) struct Places<H> {
    total: usize,
    taken: Arc<Mutex<Taken<H>>>,
}

#[derive(Debug)]
struct Taken<H> {
    count: usize,
    by_holder: SharedPlaces<H>,
}

/// A place, taken until this is dropped.
#[derive(Debug)]
pub(super) struct Place<H: Eq + Hash> {
    places: Places<H>,
    holder: H,
}

impl<H: Eq + Hash + Clone> Places<H> {
    pub(super) fn new(total: usize) -> Self {
        let taken = Taken { count: 0, by_holder: SharedPlaces::default() };
        Places { total, taken: Arc::new(Mutex::new(taken)) }
    }

    /// Takes a place for `holder`, if it may have one more.
    pub(super) fn take(&self, holder: H) -> Option<Place<H>> {
        let mut taken = self.lock();
        if !taken.by_holder.may_take(&holder, TIMES_FREE, self.total - taken.count) {
            return None;
        }
        taken.count += 1;
        taken.by_holder.take(holder.clone());
        drop(taken);
        Some(Place { places: self.clone(), holder })
    }
}

impl<H> Places<H> {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().count == 0
    }

    fn lock(&self) -> MutexGuard<'_, Taken<H>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Eq + Hash> Drop for Place<H> {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.count -= 1;
        taken.by_holder.give_back(&self.holder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_has_at_most_twice_the_free_places() {
        let places = Places::new(9);
        let fill = |holder: &'static str| std::iter::from_fn(|| places.take(holder)).collect::<Vec<_>>();
        let (greedy, other, last) = (fill("greedy"), fill("other"), fill("last"));
        assert_eq!((greedy.len(), other.len(), last.len()), (6, 2, 1));
        drop(other);
        assert_eq!((fill("greedy").len(), fill("other").len()), (0, 2));
    }

    #[test]
    fn a_client_is_a_token_or_an_address_and_its_network() {
        let at = |text: &str| Party::at(text.parse().unwrap());
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:0:0:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
    }
}
