//! Where to send what.

use crate::name::{Name, NameError};

/// The subjects under one prefix.
///
/// ```
/// use rampmeter_protocol::{name::Name, subject::Subjects};
/// let subjects = Subjects::default();
/// let resource = Name::new("sentinel-hub").unwrap();
/// assert_eq!(subjects.permit(&resource), "rampmeter.permit.sentinel-hub");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subjects {
    prefix: Name,
}

impl Default for Subjects {
    fn default() -> Self {
        Subjects::new("rampmeter").expect("a valid name")
    }
}

impl Subjects {
    /// Subjects that begin with `prefix`, one token.
    ///
    /// # Errors
    /// If `prefix` is not a [`Name`].
    pub fn new(prefix: &str) -> Result<Self, NameError> {
        Name::new(prefix).map(|prefix| Subjects { prefix })
    }

    /// The prefix.
    #[must_use]
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// Asking for permits.
    #[must_use]
    pub fn permit(&self, resource: &Name) -> String {
        self.of("permit", resource)
    }

    /// Telling how calls went.
    #[must_use]
    pub fn settle(&self, resource: &Name) -> String {
        self.of("settle", resource)
    }

    /// Levels, queues, counters.
    #[must_use]
    pub fn status(&self, resource: &Name) -> String {
        self.of("status", resource)
    }

    /// Why requests wait.
    #[must_use]
    pub fn explain(&self, resource: &Name) -> String {
        self.of("explain", resource)
    }

    /// Ending waits by hand.
    #[must_use]
    pub fn purge(&self, resource: &Name) -> String {
        self.of("purge", resource)
    }

    /// What the subjects begin with where NATS reports to one scheduler that an answer has reached nobody; `token` is that scheduler's alone.
    #[must_use]
    pub fn undelivered(&self, resource: &Name, token: &str) -> String {
        format!("{}.undelivered.{resource}.{token}", self.prefix)
    }

    /// News of a resource.
    #[must_use]
    pub fn event(&self, resource: &Name) -> String {
        self.of("event", resource)
    }

    /// Where one scheduler is asked whether it still leads: nobody else hears it.
    #[must_use]
    pub fn probe(&self, resource: &Name, leader: &str) -> String {
        format!("{}.probe.{resource}.{leader}", self.prefix)
    }

    /// Where a leader hears itself: what it has not read when that comes was sent before.
    #[must_use]
    pub fn echo(&self, resource: &Name) -> String {
        self.of("echo", resource)
    }

    /// Names and limits of all resources.
    #[must_use]
    pub fn resources(&self) -> String {
        format!("{}.resources", self.prefix)
    }

    /// Whether an answer may go to `reply`: neither to a subject of the protocol nor to one that NATS keeps for itself.
    /// A scheduler may publish there what its clients may not, such as its own state, and must not do it in their place.
    ///
    /// ```
    /// # use rampmeter_protocol::subject::Subjects;
    /// let subjects = Subjects::default();
    /// assert!(subjects.may_answer_to("_INBOX.DBpCrKFEB4jHLWlz3k2gWU.1"));
    /// assert!(!subjects.may_answer_to("rampmeter.event.sentinel-hub"));
    /// assert!(!subjects.may_answer_to("$KV.rampmeter.state.sentinel-hub"));
    /// ```
    #[must_use]
    pub fn may_answer_to(&self, reply: &str) -> bool {
        let own = reply.strip_prefix(&*self.prefix).is_some_and(|rest| rest.starts_with('.'));
        !own && !reply.starts_with('$')
    }

    fn of(&self, what: &str, resource: &Name) -> String {
        format!("{}.{what}.{resource}", self.prefix)
    }
}
