//! Ending waits by hand, a few at a time: others are answered meanwhile.

use crate::serve::messages::inbound::Address;
use crate::serve::messages::reply::ReplyTo;
use crate::serve::permits::permit_loop::PermitLoop;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::purge::{Purge, Purged};
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::command::Command;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::scheduler::undelivered::{Selection, Walk};

/// Orders that are carried out one after the other: operators are people.
const MAX_PURGES: usize = 16;

/// An order that is carried out.
#[derive(Debug)]
pub(crate) struct Purging {
    to: Address,
    selection: Selection,
    walk: Walk,
    ended: u64,
}

impl PermitLoop {
    /// Takes an order to end waits. An operator wants an answer: without one nothing is done.
    pub(crate) fn take_purge(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) {
        let Some(to) = reply else { return };
        let Purge { client, class } = match Purge::parse(payload) {
            Ok(order) => order,
            Err(invalid) => return self.refuse_invalid(ReplyTo::alone(to), None, invalid.to_string()),
        };
        if client.is_some() && self.core.resource().spec().fair_share.is_none() {
            let message =
                "`client`: the resource has no `fair_share`, so that no client of a request is known".to_owned();
            return self.refuse_invalid(ReplyTo::alone(to), None, message);
        }
        if self.purges.len() == MAX_PURGES {
            let message = format!("{MAX_PURGES} orders to end waits are being carried out; ask again later");
            return self.refuse(ReplyTo::alone(to), None, Code::QueueFull, message);
        }
        match class.map(|class| self.core.resource().class(&class)).transpose() {
            Ok(class) => {
                let selection = Selection { client, class };
                self.purges.push_back(Purging { to, selection, walk: Walk::default(), ended: 0 });
            }
            Err(refusal) => self.answer(now, Command::Refuse { to: ReplyTo::alone(to), id: None, refusal }),
        }
    }

    /// Ends the next waits of the first order.
    pub(crate) fn purge_on(&mut self, now: Time) {
        let Some(mut purging) = self.purges.pop_front() else { return };
        let (ended, walk) = self.core.purge(purging.walk, &purging.selection);
        purging.ended += ended as u64;
        self.handle(now, Event::Wake);
        match walk {
            Some(walk) => self.purges.push_front(Purging { walk, ..purging }),
            None => {
                let (resource, epoch) = (self.core.resource().name().clone(), self.core.epoch());
                tracing::info!(%resource, selection = ?purging.selection, ended = purging.ended, "an operator has ended waits");
                self.outbox.send(purging.to, &Purged { resource, epoch, ended: purging.ended });
            }
        }
    }
}
