//! Walks along waiting requests: to probe those of clients that may be gone, and to end waits.
//!
//! A walk along waiting requests is a step of the driver, not an event. It takes a predicate over
//! addresses, which the core never reads, and ends when the driver says so.
//!
//! Requests of a dead connection that want only one message are told to ask again. Grants as probes
//! would take longer: the limit pays for only so many in each round trip. A living client asks
//! again at once, with its old age. A connection is an inbox without its last token. If a client
//! has one inbox for each request, only its undelivered grants show that it is gone.

use crate::collections::Slot;
use crate::ids::ClassId;
use crate::permits::{Permit, Permits};
use crate::queue::Waiting;

/// Permits that one step of a [`QueueCursor`] examines: a fraction of a millisecond.
const MAX_WALKED: usize = 1024;
/// Requests that one step probes or ends: a fraction of a millisecond, too.
const MAX_MATCHES: usize = 64;

/// A walk along all waiting requests in short steps. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCursor(usize);

impl QueueCursor {
    /// The waiting requests that the next step finds, and where to go on if there are more.
    pub(super) fn step<R>(
        self,
        permits: &Permits<R>,
        matches: impl Fn(&Waiting<R>) -> bool,
    ) -> (Vec<Slot>, Option<QueueCursor>) {
        let QueueCursor(from) = self;
        let mut found = Vec::new();
        for index in from..from + MAX_WALKED {
            let Some(slot) = permits.nth_slot(index) else { return (found, None) };
            if permits.find_at(slot).and_then(Permit::as_waiting).is_some_and(&matches) {
                found.push(slot);
            }
            if found.len() == MAX_MATCHES {
                return (found, Some(QueueCursor(index + 1)));
            }
        }
        (found, Some(QueueCursor(from + MAX_WALKED)))
    }
}

/// The requests whose waits are to be ended: those of this client and of this class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The client, as the fair share has it; none means any.
    pub client: Option<String>,
    /// The class; none means any.
    pub class: Option<ClassId>,
}

impl Selection {
    pub(super) fn matches<R>(&self, waiting: &Waiting<R>) -> bool {
        let client = self.client.as_ref().is_none_or(|client| **client == *waiting.client);
        client && self.class.is_none_or(|class| class == waiting.class)
    }
}
