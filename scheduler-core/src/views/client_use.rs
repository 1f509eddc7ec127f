//! What clients use.

pub use crate::ledger::use_meter::{ClientUse, OTHERS, Use};
use crate::scheduler::Scheduler;

impl<R: Clone> Scheduler<R> {
    /// What was used since the last call, by client and class, and by limit.
    ///
    /// A call counts when it is granted. Its settle corrects that, so that a sum may be negative.
    pub fn take_use(&mut self) -> Use {
        self.meter_mut().take()
    }
}
