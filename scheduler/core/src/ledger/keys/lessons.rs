//! What keys learn from responses to their calls.
//!
//! A key whose limit is the written one learns only its level. Once the upstream rejects one of its
//! calls, it has an [adaptive limit](AdaptiveLimit) of its own, until it is forgotten.

use super::Keys;
use crate::adaptation::AdaptiveLimit;
use crate::collections::Slot;
use rampmeter_policy::KeyCharge;
use rampmeter_policy::spec::Learn;
use rampmeter_protocol::time::{Span, Time};

/// The number of keys with adaptive limits, which remember many levels.
const MAX_ADAPTIVE: usize = 256;
const REVIEW: Span = Span::from_secs(1);

impl Keys {
    /// Lets the key of `charge` learn from responses to its calls, unless [`MAX_ADAPTIVE`] keys do
    /// or checkpoints list the keys of its limit.
    pub(crate) fn begin_to_adapt(&mut self, now: Time, charge: &KeyCharge) {
        let limit = &self.limits[charge.limit.index()];
        let learns = matches!(limit.spec().learn, Learn::Above(_)) && !limit.lists_keys();
        if learns && self.adaptive.len() < MAX_ADAPTIVE {
            let slot = self.find_or_insert(now, charge);
            self.change_at(now, slot, |known, written| known.begin_to_adapt(now, written));
            self.adaptive.insert(slot);
        }
    }

    /// Changes what a key has learned; `None` if its limit counts as written.
    pub(crate) fn learn_of<T>(
        &mut self,
        now: Time,
        slot: Slot,
        change: impl FnOnce(&mut AdaptiveLimit) -> T,
    ) -> Option<T> {
        self.get(slot)?.adaptive()?;
        self.note_change(slot);
        self.change_at(now, slot, |known, _| known.adaptive_mut().map(change))
    }

    pub(crate) fn next_review(&self) -> Option<Time> {
        (!self.adaptive.is_empty()).then_some(self.reviewed + REVIEW)
    }

    pub(crate) fn review(&mut self, now: Time) {
        self.reviewed = now;
        for slot in self.adaptive.clone() {
            let changes = self.change_at(now, slot, |known, _| {
                known.adaptive_mut().is_some_and(|adaptive| {
                    adaptive.advance(now);
                    adaptive.review(now)
                })
            });
            if changes {
                self.note_change(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::Resource;
    use rampmeter_policy::ids::LimitId;
    use rampmeter_policy::spec::{Applies, LimitSpec, ResourceSpec};
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::name::Name;

    #[test]
    fn a_bounded_number_of_keys_learns() {
        let (name, now) = (|name| Name::new(name).unwrap(), Time::ORIGIN);
        let applies = Applies { key: vec!["user".to_owned()], ..Applies::default() };
        let spec = LimitSpec::new(name("each"), name("requests"), Amount::ONE, Span::from_secs(1));
        let resource = Resource::new(&ResourceSpec::new(name("api"), vec![LimitSpec { applies, ..spec }])).unwrap();
        let mut keys = Keys::new(&resource, now);
        for key in 0..=MAX_ADAPTIVE {
            let charge = KeyCharge { limit: LimitId(0), key: key.to_string().into(), amount: Amount::ONE };
            keys.begin_to_adapt(now, &charge);
        }
        let learns = |key: usize| keys.find(LimitId(0), &key.to_string()).is_some();
        assert!(learns(MAX_ADAPTIVE - 1) && !learns(MAX_ADAPTIVE));
        assert_eq!(keys.adaptive.len(), MAX_ADAPTIVE);
    }
}
