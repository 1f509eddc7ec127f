//! A window whose capacity is spread over its time (`pace`).
//!
//! The window gives out a tenth of its capacity at its beginning. The rest is given out evenly, so
//! that the last possible start finds the whole capacity. Pacing needs no state except the usage of
//! the window.

use super::window_phase::Windows;
use crate::arithmetic::{Credit, Window};
use crate::ids::Tier;
use crate::policy::Limit;
use rampmeter_protocol::time::{Span, Time};

/// One part in this many of the capacity is free at the beginning. The same part of each headroom
/// is left at that time.
const FREE_PART: u64 = 10;

/// How much of a window is given out when. Amounts are in millionths.
#[derive(Clone, Copy)]
pub(super) struct PacedWindow<'a> {
    limit: &'a Limit,
    starts: Time,
    /// From the beginning to the last possible start.
    length: Span,
    /// The amount that is free at the beginning.
    free: u64,
    /// The amount that comes evenly after that.
    rest: u64,
}

impl<'a> PacedWindow<'a> {
    /// The pace of `window`; none if the limit is not paced.
    pub(super) fn of(limit: &'a Limit, windows: Windows<'_>, window: Window) -> Option<Self> {
        let (_, end) = windows.starts_in(window);
        let length = Span::from_nanos(end.since(window.starts).nanos().saturating_sub(1));
        let full = u64::try_from(limit.rate().micros(limit.full())).unwrap_or(0);
        let free = full / FREE_PART;
        limit.is_paced().then_some(PacedWindow { limit, starts: window.starts, length, free, rest: full - free })
    }

    /// The first time at which the window has given out `used` and leaves the headroom of `tier`.
    /// The headroom shrinks to nothing towards the end. A use above the capacity gets the last
    /// possible start.
    pub(super) fn gives(self, used: Credit, tier: Tier) -> Time {
        let micros = |credit| self.limit.rate().micros_up(credit);
        let headroom = micros(self.limit.headroom(tier)) / FREE_PART;
        let missing = micros(used).min(self.free + self.rest).saturating_add(headroom).saturating_sub(self.free);
        let (length, whole) = (u128::from(self.length.nanos()), u128::from((self.rest + headroom).max(1)));
        let after = (u128::from(missing) * length).div_ceil(whole);
        self.starts + Span::from_nanos(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// The amount that the window has given out by `now`.
    pub(super) fn given(self, now: Time) -> Credit {
        let passed = u128::from(now.since(self.starts).min(self.length).nanos());
        let come = u128::from(self.rest) * passed / u128::from(self.length.nanos().max(1));
        self.limit.rate().credit_of_micros(i128::from(self.free) + come as i128)
    }
}
