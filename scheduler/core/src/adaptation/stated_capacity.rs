//! The capacity that the upstream states in its answers, if that is less than the written one.
//!
//! A lower capacity counts at once. A higher one counts after answers have stated it for some
//! seconds. These must be answers to the client that reported the lower capacity, or to two other
//! clients. The capacity never exceeds the written one: a wrong answer could otherwise get every
//! call rejected.

use crate::ids::Connection;
use crate::policy::spec::{Learn, LimitSpec};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};

/// For how long, and by how many responses, a higher capacity has to be stated.
const CONSISTENT: Span = Span::from_secs(5);
const ANSWERS: u32 = 3;

/// A capacity below the written one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stated {
    pub(crate) capacity: Amount,
    pub(crate) since: Time,
    by: Connection,
}

/// A higher capacity that responses have begun to state.
#[derive(Clone, Copy, Debug)]
struct Rise {
    least: Amount,
    since: Time,
    answers: u32,
    by: Connection,
    /// Whether the client that reported the lower capacity, or a second client, reports this one.
    is_confirmed: bool,
}

/// The capacity in force, and a higher one that responses have begun to state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StatedCapacity {
    lowered: Option<Stated>,
    rise: Option<Rise>,
}

impl StatedCapacity {
    /// The capacity that the upstream stated to a predecessor.
    pub(crate) fn restored(spec: &LimitSpec, capacity: Amount, since: Time) -> Self {
        let lowered = bounded(spec, capacity).filter(|capacity| *capacity < spec.capacity);
        let stated = |capacity| Stated { capacity, since, by: Connection::UNKNOWN };
        StatedCapacity { lowered: lowered.map(stated), rise: None }
    }

    /// The capacity that counts in place of the written one.
    pub(crate) fn lowered(&self) -> Option<Stated> {
        self.lowered
    }

    /// Takes the capacity that a response to a call over `connection` states. Returns whether the
    /// capacity in force changes.
    pub(crate) fn take_report(
        &mut self,
        now: Time,
        connection: Connection,
        spec: &LimitSpec,
        capacity: Amount,
    ) -> bool {
        let Some(reported) = bounded(spec, capacity) else { return false };
        let (in_force, lowered_by) =
            self.lowered.map_or((spec.capacity, connection), |lowered| (lowered.capacity, lowered.by));
        if reported <= in_force {
            self.rise = None;
            if reported < in_force {
                self.lowered = Some(Stated { capacity: reported, since: now, by: connection });
            }
            return reported < in_force;
        }
        let first = Rise { least: reported, since: now, answers: 0, by: connection, is_confirmed: false };
        let rise = self.rise.get_or_insert(first);
        rise.least = rise.least.min(reported);
        rise.answers += 1;
        rise.is_confirmed |= connection.differs_from(rise.by) || !connection.differs_from(lowered_by);
        let Rise { least, since, answers, is_confirmed, .. } = *rise;
        let counts = is_confirmed && answers >= ANSWERS && now >= since + CONSISTENT;
        if counts {
            let lowered = Some(Stated { capacity: least, since: now, by: connection });
            *self = StatedCapacity { lowered: lowered.filter(|lowered| lowered.capacity < spec.capacity), rise: None };
        }
        counts
    }
}

/// The capacity within the bounds of learning; none if the limit never learns.
fn bounded(spec: &LimitSpec, capacity: Amount) -> Option<Amount> {
    let Learn::Above(share) = spec.learn else { return None };
    let floor = (spec.capacity.micros() as f64 * share).ceil() as u64;
    Amount::from_micros(capacity.micros().max(floor.max(1)).min(spec.capacity.micros())).ok()
}
