//! Ceilings of limits that are written far too high: the capacities that the upstream seems to allow.
//!
//! A ceiling is raised in steps while no sample lowers it again, as an upstream may allow more later.
//! Steps that fail make the next one wait longer, as in TCP's back-off; steps that hold make it come
//! sooner.

use crate::ids::LimitId;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// A step is one part in this many of the ceiling.
const STEP_PART: u64 = 20;
const FIRST_WAIT: Span = Span::from_secs(120);
const SHORTEST_WAIT: Span = Span::from_secs(60);
const LONGEST_WAIT: Span = Span::from_secs(3600);

/// The ceilings of a resource, at most one for each limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ceilings(BTreeMap<LimitId, Ceiling>);

#[derive(Clone, Copy, Debug)]
struct Ceiling {
    capacity: Amount,
    wait: Span,
    raise_at: Time,
}

impl Ceilings {
    /// Lowers the ceiling of `limit` to what the upstream seems to allow, and returns whether that
    /// changes it.
    pub(crate) fn lower(&mut self, now: Time, limit: LimitId, allowed: Amount) -> bool {
        let known = self.0.get(&limit);
        if known.is_some_and(|known| known.capacity <= allowed) {
            return false;
        }
        let wait = known.map_or(FIRST_WAIT, |known| Span::from_nanos(known.wait.nanos() * 2).min(LONGEST_WAIT));
        self.0.insert(limit, Ceiling { capacity: allowed, wait, raise_at: now + wait });
        true
    }

    /// Raises the ceilings whose time has come, and returns them; none if the limit needs none any
    /// more, since it is `written` as low.
    pub(crate) fn raise(&mut self, now: Time, written: impl Fn(LimitId) -> Amount) -> Vec<(LimitId, Option<Amount>)> {
        let due = self.0.iter_mut().filter(|(_, ceiling)| ceiling.raise_at <= now);
        let raised = due.map(|(limit, ceiling)| {
            let step = Amount::from_micros(ceiling.capacity.micros() / STEP_PART + 1).unwrap_or(Amount::ONE);
            ceiling.capacity = ceiling.capacity.saturating_add(step);
            ceiling.wait = Span::from_nanos(ceiling.wait.nanos() / 2).max(SHORTEST_WAIT);
            ceiling.raise_at = now + ceiling.wait;
            (*limit, Some(ceiling.capacity).filter(|capacity| *capacity < written(*limit)))
        });
        let raised: Vec<_> = raised.collect();
        self.0.retain(|limit, _| !raised.contains(&(*limit, None)));
        raised
    }
}
