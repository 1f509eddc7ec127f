//! What clients use.

pub use crate::ledger::use_meter::{ClientUse, OTHERS, RecentUse, Use};
use crate::scheduler::Scheduler;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// What was used since the last call, by client and class, and by limit.
    ///
    /// A call counts when it is granted. Its settle corrects that, so that a sum may be negative.
    pub fn take_use(&mut self, now: Time) -> Use {
        self.meter_mut().take(now)
    }

    /// What clients used of each unit within the last one to two minutes. It takes nothing from
    /// [`Scheduler::take_use`], and can be asked at any time.
    #[must_use]
    pub fn recent_use(&self, now: Time) -> RecentUse {
        self.meter().recent(now)
    }
}
