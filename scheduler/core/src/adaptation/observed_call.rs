//! A call together with the upstream's response.

use crate::identity::User;
use crate::limits::StartKey;
use rampmeter_policy::Bill;
use rampmeter_policy::observation::Observation;
use rampmeter_protocol::time::Time;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedCall<'a> {
    pub(crate) now: Time,
    pub(crate) start: StartKey,
    pub(crate) user: Option<User>,
    pub(crate) bill: &'a Bill,
    pub(crate) observation: &'a Observation,
}

impl ObservedCall<'_> {
    /// Returns when the call was made. One that is answered before its start was made early: now.
    pub(crate) fn at(&self) -> Time {
        self.start.at.min(self.now)
    }
}
