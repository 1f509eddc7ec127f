//! Recognizes a repeated request by its sender and content.

use hashbrown::DefaultHashBuilder;
use rampmeter_protocol::request::{PermitRequest, Way};
use std::hash::{BuildHasher, Hash};
use std::sync::LazyLock;

/// Four hashes of 16 bits for the sender and the content of a request. They cover the NATS user
/// with the client's `from`, the cost, the class with the labels, and the user alone. A part that a
/// request does not state is zero, and not compared.
///
/// Reply subjects and connections do not count: a request may be repeated over another connection.
/// The default means unknown, as for a permit of a former leader. Ids are secrets, so only badly
/// chosen ids collide. The hashes miss one of 65 000 collisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity([u16; 4]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct User(u16);

impl Identity {
    /// Returns the identity of a request by this user.
    #[must_use]
    pub fn of(user: &str, request: &PermitRequest<'_>) -> Self {
        let stated = |is_stated: bool, hash: u64| if is_stated { (hash as u16).max(1) } else { 0 };
        let (class, from) = (request.class.as_deref(), request.from.as_deref());
        let (cost, labels) = (of_members(request.cost.iter()), of_members(request.labels.iter()));
        let of_way =
            |way: &Way<'_>| (of_members(way.cost.iter()), of_members(way.labels.iter()), way.else_after_ms.span());
        let ways: Vec<_> = request.any_of.iter().map(of_way).collect();
        Identity([
            stated(!user.is_empty() || from.is_some(), hash_of((user, from))),
            stated(!request.cost.is_empty(), cost),
            stated(
                class.is_some() || !request.labels.is_empty() || !request.not.is_empty() || !ways.is_empty(),
                hash_of((class, labels, &request.not, ways)),
            ),
            stated(!user.is_empty(), hash_of(user)),
        ])
    }

    pub(crate) fn user(self) -> Option<User> {
        Some(User(self.0[3])).filter(|user| *user != User(0))
    }

    /// Whether both may belong to the same request. Unknown parts are not compared.
    pub(crate) fn may_be(self, other: Identity) -> bool {
        self.0.iter().zip(other.0).all(|(own, other)| *own == other || *own == 0 || other == 0)
    }
}

/// Hashes the members of an object, which clients may write in any order.
fn of_members(members: impl Iterator<Item = impl Hash>) -> u64 {
    members.map(hash_of).fold(0, u64::wrapping_add)
}

/// Hashes for comparison in one process. The seed is random, so no client can make hashes equal.
pub fn hash_of(value: impl Hash) -> u64 {
    static HASHES: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
    HASHES.hash_one(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::epoch::Epoch;
    use rampmeter_protocol::request::Mode;

    fn request(cost: [(&'static str, f64); 2], labels: [(&'static str, &'static str); 2]) -> PermitRequest<'static> {
        let mut request = PermitRequest { class: Some("bulk".into()), ..PermitRequest::default() };
        cost.iter().for_each(|(unit, units)| request.cost.set(*unit, Amount::new(*units).unwrap()).unwrap());
        labels.iter().for_each(|(label, value)| request.labels.set(*label, *value).unwrap());
        request
    }

    #[test]
    fn a_request_is_the_same_if_the_same_user_asks_for_the_same() {
        let here = |request| PermitRequest { from: Some("host-1".into()), ..request };
        let asked = || here(request([("requests", 1.0), ("units", 2.0)], [("a", "1"), ("b", "2")]));
        let first = Identity::of("_INBOX_worker", &asked());
        let in_another_order = here(request([("units", 2.0), ("requests", 1.0)], [("b", "2"), ("a", "1")]));
        let repeated =
            PermitRequest { mode: Mode::Wait, epoch: Some(Epoch::new(7)), progress: true, ..in_another_order };
        assert!(first.may_be(Identity::of("_INBOX_worker", &repeated)));
        let unstated = here(PermitRequest::default());
        assert!(first.may_be(Identity::of("_INBOX_worker", &unstated)), "a repetition may leave out the rest");
        let others = [
            ("_INBOX_other", asked()),
            ("_INBOX_worker", PermitRequest { from: Some("host-2".into()), ..asked() }),
            ("_INBOX_worker", PermitRequest { from: None, ..asked() }),
            ("_INBOX_worker", PermitRequest { class: Some("urgent".into()), ..asked() }),
            ("_INBOX_worker", here(request([("requests", 2.0), ("units", 1.0)], [("a", "1"), ("b", "2")]))),
            ("_INBOX_worker", here(request([("requests", 1.0), ("units", 2.0)], [("a", "2"), ("b", "1")]))),
        ];
        for (user, request) in others {
            assert!(!first.may_be(Identity::of(user, &request)), "{user} {request:?}");
            assert!(Identity::default().may_be(Identity::of(user, &request)), "a former leader's permit");
        }
    }
}
