//! Limits in shadow mode: it is measured whom they would hold up, and nobody is.
//!
//! Their buckets are of the same kind as those that count, and are drawn on at the starts that calls were granted. A call that finds too
//! little takes what it needs when it would have been there, as if it had waited. Nothing of it is kept from one leader to the next.

use crate::bill::Bill;
use crate::ledger::Ledger;
use crate::limit::Limit;
use crate::permits::State;
use crate::resource::{LimitId, Resource};
use crate::rules::Succession;
use crate::scheduler::Scheduler;
use crate::slab::Slot;
use crate::timeline::Key;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::status::ShadowStatus;
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

/// Who would have waited for longer has gone elsewhere, as far as what it would have taken is concerned.
const LONGEST_WAIT: Span = Span::from_secs(10);

/// What shadow limits have seen.
#[derive(Clone, Debug)]
pub(crate) struct Shadows(Option<Observer>);

#[derive(Clone, Debug)]
struct Observer {
    resource: Arc<Resource>,
    ledger: Ledger,
    /// By limit.
    tallies: Vec<ShadowStatus>,
}

impl Shadows {
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        Shadows(resource.shadow().map(|resource| Observer {
            resource: Arc::clone(resource),
            ledger: Ledger::new(resource, now),
            tallies: vec![ShadowStatus::default(); resource.limits().len()],
        }))
    }

    pub(crate) fn advance(&mut self, now: Time) {
        if let Some(Observer { ledger, .. }) = &mut self.0 {
            ledger.advance(now);
        }
    }

    /// Goes on with the shadow limits of another resource; what was measured of those that go on is kept.
    pub(crate) fn change(&mut self, now: Time, resource: &Resource) {
        let (Some(before), Some(after)) = (&mut self.0, resource.shadow()) else {
            *self = Shadows::new(resource, now);
            return;
        };
        let succession = Succession::between(&before.resource, after);
        before.ledger.change(now, after, &succession);
        let tally =
            |from: &Option<LimitId>| from.map_or_else(ShadowStatus::default, |limit| before.tallies[limit.index()]);
        before.tallies = succession.before().iter().map(tally).collect();
        before.resource = Arc::clone(after);
    }

    /// The wall clock showed something else at the origin of time.
    pub(crate) fn anchor(&mut self, now: Time, unix_at_origin: u64) {
        if let Some(Observer { resource, ledger, .. }) = &mut self.0 {
            *resource = Arc::new((**resource).clone().at_unix(unix_at_origin));
            ledger.anchor(now, unix_at_origin);
        }
    }

    /// A call with this bill was granted a start, and would have come no later than `latest`.
    fn see(&mut self, now: Time, key: Key, bill: &Bill, latest: Time) {
        let (Some(observer), Some(bill)) = (&mut self.0, bill.shadow()) else { return };
        for limit in bill.reached().limits() {
            observer.see(now, key, limit, bill, latest);
        }
    }

    /// A call that was granted this start has turned out to cost something else: nothing, where no cost is given.
    pub(crate) fn correct(&mut self, now: Time, key: Key, bill: &Bill, cost: Option<&[(String, Amount)]>) {
        let (Some(observer), Some(charged)) = (&mut self.0, bill.shadow()) else { return };
        let actual = match cost {
            None => Bill::new(),
            Some(cost) => {
                let by_unit = cost.iter().map(|(unit, amount)| (unit.as_str(), *amount));
                observer.resource.with_amounts(charged, by_unit)
            }
        };
        observer.ledger.correct(now, key, charged, &actual, cost.is_some());
    }

    /// The limits, with what was measured of each.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (LimitId, &Limit, &Ledger, ShadowStatus)> {
        let limits = |observer: &'_ Observer| observer.resource.limits().len();
        let count = self.0.as_ref().map_or(0, limits);
        (0..count).filter_map(|index| {
            let observer = self.0.as_ref()?;
            let limit = &observer.resource.limits()[index];
            Some((LimitId(index as u8), limit, &observer.ledger, observer.tallies[index]))
        })
    }
}

impl Observer {
    fn see(&mut self, now: Time, key: Key, id: LimitId, bill: &Bill, latest: Time) {
        let amount = bill.get(id);
        let one = bill.of_limit(id);
        let tally = &mut self.tallies[id.index()];
        tally.calls += 1;
        if amount > self.resource.limits()[id.index()].spec().capacity {
            tally.would_refuse += 1;
            return;
        }
        if one.keyed().any(|charge| !self.ledger.keys.has_room_for(now, charge)) {
            return;
        }
        let at = self.ledger.earliest(key.at, &one, 0).at;
        let wait = at.since(key.at);
        if at > latest {
            tally.would_refuse += 1;
            return;
        }
        if wait > Span::ZERO {
            tally.would_wait += 1;
            tally.longest_wait_ms = tally.longest_wait_ms.max(wait.millis());
        }
        if wait <= LONGEST_WAIT {
            self.ledger.commit(now, Key { at, ..key }, &one, 0);
        }
    }
}

impl<R: Clone> Scheduler<R> {
    /// Shows shadow limits the start that the permit in `slot` was granted, which it would not have wanted later than `latest`.
    pub(crate) fn shadow(&mut self, now: Time, slot: Slot, latest: Time) {
        let permit = self.permits.get(slot);
        if let State::Granted(granted) = &permit.state {
            self.shadows.see(now, granted.key, &permit.bill, latest);
        }
    }
}
