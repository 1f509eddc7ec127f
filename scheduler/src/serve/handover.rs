//! Giving a resource up that many wait for.

use super::permit_loop::PermitLoop;
use rampmeter_scheduler_core::event::Event;

/// Answers that go out at once where there are many: a millisecond's work or two.
const SLICE: usize = 512;

impl PermitLoop {
    /// Sends everybody elsewhere who waits, slice by slice: between two of them the connection takes the answers up, and other loops
    /// of this thread go on.
    pub(super) async fn send_elsewhere(&mut self) {
        let now = self.clock.now();
        self.core.handle(now, Event::HandOver);
        while let Some(first) = self.core.poll_command() {
            self.answer(now, first);
            for _ in 1..SLICE {
                let Some(command) = self.core.poll_command() else { break };
                self.answer(now, command);
            }
            self.publish().await;
            tokio::task::yield_now().await;
        }
    }
}
