//! Ends waits on an operator's order, a few at a time, so that other requests are answered meanwhile.

use crate::messages::inbound::Address;
use crate::messages::reply::ReplyTo;
use crate::permits::answers::core_driver::CoreDriver;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::purge::{Purge, Purged};
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::scheduler::waiting::{QueueCursor, Selection};
use std::collections::VecDeque;

/// Bound on the purges under way, which people order.
const MAX_PURGES: usize = 16;

/// Purges in order of arrival. Only the first one is being carried out.
#[derive(Debug, Default)]
pub(crate) struct Purges {
    queue: VecDeque<Purging>,
}

#[derive(Debug)]
struct Purging {
    to: Address,
    selection: Selection,
    walk: QueueCursor,
    ended: u64,
}

impl Purges {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues a purge. Without a reply subject it is ignored, because an operator wants an answer.
    pub(crate) fn take(&mut self, now: Time, core: &mut CoreDriver, reply: Option<Address>, payload: &[u8]) {
        let Some(to) = reply else { return };
        let Purge { client, class } = match Purge::parse(payload) {
            Ok(order) => order,
            Err(invalid) => return core.refuse_invalid(now, ReplyTo::alone(to), None, invalid.to_string()),
        };
        if client.is_some() && core.core().resource().spec().fair_share.is_none() {
            let message =
                "`client`: the resource has no `fair_share`, so that no client of a request is known".to_owned();
            return core.refuse_invalid(now, ReplyTo::alone(to), None, message);
        }
        if self.queue.len() == MAX_PURGES {
            let message = format!("{MAX_PURGES} orders to end waits are being carried out; ask again later");
            return core.refuse_with(now, ReplyTo::alone(to), None, Code::QueueFull, message);
        }
        match class.map(|class| core.core().resource().class(&class)).transpose() {
            Ok(class) => {
                let selection = Selection { client, class };
                self.queue.push_back(Purging { to, selection, walk: QueueCursor::default(), ended: 0 });
            }
            Err(refusal) => core.refuse(now, ReplyTo::alone(to), None, refusal),
        }
    }

    pub(crate) fn step(&mut self, now: Time, core: &mut CoreDriver) {
        let Some(mut purging) = self.queue.pop_front() else { return };
        let (ended, walk) = core.purge_on(now, purging.walk, &purging.selection);
        purging.ended += ended as u64;
        match walk {
            Some(walk) => self.queue.push_front(Purging { walk, ..purging }),
            None => {
                let Purging { to, selection, ended, .. } = purging;
                let (resource, epoch) = (core.core().resource().name().clone(), core.core().epoch());
                let client = selection.client.as_deref();
                let class = selection.class.map(|class| &*core.core().resource().classes()[class.index()].name);
                tracing::info!(%resource, client, class, ended, "an operator has ended waits");
                core.outbox.send(to, &Purged { resource, epoch, ended });
            }
        }
    }
}
