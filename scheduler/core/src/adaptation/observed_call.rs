//! A call beside what its answer says.

use crate::identity::User;
use crate::limits::StartKey;
use rampmeter_policy::Bill;
use rampmeter_policy::observation::Observation;
use rampmeter_protocol::time::Time;

/// A call that the upstream has answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedCall<'a> {
    /// When the scheduler learns of the response.
    pub(crate) now: Time,
    pub(crate) start: StartKey,
    /// Who made the call, if known.
    pub(crate) user: Option<User>,
    pub(crate) bill: &'a Bill,
    pub(crate) observation: &'a Observation,
}

impl ObservedCall<'_> {
    /// When the call was made. A call that is answered before its start was made early, and counts
    /// from now.
    pub(crate) fn at(&self) -> Time {
        self.start.at.min(self.now)
    }
}
