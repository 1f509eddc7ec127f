//! Showing the starts of calls to limits in shadow mode.

use super::Scheduler;
use super::permits::State;
use crate::collections::Slot;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// Shows shadow limits the start that the permit in `slot` was granted, which it would not have wanted later than `latest`.
    pub(crate) fn shadow(&mut self, now: Time, slot: Slot, latest: Time) {
        let permit = self.permits.get(slot);
        let (State::Granted(granted), Some(bill)) = (&permit.state, &permit.bill.shadow) else { return };
        for limit in bill.applicable().limits() {
            self.shadow_limits.see(now, granted.key, limit, &bill.only(limit), latest);
        }
    }
}
