//! Caps the waiting requests of each user, client and key, so that none fills the shared queue.

use crate::identity::User;
use crate::ids::LimitId;
use crate::policy::Bill;
use rampmeter_protocol::shared_places::SharedPlaces;
use std::sync::Arc;

/// A user may hold this many times the free positions, and a client or key as many as are free: the
/// other clients of a user find room beside one that holds all it may.
const TIMES_FREE_OF_USER: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Party {
    User(User),
    Client(Arc<str>),
    Key(LimitId, Arc<str>),
}

impl Party {
    fn times_free(&self) -> usize {
        match self {
            Party::User(_) => TIMES_FREE_OF_USER,
            Party::Client(_) | Party::Key(..) => 1,
        }
    }
}

/// The number of positions that each user, client and key holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionCap(SharedPlaces<Party>);

/// The user, the client and the keys of a request. Without a name, a user or client has no cap.
fn parties(user: Option<User>, client: &Arc<str>, bill: &Bill) -> impl Iterator<Item = Party> {
    let client = (!client.is_empty()).then(|| Party::Client(Arc::clone(client)));
    let keys = bill.keyed().map(|charge| Party::Key(charge.limit, Arc::clone(&charge.key)));
    user.map(Party::User).into_iter().chain(client).chain(keys)
}

impl AdmissionCap {
    /// Whether a request may have one of the `free` positions.
    pub(crate) fn has_room(&self, free: usize, user: Option<User>, client: &Arc<str>, bill: &Bill) -> bool {
        parties(user, client, bill).all(|party| self.0.may_take(&party, party.times_free(), free))
    }

    /// The number of positions that a client holds.
    pub(crate) fn positions_of(&self, client: &Arc<str>) -> usize {
        self.0.held_by(&Party::Client(Arc::clone(client)))
    }

    pub(crate) fn join(&mut self, user: Option<User>, client: &Arc<str>, bill: &Bill) {
        parties(user, client, bill).for_each(|party| self.0.take(party));
    }

    pub(crate) fn leave(&mut self, user: Option<User>, client: &Arc<str>, bill: &Bill) {
        parties(user, client, bill).for_each(|party| self.0.give_back(&party));
    }
}
