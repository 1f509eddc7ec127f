//! A request that waits, and its position in the queue of its class.

use super::clients::Slice;
use super::fair_order::{Arrival, Turn};
use super::key_queue::KeyQueuePosition;
use super::queue_position::{ArrivalPosition, ClientPosition};
use crate::collections::Slot;
use crate::identity::User;
use crate::ids::ClassId;
use crate::policy::{Call, LimitSet};
use rampmeter_protocol::time::Time;
use std::sync::Arc;

/// The state of a waiting request, besides its id and bill.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<R> {
    pub(crate) to: R,
    pub(crate) class: ClassId,
    /// Its place among the requests of its client, by its age.
    pub(crate) arrival: Arrival,
    /// When this scheduler received it. No client gets ahead of another by the age that it states.
    pub(crate) came: Time,
    pub(crate) user: Option<User>,
    pub(crate) client: Arc<str>,
    pub(crate) position: ClassPosition,
    pub(crate) deadline: Option<Time>,
    /// When it gets its next update, if it wants updates.
    pub(crate) next_update: Option<Time>,
    /// The key in whose queue the request waits, if it does not wait in that of its class.
    pub(crate) at_key: Option<Slot>,
    /// The call, if the bill does not imply it.
    pub(crate) call: Option<Box<Call>>,
}

impl<R> Waiting<R> {
    pub(crate) fn key_position(&self) -> KeyQueuePosition {
        let Waiting { class, arrival, came, .. } = *self;
        KeyQueuePosition { class, client: Arc::clone(&self.client), arrival, came }
    }

    pub(super) fn client_position(&self) -> ClientPosition {
        let client = Arc::clone(&self.client);
        ClientPosition { client, tree: self.position.tree, arrival: self.arrival }
    }

    pub(super) fn position_in_class(&self) -> ArrivalPosition {
        self.arrival_position(false)
    }

    pub(super) fn position_at_key(&self) -> ArrivalPosition {
        self.arrival_position(true)
    }

    fn arrival_position(&self, is_at_key: bool) -> ArrivalPosition {
        let came = Arrival { at: self.came, serial: self.arrival.serial };
        ArrivalPosition { is_at_key, tree: self.position.tree, came }
    }
}

/// The position of a request in the queue of its class, once it has entered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassPosition {
    pub(crate) turn: Turn,
    pub(super) slice: Slice,
    pub(crate) set: LimitSet,
    /// Its tree in the fair order.
    pub(super) tree: LimitSet,
}
