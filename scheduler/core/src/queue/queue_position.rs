//! The positions of waiting requests in the orders of a class queue.

use super::fair_order::Arrival;
use crate::policy::LimitSet;
use std::sync::Arc;

/// A position among all requests of a class: by whether a request is in the queue of a key. Among
/// these, by tree in the fair order, then by when this scheduler received them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArrivalPosition {
    pub(super) is_at_key: bool,
    pub(super) tree: LimitSet,
    pub(super) came: Arrival,
}

impl ArrivalPosition {
    pub(super) const FIRST: ArrivalPosition =
        ArrivalPosition { is_at_key: false, tree: LimitSet::NONE, came: Arrival::FIRST };
    /// The first position in the queues of keys.
    pub(super) const FIRST_AT_KEY: ArrivalPosition = ArrivalPosition { is_at_key: true, ..ArrivalPosition::FIRST };

    /// The last position among the requests of the same tree.
    pub(super) fn last_of_tree(self) -> Self {
        ArrivalPosition { came: Arrival::LAST, ..self }
    }
}

/// A position among the requests of one client and tree: by arrival.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientPosition {
    pub(super) client: Arc<str>,
    pub(super) tree: LimitSet,
    pub(super) arrival: Arrival,
}

impl ClientPosition {
    /// The last position of the same client and tree.
    pub(super) fn last(&self) -> Self {
        ClientPosition { arrival: Arrival::LAST, ..self.clone() }
    }

    /// The last position of all requests of this client.
    pub(super) fn last_of_client(client: Arc<str>) -> Self {
        ClientPosition { client, tree: LimitSet::ALL, arrival: Arrival::LAST }
    }
}
