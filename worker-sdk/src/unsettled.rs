//! A permit that is not settled yet.

use crate::Resource;
use crate::link::Message;
use crate::stats::count;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::settle::Settle;
use rampmeter_worker_session::Event;

/// Settles when dropped: as used or as unused, whichever is true at that time.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) resource: Resource,
    pub(crate) used: bool,
    id: Option<PermitId>,
}

impl Unsettled {
    pub(crate) fn new(resource: Resource, id: Option<PermitId>) -> Self {
        Unsettled { resource, used: false, id }
    }

    pub(crate) fn id(&self) -> Option<&PermitId> {
        self.id.as_ref()
    }

    /// Settles with the details that `write` adds.
    pub(crate) fn settle(mut self, write: impl FnOnce(&mut Settle<'static>)) {
        self.send_settle(write);
    }

    /// Sends a settle that does not end the permit.
    pub(crate) fn send(&self, settle: Settle<'static>) {
        let event = Event::Settled { resource: self.resource.number(), settle };
        self.resource.link().send(Message::Event(event));
    }

    fn send_settle(&mut self, write: impl FnOnce(&mut Settle<'static>)) {
        let Some(id) = self.id.take() else { return };
        let mut settle = Settle { used: self.used, ..Settle::used(id) };
        write(&mut settle);
        self.send(settle);
        if !self.used {
            count(&self.resource.link().counters.returned);
        }
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.send_settle(|_| ());
    }
}
