//! Who asks for what: tells a repeated request from another one under the same id.

use rampmeter_protocol::request::PermitRequest;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;

/// Who asks, and for what: the NATS user, the client's `from`, class, cost and labels, as 32 bits of
/// a hash. An id is a secret, so that only ids collide that two clients have chosen badly; of four
/// billion collisions one stays unnoticed.
///
/// Reply subjects and connections do not count: a request that is repeated over another connection
/// is the same request. The default is unknown, as for a permit of a former leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity(Option<NonZeroU32>);

impl Identity {
    /// Of a request by this user.
    #[must_use]
    pub fn of(user: &str, request: &PermitRequest<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        (user, request.from.as_deref(), request.class.as_deref()).hash(&mut hasher);
        // Clients may write the members of an object in any order.
        let cost = request.cost.iter().map(|(unit, amount)| hash_of((unit, amount)));
        let labels = request.labels.iter().map(|(label, value)| hash_of((label, value)));
        (cost.fold(0, u64::wrapping_add), labels.fold(0, u64::wrapping_add)).hash(&mut hasher);
        Identity(NonZeroU32::new(hasher.finish() as u32 | 1))
    }

    /// Whether both may be the same request, as far as both are known.
    pub(crate) fn may_be(self, other: Identity) -> bool {
        self.0.zip(other.0).is_none_or(|(own, other)| own == other)
    }
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::request::Mode;

    fn request(cost: [(&'static str, f64); 2], labels: [(&'static str, &'static str); 2]) -> PermitRequest<'static> {
        let mut request = PermitRequest { class: Some("bulk".into()), ..PermitRequest::default() };
        cost.iter().for_each(|(unit, units)| request.cost.set(*unit, Amount::new(*units).unwrap()).unwrap());
        labels.iter().for_each(|(label, value)| request.labels.set(*label, *value).unwrap());
        request
    }

    #[test]
    fn a_request_is_the_same_if_the_same_user_asks_for_the_same() {
        let asked = || request([("requests", 1.0), ("units", 2.0)], [("a", "1"), ("b", "2")]);
        let first = Identity::of("_INBOX_worker", &asked());
        let in_another_order = request([("units", 2.0), ("requests", 1.0)], [("b", "2"), ("a", "1")]);
        let repeated = PermitRequest { mode: Mode::Wait, epoch: Some(7), progress: true, ..in_another_order };
        assert!(first.may_be(Identity::of("_INBOX_worker", &repeated)));
        let others = [
            ("_INBOX_other", asked()),
            ("_INBOX_worker", PermitRequest { from: Some("host-1".into()), ..asked() }),
            ("_INBOX_worker", PermitRequest { class: None, ..asked() }),
            ("_INBOX_worker", request([("requests", 2.0), ("units", 1.0)], [("a", "1"), ("b", "2")])),
            ("_INBOX_worker", request([("requests", 1.0), ("units", 2.0)], [("a", "2"), ("b", "1")])),
        ];
        for (user, request) in others {
            assert!(!first.may_be(Identity::of(user, &request)), "{user} {request:?}");
            assert!(Identity::default().may_be(Identity::of(user, &request)), "a former leader's permit");
        }
    }
}
