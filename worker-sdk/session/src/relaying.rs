//! Sessions that relay for clients with sessions of their own.

use super::event::{AskNumber, ResourceNumber};
use super::{Session, SessionOptions};
use crate::asks::longest_silence::LongestSilence;
use rampmeter_protocol::lateness::BaseDelay;

impl Session {
    /// Asks on behalf of clients with their own sessions, as the HTTP front does, one for each. A request keeps the id
    /// that its client chose. Where another id or a later attempt would help, the client is notified instead. The
    /// refusal at a deadline is the scheduler's own; a scheduler that says `unavailable` counts as silent. Lost
    /// messages are sent again sooner, and leases are renewed by the client.
    #[must_use]
    pub fn relaying(mut self) -> Self {
        self.longest_silence = LongestSilence::for_http_front(&mut self.dice);
        Session { relays: true, options: SessionOptions { renews: false, ..self.options }, ..self }
    }

    /// Returns the base delay of the answers about `resource`, for sessions that share it.
    pub fn base_delay(&mut self, resource: ResourceNumber) -> &mut BaseDelay {
        &mut self.outbox(resource).schedulers.base_delay
    }

    /// Returns the ask whose permit has this id now: the inverse of [`id`](Self::id).
    #[must_use]
    pub fn ask_of(&self, id: &str) -> Option<AskNumber> {
        match self.ids.ask(id) {
            None if self.relays => self.asks.of_id(id),
            own => own,
        }
    }
}
