//! How long recent calls took, and how much they took from each limit.

use super::calls_in_flight::CallsInFlight;
use crate::ids::LimitId;
use crate::limits::StartKey;
use crate::policy::Bill;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// Each later call reduces the weight of a former one by one part in this many.
const FADING_PART: f64 = 256.0;

/// The calls in flight, and means over calls that ended. A snapshot does not contain them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentCalls {
    in_flight: CallsInFlight,
    served: Served,
}

/// Weighted sums over served calls. Later calls have more weight.
#[derive(Clone, Debug, Default)]
struct Served {
    calls: f64,
    secs: f64,
    amounts: BTreeMap<LimitId, f64>,
}

impl RecentCalls {
    pub(crate) fn begin(&mut self, now: Time, key: StartKey) {
        self.in_flight.begin(now, key);
    }

    /// Notes that a start was given back.
    pub(crate) fn withdraw(&mut self, key: StartKey) {
        self.in_flight.end(key);
    }

    /// Notes that a call has ended. `served` has its charges, unless it was rejected.
    pub(crate) fn end(&mut self, now: Time, key: StartKey, served: Option<&Bill>) {
        self.in_flight.end(key);
        served.into_iter().for_each(|bill| self.served.add(now.since(key.at), bill));
    }

    pub(crate) fn in_flight(&self) -> &CallsInFlight {
        &self.in_flight
    }

    /// The mean time of a served call in seconds, and its mean charge to `limit`. Calls without
    /// such a charge count, too. None before the first charge.
    pub(crate) fn means(&self, limit: LimitId) -> Option<(f64, f64)> {
        let Served { calls, secs, amounts } = &self.served;
        amounts.get(&limit).map(|amount| (secs / calls, amount / calls))
    }

    /// Forgets the means, because their charges are to former limits.
    pub(crate) fn change_limits(&mut self) {
        self.served = Served::default();
    }
}

impl Served {
    fn add(&mut self, taken: Span, bill: &Bill) {
        let stays = 1.0 - 1.0 / FADING_PART;
        self.calls = self.calls * stays + 1.0;
        self.secs = self.secs * stays + taken.secs();
        self.amounts.values_mut().for_each(|amount| *amount *= stays);
        for (limit, amount) in bill.amounts() {
            *self.amounts.entry(limit).or_default() += amount.units();
        }
    }
}
