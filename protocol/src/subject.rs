//! The NATS subjects of the protocol.

use crate::name::{Name, NameError};
use std::borrow::Cow;
use std::sync::Arc;

const PERMIT_OF: &str = "permit-";

/// Precedes the name of an account. No [`Name`] contains it.
const ACCOUNT: char = '@';

/// The subjects under one prefix. A NATS server that imports messages from another account puts that account into the
/// subject, where no client can change it, as in `rampmeter.permit@WORKER.hub`.
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
    /// The first tokens of the inboxes that are answered; empty for any.
    inboxes: Arc<[Name]>,
}

impl Default for Subjects {
    fn default() -> Self {
        Subjects::new("rampmeter").expect("a valid name")
    }
}

impl Subjects {
    /// Creates the subjects that begin with `prefix`, a single token.
    ///
    /// # Errors
    /// If `prefix` is not a [`Name`].
    pub fn new(prefix: &str) -> Result<Self, NameError> {
        Name::new(prefix).map(|prefix| Subjects { prefix, inboxes: Arc::default() })
    }

    /// Restricts answers to imported messages and inboxes with these first tokens; none allows all.
    #[must_use]
    pub fn with_inboxes(self, inboxes: &[Name]) -> Self {
        Subjects { inboxes: inboxes.into(), ..self }
    }

    /// Returns the prefix.
    #[must_use]
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// Requests for permits.
    #[must_use]
    pub fn permit(&self, resource: &Name) -> String {
        self.of("permit", resource)
    }

    /// Requests for permits of one class, so that a NATS user's permissions can deny that class.
    ///
    /// ```
    /// # use rampmeter_protocol::{name::Name, subject::Subjects};
    /// let (subjects, hub) = (Subjects::default(), Name::new("hub").unwrap());
    /// assert_eq!(subjects.permit_of_class(&hub, "bulk"), "rampmeter.permit-bulk.hub");
    /// assert_eq!(subjects.class_in("rampmeter.permit-bulk.hub"), Some("bulk"));
    /// ```
    #[must_use]
    pub fn permit_of_class(&self, resource: &Name, class: &str) -> String {
        format!("{}.{PERMIT_OF}{class}.{resource}", self.prefix)
    }

    /// Returns the class in a subject of [`permit_of_class`](Subjects::permit_of_class).
    #[must_use]
    pub fn class_in<'a>(&self, subject: &'a str) -> Option<&'a str> {
        let rest = subject.strip_prefix(&*self.prefix)?.strip_prefix('.')?;
        let (class, _resource) = rest.strip_prefix(PERMIT_OF)?.split_once('.')?;
        Some(class)
    }

    /// Reports on calls (settles).
    #[must_use]
    pub fn settle(&self, resource: &Name) -> String {
        self.of("settle", resource)
    }

    /// Reports on calls (settles) from this account.
    #[must_use]
    pub fn settle_of_account(&self, resource: &Name, account: &str) -> String {
        self.of(&format!("settle{ACCOUNT}{account}"), resource)
    }

    /// Queries for the status.
    #[must_use]
    pub fn status(&self, resource: &Name) -> String {
        self.of("status", resource)
    }

    /// Questions why requests wait.
    #[must_use]
    pub fn explain(&self, resource: &Name) -> String {
        self.of("explain", resource)
    }

    /// Orders that end waits.
    #[must_use]
    pub fn purge(&self, resource: &Name) -> String {
        self.of("purge", resource)
    }

    /// Orders that thaw limits.
    #[must_use]
    pub fn thaw(&self, resource: &Name) -> String {
        self.of("thaw", resource)
    }

    /// Orders that freeze limits.
    #[must_use]
    pub fn freeze(&self, resource: &Name) -> String {
        self.of("freeze", resource)
    }

    /// Orders that set the levels of limits to zero.
    #[must_use]
    pub fn empty(&self, resource: &Name) -> String {
        self.of("empty", resource)
    }

    /// Queries for what clients have used.
    #[must_use]
    pub fn usage(&self, resource: &Name) -> String {
        self.of("usage", resource)
    }

    /// Reading (`read`) and replacing (`write`) the rules of all resources.
    #[must_use]
    pub fn rules(&self, what: &str) -> String {
        format!("{}.rules.{what}", self.prefix)
    }

    /// Requests for the upstream's access token.
    #[must_use]
    pub fn token(&self, resource: &Name) -> String {
        self.of("token", resource)
    }

    /// Prefix of the subjects of undelivered answers to one scheduler, to which `token` is unique.
    #[must_use]
    pub fn undelivered(&self, resource: &Name, token: &str) -> String {
        format!("{}.undelivered.{resource}.{token}", self.prefix)
    }

    /// Events of a resource.
    #[must_use]
    pub fn event(&self, resource: &Name) -> String {
        self.of("event", resource)
    }

    /// Asks one scheduler whether it still leads. Only that scheduler subscribes.
    #[must_use]
    pub fn probe(&self, resource: &Name, leader: &str) -> String {
        format!("{}.probe.{resource}.{leader}", self.prefix)
    }

    /// Checkpoints for one standby, the only subscriber, which keeps them for a successor while the store is silent.
    #[must_use]
    pub fn witness(&self, resource: &Name, standby: &str) -> String {
        format!("{}.witness.{resource}.{standby}", self.prefix)
    }

    /// A leader's messages to itself. Whatever it receives after such a message was sent after it.
    #[must_use]
    pub fn echo(&self, resource: &Name) -> String {
        self.of("echo", resource)
    }

    /// Queries for the names and limits of all resources.
    #[must_use]
    pub fn resources(&self) -> String {
        format!("{}.resources", self.prefix)
    }

    /// Queries for resources from other accounts.
    #[must_use]
    pub fn imported_resources(&self) -> String {
        format!("{}.*", self.resources())
    }

    /// Requests for the access token from other accounts.
    #[must_use]
    pub fn imported_token(&self, resource: &Name) -> String {
        format!("{}.token.*.{resource}", self.prefix)
    }

    /// Returns where the answer to a message on `subject` goes, or `None` if not to `reply`. An
    /// imported message's account precedes its inbox, as other inboxes begin with their user.
    ///
    /// ```
    /// # use rampmeter_protocol::{name::Name, subject::Subjects};
    /// let subjects = Subjects::default().with_inboxes(&[Name::new("_INBOX_a").unwrap()]);
    /// let answer = |subject, reply| subjects.answer_to(subject, reply);
    /// assert_eq!(answer("rampmeter.permit.hub", "_INBOX_a.x.1").as_deref(), Some("_INBOX_a.x.1"));
    /// assert_eq!(answer("rampmeter.permit.hub", "_INBOX_b.x.1"), None);
    /// let imported = answer("rampmeter.permit@WORKER.hub", "_INBOX_b.x.1");
    /// assert_eq!(imported.as_deref(), Some("rampmeter@WORKER._INBOX_b.x.1"));
    /// ```
    #[must_use]
    pub fn answer_to<'a>(&self, subject: &str, reply: &'a str) -> Option<Cow<'a, str>> {
        if !self.may_answer_to(reply) {
            return None;
        }
        match Self::account_in(subject) {
            Some(account) => Some(format!("{}{ACCOUNT}{account}.{reply}", self.prefix).into()),
            None => (self.inboxes.is_empty() || self.is_listed(reply)).then(|| reply.into()),
        }
    }

    /// Returns the account from which the message on `subject` was imported, if it was.
    #[must_use]
    pub fn account_in(subject: &str) -> Option<&str> {
        let (_, rest) = subject.split_once(ACCOUNT)?;
        rest.split('.').next()
    }

    /// Returns `subject` without the account from which it was imported, if it was.
    #[must_use]
    pub fn without_account(subject: &str) -> Option<String> {
        let (before, rest) = subject.split_once(ACCOUNT)?;
        let (_account, resource) = rest.split_once('.')?;
        Some(format!("{before}.{resource}"))
    }

    fn is_listed(&self, reply: &str) -> bool {
        let user = reply.split('.').next();
        self.inboxes.iter().any(|inbox| Some(&**inbox) == user)
    }

    /// Returns whether an answer may go to `reply`: to no subject of the protocol or reserved by NATS. A scheduler may
    /// publish there, for example its own state, and a client must not gain that power by its reply subject.
    ///
    /// ```
    /// # use rampmeter_protocol::subject::Subjects;
    /// let subjects = Subjects::default();
    /// assert!(subjects.may_answer_to("_INBOX.DBpCrKFEB4jHLWlz3k2gWU.1"));
    /// assert!(!subjects.may_answer_to("rampmeter.event.sentinel-hub"));
    /// assert!(!subjects.may_answer_to("rampmeter@WORKER._INBOX.1"));
    /// assert!(!subjects.may_answer_to("$KV.rampmeter.state.sentinel-hub"));
    /// ```
    #[must_use]
    pub fn may_answer_to(&self, reply: &str) -> bool {
        let own = reply.strip_prefix(&*self.prefix).is_some_and(|rest| rest.starts_with(['.', ACCOUNT]));
        !own && !reply.starts_with('$')
    }

    fn of(&self, what: &str, resource: &Name) -> String {
        format!("{}.{what}.{resource}", self.prefix)
    }
}
