//! Cancelled asks, as long as answers to them have to be given back.

use crate::event::{AskNumber, ResourceNumber};
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// How long a cancelled ask is remembered. A permit granted later counts as used, which is safe.
const KEPT: Span = Span::from_secs(60);
/// Most asks remembered. A permit for a forgotten one counts as used, which is safe.
const MOST: usize = 16_384;

#[derive(Debug, Default)]
pub(crate) struct Cancelled {
    resources: BTreeMap<AskNumber, ResourceNumber>,
    oldest_first: VecDeque<(Time, AskNumber)>,
}

impl Cancelled {
    pub(crate) fn insert(&mut self, now: Time, number: AskNumber, resource: ResourceNumber) {
        if self.resources.insert(number, resource).is_some() {
            return;
        }
        self.oldest_first.push_back((now, number));
        while self.oldest_first.len() > MOST || self.oldest_is_over(now) {
            let (_, number) = self.oldest_first.pop_front().expect("there is an oldest one");
            self.resources.remove(&number);
        }
    }

    pub(crate) fn get(&self, number: AskNumber) -> Option<ResourceNumber> {
        self.resources.get(&number).copied()
    }

    fn oldest_is_over(&self, now: Time) -> bool {
        self.oldest_first.front().is_some_and(|(since, _)| now.since(*since) > KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(asks: u64, gap: Span) -> Cancelled {
        let mut cancelled = Cancelled::default();
        for ask in 0..asks {
            let now = Time::from_nanos(ask * gap.nanos());
            cancelled.insert(now, AskNumber(ask), ResourceNumber(0));
        }
        cancelled
    }

    #[test]
    fn the_oldest_is_forgotten_by_number_or_by_age() {
        let by_number = filled(MOST as u64 + 1, Span::ZERO);
        assert_eq!((by_number.get(AskNumber(0)), by_number.resources.len()), (None, MOST));
        let by_age = filled(100, Span::from_secs(1));
        assert_eq!((by_age.get(AskNumber(38)), by_age.get(AskNumber(39))), (None, Some(ResourceNumber(0))));
    }
}
