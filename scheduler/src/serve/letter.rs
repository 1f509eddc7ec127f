//! What comes in for a permit loop, and where its answer goes.

use async_nats::{Message, Subject};
use bytes::Bytes;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_worker_sdk::inbox::Reply;
use tokio::sync::mpsc;

/// Where an answer goes.
#[derive(Clone, Debug)]
pub enum Address {
    /// To a subject, over NATS.
    Subject(Subject),
    /// To somebody in this process.
    Here(mpsc::Sender<Reply>),
}

/// A message for a permit loop, from whatever side it came.
#[derive(Debug)]
pub struct Letter {
    /// What it is about.
    pub door: Door,
    /// Who wants an answer, if anybody does.
    pub reply: Option<Address>,
    /// The content.
    pub payload: Bytes,
}

/// What a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
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

impl Door {
    /// Where others send what is about this.
    pub(super) fn subject(&self, subjects: &Subjects, resource: &Name) -> Subject {
        match self {
            Door::Permit => subjects.permit(resource).into(),
            Door::Settle => subjects.settle(resource).into(),
            Door::Status => subjects.status(resource).into(),
            Door::Explain => subjects.explain(resource).into(),
            Door::Purge => subjects.purge(resource).into(),
            Door::Echo => subjects.echo(resource).into(),
            Door::Unknown(subject) => subject.clone(),
        }
    }
}

/// The subjects of one resource, by what they are about.
#[derive(Debug)]
pub(super) struct Doors {
    subjects: Subjects,
    known: [(Subject, Door); 6],
    pub(super) echo: Subject,
}

impl Doors {
    pub(super) fn new(subjects: &Subjects, resource: &Name) -> Self {
        let doors = [Door::Permit, Door::Settle, Door::Status, Door::Explain, Door::Purge, Door::Echo];
        let known = doors.map(|door| (door.subject(subjects, resource), door));
        Doors { known, echo: Door::Echo.subject(subjects, resource), subjects: subjects.clone() }
    }

    /// What came in over NATS. No reply subject makes a loop write where workers must not.
    pub(super) fn letter(&self, message: Message) -> Letter {
        let reply = message.reply.filter(|reply| self.subjects.may_answer_to(reply)).map(Address::Subject);
        Letter { door: self.door(message.subject), reply, payload: message.payload }
    }

    fn door(&self, subject: Subject) -> Door {
        let known = self.known.iter().find(|(known, _)| *known == subject);
        known.map_or(Door::Unknown(subject), |(_, door)| door.clone())
    }
}
