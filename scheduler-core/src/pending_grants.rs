//! Promised starts whose answers wait for the store.
//!
//! A start that lies beyond what marks have budgets for is promised at once, so that it is in the next mark, and told once the store
//! holds that mark. A successor that goes on from an earlier one gives the start to another; the asker never heard of it.

use crate::event::Ask;
use crate::fence::Fence;
use crate::ledger::Offer;
use crate::mark::MarkNumber;
use crate::permits::{Granted, Stage, State};
use crate::refusal::Refusal;
use crate::scheduler::Scheduler;
use crate::slab::Slot;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;

/// The answer to one request, which waits for a mark.
#[derive(Clone, Debug)]
struct PendingGrant<R> {
    to: R,
    id: PermitId,
    /// Of its start: the id may be another permit's by then.
    serial: u64,
    /// The first mark that has the start.
    mark: MarkNumber,
    since: Time,
}

/// All of them, in the order of their marks.
#[derive(Clone, Debug)]
pub(crate) struct PendingGrants<R>(VecDeque<PendingGrant<R>>);

impl<R> Default for PendingGrants<R> {
    fn default() -> Self {
        PendingGrants(VecDeque::new())
    }
}

impl<R> PendingGrants<R> {
    /// Since when the first of them waits.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.0.front().map(|pending| pending.since)
    }
}

impl<R: Clone> Scheduler<R> {
    /// Promises a start that is too far away for a budget, and tells of it once the store knows.
    pub(crate) fn promise(&mut self, now: Time, ask: Ask<R>, offer: Offer, latest: Time) {
        if self.pending.0.len() >= self.resource.spec().bounds.max_waiting {
            return self.refuse(ask.to, ask.id, Refusal::Unavailable);
        }
        let to = ask.to.clone();
        let (slot, granted) = self.commit_new(now, ask, offer, latest, Stage::Promised);
        let id = self.permits.get(slot).id.clone();
        let (bill, ahead) = (&self.permits.get(slot).bill, offer.at.since(now));
        let fence = self.fence.as_mut().expect("only a fence keeps answers back");
        fence.want(&self.resource, bill, ahead);
        let serial = granted.key.serial;
        self.pending.0.push_back(PendingGrant { to, id, serial, mark: fence.next(), since: now });
    }

    /// Tells of the starts that the store knows by now.
    pub(crate) fn tell_promised(&mut self, now: Time) {
        let Some(stored) = self.fence.as_ref().and_then(Fence::stored) else { return };
        while let Some(PendingGrant { to, id, serial, .. }) =
            self.pending.0.pop_front_if(|pending| pending.mark <= stored)
        {
            let Some((slot, granted)) = self.untold(&id, serial) else {
                self.refuse(to, Some(id), Refusal::UnknownPermit);
                continue;
            };
            let granted = Granted { stage: Stage::Told, ..granted };
            self.permits.get_mut(slot).state = State::Granted(granted);
            self.delivery.tell(now, slot, granted.key.serial);
            self.answer(now, slot, to, granted, Span::ZERO, false);
        }
    }

    /// Takes back what was promised until `since` and told to nobody: the store has kept the askers waiting for too long.
    pub(crate) fn take_back_promised(&mut self, now: Time, since: Time) {
        while let Some(PendingGrant { to, id, serial, .. }) =
            self.pending.0.pop_front_if(|pending| pending.since <= since)
        {
            if let Some((slot, granted)) = self.untold(&id, serial) {
                self.give_back_unheard(now, slot, granted);
            }
            self.refuse(to, Some(id), Refusal::Unavailable);
        }
    }

    /// The permit called `id` whose start has this number, if nobody was told of that and it was not given back.
    fn untold(&self, id: &PermitId, serial: u64) -> Option<(Slot, Granted)> {
        let slot = self.permits.find(id)?;
        let granted = self.permits.get(slot).granted()?;
        (granted.stage == Stage::Promised && granted.key.serial == serial).then_some((slot, granted))
    }
}
