//! The subjects of the protocol.

use crate::name::{Name, NameError};
use std::borrow::Cow;
use std::sync::Arc;

/// The beginning of the second token of subjects that name a class.
const PERMIT_OF: &str = "permit-";

/// Stands before the name of an account. No name has it.
const ACCOUNT: char = '@';

/// The subjects under one prefix.
///
/// A NATS server may import the messages of workers from accounts of their own. It names the account
/// in the subject then, where no client can change it, as in `rampmeter.permit@WORKER.hub`.
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
    /// Subjects that begin with `prefix`, which is one token.
    ///
    /// # Errors
    /// If `prefix` is not a [`Name`].
    pub fn new(prefix: &str) -> Result<Self, NameError> {
        Name::new(prefix).map(|prefix| Subjects { prefix, inboxes: Arc::default() })
    }

    /// The same subjects, where answers go to inboxes that begin with one of these tokens, and to
    /// accounts. Without any, they go to all inboxes.
    #[must_use]
    pub fn with_inboxes(self, inboxes: &[Name]) -> Self {
        Subjects { inboxes: inboxes.into(), ..self }
    }

    /// The prefix.
    #[must_use]
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// Requests for permits.
    #[must_use]
    pub fn permit(&self, resource: &Name) -> String {
        self.of("permit", resource)
    }

    /// Requests for permits of one class. The permissions of a NATS user can deny this subject.
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

    /// The class in a subject of requests for permits of one class.
    #[must_use]
    pub fn class_in<'a>(&self, subject: &'a str) -> Option<&'a str> {
        let rest = subject.strip_prefix(&*self.prefix)?.strip_prefix('.')?;
        let (class, _resource) = rest.strip_prefix(PERMIT_OF)?.split_once('.')?;
        Some(class)
    }

    /// Reports on calls.
    #[must_use]
    pub fn settle(&self, resource: &Name) -> String {
        self.of("settle", resource)
    }

    /// Reports on calls that come from this account.
    #[must_use]
    pub fn settle_of_account(&self, resource: &Name, account: &str) -> String {
        self.of(&format!("settle{ACCOUNT}{account}"), resource)
    }

    /// Questions for levels, queues and counters.
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

    /// Orders that end pauses of limits.
    #[must_use]
    pub fn thaw(&self, resource: &Name) -> String {
        self.of("thaw", resource)
    }

    /// Orders that pause limits.
    #[must_use]
    pub fn freeze(&self, resource: &Name) -> String {
        self.of("freeze", resource)
    }

    /// Orders that take the stock of limits.
    #[must_use]
    pub fn empty(&self, resource: &Name) -> String {
        self.of("empty", resource)
    }

    /// Questions for what clients have used.
    #[must_use]
    pub fn usage(&self, resource: &Name) -> String {
        self.of("usage", resource)
    }

    /// Questions for the rules of all resources (`read`), and orders that replace them (`write`).
    #[must_use]
    pub fn rules(&self, what: &str) -> String {
        format!("{}.rules.{what}", self.prefix)
    }

    /// Questions for the upstream's access token.
    #[must_use]
    pub fn token(&self, resource: &Name) -> String {
        self.of("token", resource)
    }

    /// The beginning of the subjects on which NATS reports to one scheduler that an answer was not
    /// delivered. `token` is unique to that scheduler.
    #[must_use]
    pub fn undelivered(&self, resource: &Name, token: &str) -> String {
        format!("{}.undelivered.{resource}.{token}", self.prefix)
    }

    /// Events of a resource.
    #[must_use]
    pub fn event(&self, resource: &Name) -> String {
        self.of("event", resource)
    }

    /// The subject on which one scheduler is asked whether it still leads. Only that scheduler
    /// subscribes.
    #[must_use]
    pub fn probe(&self, resource: &Name, leader: &str) -> String {
        format!("{}.probe.{resource}.{leader}", self.prefix)
    }

    /// The subject on which one standby holds checkpoints for a leader while the store is silent, and
    /// tells them to a successor. Only that scheduler subscribes.
    #[must_use]
    pub fn witness(&self, resource: &Name, standby: &str) -> String {
        format!("{}.witness.{resource}.{standby}", self.prefix)
    }

    /// The subject on which a leader receives its own message. Messages that arrive after it were
    /// sent after it.
    #[must_use]
    pub fn echo(&self, resource: &Name) -> String {
        self.of("echo", resource)
    }

    /// Questions for the names and limits of all resources.
    #[must_use]
    pub fn resources(&self) -> String {
        format!("{}.resources", self.prefix)
    }

    /// Questions for resources that come from other accounts.
    #[must_use]
    pub fn imported_resources(&self) -> String {
        format!("{}.*", self.resources())
    }

    /// Questions for the access token that come from other accounts.
    #[must_use]
    pub fn imported_token(&self, resource: &Name) -> String {
        format!("{}.token.*.{resource}", self.prefix)
    }

    /// Where the answer to a message on `subject` goes, if an answer may go to `reply`. The account
    /// of an imported message is the first token of its answer, as the user is for others.
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

    /// The account that a message on `subject` comes from, if it is imported.
    #[must_use]
    pub fn account_in(subject: &str) -> Option<&str> {
        let (_, rest) = subject.split_once(ACCOUNT)?;
        rest.split('.').next()
    }

    /// `subject` without the account that it comes from, if it is imported.
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

    /// Whether an answer may go to `reply`. Subjects of the protocol and subjects that NATS
    /// reserves are excluded. A scheduler may publish on these, for example its own state, and
    /// clients may not. A reply subject must not give clients that power.
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
