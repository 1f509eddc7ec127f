//! What comes in for a permit loop, and where its answer goes.

use async_nats::{Message, Subject};
use bytes::Bytes;
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use tokio::sync::mpsc;

/// Where an answer goes.
#[derive(Clone, Debug)]
pub enum Address {
    /// To a subject, over NATS.
    Subject(Subject),
    /// To somebody in this process.
    Here(mpsc::Sender<InboxReply>),
}

/// A message for a permit loop, from whatever side it came.
#[derive(Debug)]
pub struct Inbound {
    /// What it is about.
    pub endpoint: Endpoint,
    /// Who wants an answer, if anybody does.
    pub reply: Option<Address>,
    /// The content.
    pub payload: Bytes,
}

/// What a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Requests for permits.
    Permit,
    /// What became of permits.
    Settle,
    /// How things stand.
    Status,
    /// Why a request waits.
    Explain,
    /// Ending waits by hand.
    Purge,
    /// The loop's word to itself.
    Echo,
    /// Nothing that the protocol has.
    Unknown(Subject),
}

impl Endpoint {
    /// Where others send what is about this.
    pub(crate) fn subject(&self, subjects: &Subjects, resource: &Name) -> Subject {
        match self {
            Endpoint::Permit => subjects.permit(resource).into(),
            Endpoint::Settle => subjects.settle(resource).into(),
            Endpoint::Status => subjects.status(resource).into(),
            Endpoint::Explain => subjects.explain(resource).into(),
            Endpoint::Purge => subjects.purge(resource).into(),
            Endpoint::Echo => subjects.echo(resource).into(),
            Endpoint::Unknown(subject) => subject.clone(),
        }
    }
}

/// The subjects of one resource, by what they are about.
#[derive(Debug)]
pub(crate) struct Endpoints {
    subjects: Subjects,
    known: [(Subject, Endpoint); 6],
    pub(crate) echo: Subject,
}

impl Endpoints {
    pub(crate) fn new(subjects: &Subjects, resource: &Name) -> Self {
        let endpoints =
            [Endpoint::Permit, Endpoint::Settle, Endpoint::Status, Endpoint::Explain, Endpoint::Purge, Endpoint::Echo];
        let known = endpoints.map(|endpoint| (endpoint.subject(subjects, resource), endpoint));
        Endpoints { known, echo: Endpoint::Echo.subject(subjects, resource), subjects: subjects.clone() }
    }

    /// What came in over NATS. No reply subject makes a loop write where workers must not.
    pub(crate) fn inbound(&self, message: Message) -> Inbound {
        let reply = message.reply.filter(|reply| self.subjects.may_answer_to(reply)).map(Address::Subject);
        Inbound { endpoint: self.endpoint(message.subject), reply, payload: message.payload }
    }

    fn endpoint(&self, subject: Subject) -> Endpoint {
        let known = self.known.iter().find(|(known, _)| *known == subject);
        known.map_or(Endpoint::Unknown(subject), |(_, endpoint)| endpoint.clone())
    }
}
