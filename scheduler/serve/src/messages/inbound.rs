//! Messages to a permit loop, and where their answers go.

use crate::messages::message_trace::MessageTrace;
use async_nats::{Message, Subject};
use bytes::Bytes;
use rampmeter_nats::inbox::{InboxReply, is_brief};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_scheduler_core::identity::hash_of;
use std::borrow::Cow;
use std::collections::BTreeSet;
use tokio::sync::mpsc;

/// Bound on remembered accounts, since without permissions any client can make some up.
const MAX_ACCOUNTS: usize = 64;

/// A reply, with the number of the message that it answers.
pub type NumberedReply = (u64, InboxReply);

/// The destination of an answer.
#[derive(Clone, Debug)]
pub enum Address {
    /// A NATS subject.
    Subject(Subject),
    /// A task of this process, with the number of its message.
    Here(mpsc::Sender<NumberedReply>, u64),
}

/// The number of a client's connection, zero if unknown. It is a hash, so two connections may share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(u16);

impl Connection {
    /// An unknown connection.
    pub const UNKNOWN: Connection = Connection(0);
    /// The connection shared by all clients of this process.
    const HERE: Connection = Connection(1);
}

impl Address {
    /// Returns the connection of the client at this address: its inbox without the last token.
    #[must_use]
    pub fn connection(&self) -> Connection {
        let Address::Subject(inbox) = self else { return Connection::HERE };
        let connection = inbox.rsplit_once('.').map_or(&**inbox, |(connection, _)| connection);
        Connection((hash_of(connection) as u16).max(Connection::HERE.0 + 1))
    }

    /// Returns the subject, unless the answer stays in this process.
    pub(crate) fn into_subject(self) -> Option<Subject> {
        match self {
            Address::Subject(subject) => Some(subject),
            Address::Here(..) => None,
        }
    }

    /// Splits the address: as one for full answers, or else for mere confirmations.
    pub(crate) fn answered_in_full(self) -> (Option<Self>, Option<Self>) {
        match &self {
            Address::Subject(inbox) if is_brief(inbox) => (None, Some(self)),
            Address::Subject(_) | Address::Here(..) => (Some(self), None),
        }
    }

    /// Returns the NATS user, or account, of the client at this address.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match self {
            Address::Subject(inbox) => Some(user_of(inbox)),
            Address::Here(..) => None,
        }
    }
}

/// Returns the user or account whose inbox this is: its first token.
pub(crate) fn user_of(inbox: &str) -> &str {
    inbox.split_once('.').map_or(inbox, |(user, _)| user)
}

/// Returns the subject for the answer to a message on `subject`, or `None` if `reply` is not permitted.
pub(crate) fn answer_to(subjects: &Subjects, subject: &str, reply: Subject) -> Option<Subject> {
    let of_account = match subjects.answer_to(subject, &reply)? {
        Cow::Borrowed(_) => None,
        Cow::Owned(to) => Some(to.into()),
    };
    Some(of_account.unwrap_or(reply))
}

/// A message to a permit loop, over NATS or from this process.
#[derive(Debug)]
pub struct Inbound {
    /// The subject of the message.
    pub endpoint: Endpoint,
    /// The destination of the answer, if one is wanted.
    pub reply: Option<Address>,
    /// The content.
    pub payload: Bytes,
    /// The trace contexts of the message, if spans are recorded.
    pub trace: Option<Box<MessageTrace>>,
}

/// A subject of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Requests for permits, each of the class that it asks for.
    Permit,
    /// Requests for permits of this class.
    PermitOf(Name),
    /// Reports on calls.
    Settle,
    /// Requests for levels, queues and counters.
    Status,
    /// Questions why requests wait.
    Explain,
    /// Orders that end waits.
    Purge,
    /// Orders that end pauses of limits.
    Thaw,
    /// Orders that pause limits.
    Freeze,
    /// Orders that set the levels of limits to zero.
    Empty,
    /// Requests for the use by clients, which a task beside the loop answers.
    Usage,
    /// Requests for rules, which a task of any scheduler answers.
    Rules,
    /// Requests for the access token, which a task beside the loop answers.
    Token,
    /// A loop's message to itself.
    Echo,
    /// A subject that is not in the protocol.
    Unknown(Subject),
}

/// A subject whose messages are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointKind {
    /// Requests for permits, also those of one class.
    Permit,
    /// Reports on calls.
    Settle,
    /// Requests for levels, queues and counters.
    Status,
}

impl EndpointKind {
    /// All kinds.
    pub const ALL: [EndpointKind; 3] = [EndpointKind::Permit, EndpointKind::Settle, EndpointKind::Status];
}

impl Endpoint {
    /// Returns the counter of such messages, if they are counted.
    pub(crate) fn kind(&self) -> Option<EndpointKind> {
        match self {
            Endpoint::Permit | Endpoint::PermitOf(_) => Some(EndpointKind::Permit),
            Endpoint::Settle => Some(EndpointKind::Settle),
            Endpoint::Status => Some(EndpointKind::Status),
            Endpoint::Explain
            | Endpoint::Purge
            | Endpoint::Thaw
            | Endpoint::Freeze
            | Endpoint::Empty
            | Endpoint::Usage
            | Endpoint::Rules
            | Endpoint::Token
            | Endpoint::Echo
            | Endpoint::Unknown(_) => None,
        }
    }

    /// Returns the subject of such messages.
    #[must_use]
    pub fn subject(&self, subjects: &Subjects, resource: &Name) -> Subject {
        match self {
            Endpoint::Permit => subjects.permit(resource).into(),
            Endpoint::PermitOf(class) => subjects.permit_of_class(resource, class).into(),
            Endpoint::Settle => subjects.settle(resource).into(),
            Endpoint::Status => subjects.status(resource).into(),
            Endpoint::Explain => subjects.explain(resource).into(),
            Endpoint::Purge => subjects.purge(resource).into(),
            Endpoint::Thaw => subjects.thaw(resource).into(),
            Endpoint::Freeze => subjects.freeze(resource).into(),
            Endpoint::Empty => subjects.empty(resource).into(),
            Endpoint::Usage => subjects.usage(resource).into(),
            Endpoint::Rules => subjects.rules(resource).into(),
            Endpoint::Token => subjects.token(resource).into(),
            Endpoint::Echo => subjects.echo(resource).into(),
            Endpoint::Unknown(subject) => subject.clone(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Endpoints {
    subjects: Subjects,
    resource: Name,
    known: [(Subject, Endpoint); 12],
    /// Whether spans are recorded, so that headers are parsed.
    traces: bool,
    accounts: BTreeSet<Box<str>>,
}

impl Endpoints {
    pub(crate) fn new(subjects: &Subjects, resource: &Name, traces: bool) -> Self {
        let endpoints = [
            Endpoint::Permit,
            Endpoint::Settle,
            Endpoint::Status,
            Endpoint::Explain,
            Endpoint::Purge,
            Endpoint::Thaw,
            Endpoint::Freeze,
            Endpoint::Empty,
            Endpoint::Usage,
            Endpoint::Rules,
            Endpoint::Token,
            Endpoint::Echo,
        ];
        let known = endpoints.map(|endpoint| (endpoint.subject(subjects, resource), endpoint));
        Endpoints { known, subjects: subjects.clone(), resource: resource.clone(), traces, accounts: BTreeSet::new() }
    }

    /// Returns the wildcard subject of all messages.
    pub(crate) fn all(&self) -> String {
        format!("{}.*.{}", self.subjects.prefix(), self.resource)
    }

    /// Converts a message from NATS. `None` if its reply subject is not permitted: no message makes a loop
    /// write to a subject of its own protocol, or speaks for another user.
    pub(crate) fn inbound(&mut self, message: Message) -> Option<Inbound> {
        self.note_account(&message.subject);
        let reply = match message.reply {
            Some(reply) => Some(self.address(&message.subject, reply)?),
            None => None,
        };
        let trace = MessageTrace::of(message.headers.as_ref().filter(|_| self.traces));
        let subject = Subjects::without_account(&message.subject).map_or(message.subject, Subject::from);
        Some(Inbound { reply, endpoint: self.endpoint(subject), payload: message.payload, trace })
    }

    /// Returns the address for the answer to a message on `subject`, or `None` if `reply` is not permitted.
    pub(crate) fn address(&self, subject: &str, reply: Subject) -> Option<Address> {
        answer_to(&self.subjects, subject, reply).map(Address::Subject)
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = &str> {
        self.accounts.iter().map(|account| &**account)
    }

    fn note_account(&mut self, subject: &str) {
        if let Some(account) = Subjects::account_in(subject)
            && self.accounts.len() < MAX_ACCOUNTS
            && !self.accounts.contains(account)
        {
            self.accounts.insert(account.into());
        }
    }

    fn endpoint(&self, subject: Subject) -> Endpoint {
        let known = self.known.iter().find(|(known, _)| *known == subject).map(|(_, endpoint)| endpoint.clone());
        let of_class = || Name::new(self.subjects.class_in(&subject)?).ok().map(Endpoint::PermitOf);
        known.or_else(of_class).unwrap_or(Endpoint::Unknown(subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_the_account_of_a_message_or_else_its_inbox() {
        let subjects = Subjects::default().with_inboxes(&[Name::new("_INBOX_a").unwrap()]);
        let mut endpoints = Endpoints::new(&subjects, &Name::new("hub").unwrap(), false);
        let bulk = || Endpoint::PermitOf(Name::new("bulk").unwrap());
        #[rustfmt::skip]
        let table = [
            // Subject, reply, endpoint, and user.
            ("rampmeter.permit.hub",             "_INBOX_a.x.1",                Some((Endpoint::Permit, "_INBOX_a"))),
            ("rampmeter.permit.hub",             "u1.x.1",                      None),
            ("rampmeter.permit.hub",             "rampmeter@W.u1.1",            None),
            ("rampmeter.permit@W.hub",           "u1.x.1",                      Some((Endpoint::Permit, "rampmeter@W"))),
            ("rampmeter.permit@W.hub",           "_INBOX_a.x.1",                Some((Endpoint::Permit, "rampmeter@W"))),
            ("rampmeter.permit-bulk@W.hub",      "u1.x.1",                      Some((bulk(), "rampmeter@W"))),
            ("rampmeter.settle@W.hub",           "u1.x.receipt-1",              Some((Endpoint::Settle, "rampmeter@W"))),
            ("rampmeter.settle@W.hub",           "$KV.rampmeter.state.hub",     None),
            ("rampmeter.settle@W.hub",           "rampmeter.event.hub",         None),
        ];
        for (subject, reply, expected) in table {
            let (subject, reply) = (subject.into(), Some(reply.into()));
            let message = Message {
                subject,
                reply,
                payload: Bytes::new(),
                headers: None,
                status: None,
                description: None,
                length: 0,
            };
            let inbound = endpoints.inbound(message.clone());
            let found = inbound.as_ref().map(|inbound| {
                (inbound.endpoint.clone(), inbound.reply.as_ref().and_then(Address::user).unwrap_or_default())
            });
            assert_eq!(found, expected, "{message:?}");
        }
        let of_account = answer_to(&Subjects::default(), "rampmeter.permit.hub", "rampmeter@W.u1.1".into());
        assert_eq!(of_account, None, "no client answers for an account");
    }

    /// Reaches `inbound::MAX_ACCOUNTS`.
    #[test]
    fn accounts_are_remembered_within_a_bound() {
        let mut endpoints = Endpoints::new(&Subjects::default(), &Name::new("hub").unwrap(), false);
        endpoints.note_account("rampmeter.settle.hub");
        for number in 0..100 {
            endpoints.note_account(&format!("rampmeter.settle@A{}.hub", number % 100));
            endpoints.note_account(&format!("rampmeter.settle@A{number}.hub"));
        }
        assert_eq!(endpoints.accounts().count(), MAX_ACCOUNTS);
    }
}
