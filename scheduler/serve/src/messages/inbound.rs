//! What comes in for a permit loop, and where its answer goes.

use crate::messages::message_trace::MessageTrace;
use async_nats::{Message, Subject};
use bytes::Bytes;
use rampmeter_nats::inbox::{InboxReply, is_brief};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_scheduler_core::identity::hash_of;
use tokio::sync::mpsc;

/// A reply, with the number of the message that it answers.
pub type NumberedReply = (u64, InboxReply);

/// Where an answer goes.
#[derive(Clone, Debug)]
pub enum Address {
    /// The answer goes to a subject, over NATS.
    Subject(Subject),
    /// The answer goes to a task of this process, with the number of its message.
    Here(mpsc::Sender<NumberedReply>, u64),
}

/// The number of a connection, zero if it is unknown. Two connections may share a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(u16);

impl Connection {
    /// A connection that is not known.
    pub const UNKNOWN: Connection = Connection(0);
    /// The connection that all clients of this process have in common.
    const HERE: Connection = Connection(1);
}

impl Address {
    /// The connection of the client that wants an answer here: its inbox without the last token.
    #[must_use]
    pub fn connection(&self) -> Connection {
        let Address::Subject(inbox) = self else { return Connection::HERE };
        let connection = inbox.rsplit_once('.').map_or(&**inbox, |(connection, _)| connection);
        Connection((hash_of(connection) as u16).max(Connection::HERE.0 + 1))
    }

    /// The subject, unless the answer stays in this process.
    pub(crate) fn into_subject(self) -> Option<Subject> {
        match self {
            Address::Subject(subject) => Some(subject),
            Address::Here(..) => None,
        }
    }

    /// This address as one for answers, or else for the mere confirmation of a message.
    pub(crate) fn answered_in_full(self) -> (Option<Self>, Option<Self>) {
        match &self {
            Address::Subject(inbox) if is_brief(inbox) => (None, Some(self)),
            Address::Subject(_) | Address::Here(..) => (Some(self), None),
        }
    }

    /// The user of NATS whose client wants an answer here.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match self {
            Address::Subject(inbox) => Some(user_of(inbox)),
            Address::Here(..) => None,
        }
    }
}

/// The user whose inbox this is: its first token.
pub(crate) fn user_of(inbox: &str) -> &str {
    inbox.split_once('.').map_or(inbox, |(user, _)| user)
}

/// A message for a permit loop, over NATS or from this process.
#[derive(Debug)]
pub struct Inbound {
    /// What it is about.
    pub endpoint: Endpoint,
    /// Where an answer goes, if one is wanted.
    pub reply: Option<Address>,
    /// The content.
    pub payload: Bytes,
    /// The traces that it belongs to, if spans are recorded here.
    pub trace: Option<Box<MessageTrace>>,
}

/// What a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Requests for permits, each of the class that it names.
    Permit,
    /// Requests for permits of this class.
    PermitOf(Name),
    /// What became of permits.
    Settle,
    /// Questions for levels, queues and counters.
    Status,
    /// Questions why requests wait.
    Explain,
    /// Orders that end waits.
    Purge,
    /// Orders that end pauses of limits.
    Thaw,
    /// Orders that pause limits.
    Freeze,
    /// Orders that take the stock of limits.
    Empty,
    /// Questions for what clients have used, which the task beside the loop answers.
    Usage,
    /// Questions for the access token, which the task beside the loop answers.
    Token,
    /// A loop's message to itself.
    Echo,
    /// A subject that the protocol does not have.
    Unknown(Subject),
}

/// A subject on which a leader answers, and whose messages are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointKind {
    /// Requests for permits, also those of one class.
    Permit,
    /// Reports on calls.
    Settle,
    /// Questions for levels, queues and counters.
    Status,
}

impl EndpointKind {
    /// All of them.
    pub const ALL: [EndpointKind; 3] = [EndpointKind::Permit, EndpointKind::Settle, EndpointKind::Status];
}

impl Endpoint {
    /// The counter of such messages, if they are counted.
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
            | Endpoint::Token
            | Endpoint::Echo
            | Endpoint::Unknown(_) => None,
        }
    }

    /// The subject of such messages.
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
            Endpoint::Token => subjects.token(resource).into(),
            Endpoint::Echo => subjects.echo(resource).into(),
            Endpoint::Unknown(subject) => subject.clone(),
        }
    }
}

/// The subjects of one resource, by what they are about.
#[derive(Debug)]
pub(crate) struct Endpoints {
    subjects: Subjects,
    resource: Name,
    known: [(Subject, Endpoint); 11],
    /// Whether spans are recorded, so that headers are read.
    traces: bool,
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
            Endpoint::Token,
            Endpoint::Echo,
        ];
        let known = endpoints.map(|endpoint| (endpoint.subject(subjects, resource), endpoint));
        Endpoints { known, subjects: subjects.clone(), resource: resource.clone(), traces }
    }

    /// The subject of all messages.
    pub(crate) fn all(&self) -> String {
        format!("{}.*.{}", self.subjects.prefix(), self.resource)
    }

    /// A message that came in over NATS.
    pub(crate) fn inbound(&self, message: Message) -> Inbound {
        let trace = MessageTrace::of(message.headers.as_ref().filter(|_| self.traces));
        let (reply, endpoint) = (self.reply(message.reply), self.endpoint(message.subject));
        Inbound { reply, endpoint, payload: message.payload, trace }
    }

    /// Where an answer goes, if it may go to `reply`: no message makes a loop write to a subject of
    /// its own protocol.
    pub(crate) fn reply(&self, reply: Option<Subject>) -> Option<Address> {
        reply.filter(|reply| self.subjects.may_answer_to(reply)).map(Address::Subject)
    }

    fn endpoint(&self, subject: Subject) -> Endpoint {
        let known = self.known.iter().find(|(known, _)| *known == subject).map(|(_, endpoint)| endpoint.clone());
        let of_class = || Name::new(self.subjects.class_in(&subject)?).ok().map(Endpoint::PermitOf);
        known.or_else(of_class).unwrap_or(Endpoint::Unknown(subject))
    }
}
