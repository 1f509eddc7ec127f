//! Shadow limits: they measure which calls they would delay, and delay none.
//!
//! Their buckets charge calls at their granted starts. A call that finds too little stock is
//! charged at the time at which it could have started. Snapshots do not contain these buckets.

use super::Ledger;
use crate::limits::{CallMade, StartKey};
use rampmeter_policy::ids::{LimitId, Tier};
use rampmeter_policy::{Bill, Resource, Succession, by_unit};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::status::ShadowStatus;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;

/// A call that would have waited longer is not charged, as its client would have given up.
const LONGEST_CHARGED_WAIT: Span = Span::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct ShadowLimits {
    resource: Resource,
    ledger: Ledger,
    tallies: Vec<ShadowStatus>,
}

impl ShadowLimits {
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        let resource = resource.shadow().clone();
        let tallies = vec![ShadowStatus::default(); resource.limits().len()];
        ShadowLimits { ledger: Ledger::new(&resource, now), resource, tallies }
    }

    pub(crate) fn advance(&mut self, now: Time) {
        self.ledger.advance(now);
    }

    /// Adopts the shadow limits of another resource. A limit that continues keeps its tally.
    pub(crate) fn change(&mut self, now: Time, resource: &Resource) {
        let after = resource.shadow().clone();
        let succession = Succession::between(&self.resource, &after);
        self.ledger.change(now, &after, &succession);
        let tally =
            |from: &Option<LimitId>| from.map_or_else(ShadowStatus::default, |limit| self.tallies[limit.index()]);
        self.tallies = succession.before().iter().map(tally).collect();
        self.resource = after;
    }

    pub(crate) fn anchor(&mut self, now: Time, wall_clock: WallClockOrigin) {
        self.resource = self.resource.clone().with_wall_clock(wall_clock);
        self.ledger.anchor(now, &self.resource);
    }

    /// Corrects the charge of a call to its actual cost. Without a cost, the call was not made.
    pub(crate) fn correct(
        &mut self,
        now: Time,
        key: StartKey,
        bill: &Bill,
        cost: Option<&[(String, Amount)]>,
        made: CallMade,
    ) {
        let Some(charged) = &bill.shadow else { return };
        let actual = cost.map_or_else(Bill::default, |cost| self.resource.corrected(charged, by_unit(cost)));
        self.ledger.correct(now, key, charged, &actual, made);
    }

    pub(crate) fn measured(&self) -> (&Resource, &Ledger, &[ShadowStatus]) {
        (&self.resource, &self.ledger, &self.tallies)
    }

    /// Measures what a limit would have done to a call with this start that would wait until
    /// `latest`, and charges `bill` to it.
    pub(crate) fn note_granted(&mut self, now: Time, key: StartKey, limit: LimitId, bill: &Bill, latest: Time) {
        assert_eq!(self.tallies.len(), self.resource.limits().len(), "each limit is measured");
        let tally = &mut self.tallies[limit.index()];
        tally.calls += 1;
        if self.resource.check_payable(bill).is_err() {
            tally.would_refuse += 1;
            return;
        }
        if self.ledger.limit_without_room(now, bill).is_some() {
            return;
        }
        let at = self.ledger.earliest(key.at, bill, Tier::NO_HEADROOM).at;
        let wait = at.since(key.at);
        if at > latest {
            tally.would_refuse += 1;
            return;
        }
        if wait > Span::ZERO {
            tally.would_wait += 1;
            tally.longest_wait_ms = tally.longest_wait_ms.max(wait.millis());
        }
        if wait <= LONGEST_CHARGED_WAIT {
            self.ledger.commit(now, StartKey { at, ..key }, bill, Tier::NO_HEADROOM);
        }
    }
}
