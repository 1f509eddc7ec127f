//! A permit that is not settled yet.

use crate::Resource;
use crate::connection::link::Message;
use crate::connection::stats::count;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::settle::{Report, Settle};
use rampmeter_protocol::trace_context::TraceContext;
use rampmeter_worker_session::Event;

/// Settles when dropped: as used or as unused, whichever is true at that time.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) resource: Resource,
    pub(crate) used: bool,
    id: Option<PermitId>,
    trace: Option<TraceContext>,
}

impl Unsettled {
    /// A permit that was asked for in `trace`.
    pub(crate) fn new(resource: Resource, id: Option<PermitId>, trace: Option<TraceContext>) -> Self {
        Unsettled { resource, used: false, id, trace }
    }

    pub(crate) fn id(&self) -> Option<&PermitId> {
        self.id.as_ref()
    }

    /// Reports how the call went.
    pub(crate) fn settle(mut self, report: Report<'static>) {
        if let Some(id) = self.id.take() {
            self.send(Settle::reported(id, report));
        }
    }

    /// Sends a settle that does not end the permit.
    pub(crate) fn send(&self, settle: Settle<'static>) {
        let settle = Settle { trace: self.trace, ..settle };
        let event = Event::Settled { resource: self.resource.number(), settle };
        self.resource.link().send(Message::Event(event));
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        if self.used {
            return self.send(Settle::used(id));
        }
        self.send(Settle::unused(id));
        count(&self.resource.link().counters.returned);
    }
}
