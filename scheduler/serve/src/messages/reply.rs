//! Where answers go, and what they look like.

use crate::messages::array::{ArrayPlace, Arrays};
use crate::messages::inbound::Address;
use crate::messages::request_trace::RequestTrace;
use async_nats::HeaderMap;
use bytes::{BufMut, Bytes, BytesMut};
use rampmeter_protocol::answer::{Answer, Refused};
use rampmeter_protocol::code::{Code, ERROR_CODE_HEADER, ERROR_HEADER};
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::text::Text;
use serde::Serialize;
use std::sync::Arc;

/// Where the answer to one element of a message goes, and what it is to say. The core carries it
/// along.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    envelope: Envelope,
    tells_left: bool,
    cost: Option<Arc<Cost<'static>>>,
    trace: Option<Arc<RequestTrace>>,
}

#[derive(Clone, Debug)]
enum Envelope {
    /// A message of its own.
    Alone(Address),
    /// An array of answers.
    InArray(ArrayPlace),
}

impl ReplyTo {
    fn new(envelope: Envelope) -> Self {
        ReplyTo { envelope, tells_left: false, cost: None, trace: None }
    }

    /// A message of its own.
    pub fn alone(to: Address) -> Self {
        ReplyTo::new(Envelope::Alone(to))
    }

    /// The same. If `tells_left`, a permit says what is left of its limits.
    pub fn with_left(self, tells_left: bool) -> Self {
        ReplyTo { tells_left, ..self }
    }

    /// The same. A permit says what the call costs, if that was computed.
    pub fn with_cost(self, cost: Option<Arc<Cost<'static>>>) -> Self {
        ReplyTo { cost, ..self }
    }

    /// The same. The answer ends this span.
    pub fn with_trace(self, trace: Option<Arc<RequestTrace>>) -> Self {
        ReplyTo { trace, ..self }
    }

    /// The span that the answer ends.
    pub fn trace(&self) -> Option<&Arc<RequestTrace>> {
        self.trace.as_ref()
    }

    /// What a permit says that the call costs.
    pub fn cost(&self) -> Cost<'static> {
        self.cost.as_deref().cloned().unwrap_or_default()
    }

    /// The subject that the answer goes to, if it goes there alone.
    pub fn inbox(&self) -> Option<&str> {
        match &self.envelope {
            Envelope::Alone(Address::Subject(inbox)) => Some(inbox),
            Envelope::Alone(Address::Here(..)) | Envelope::InArray(_) => None,
        }
    }

    /// Whether a permit says what is left of its limits.
    pub fn tells_left(&self) -> bool {
        self.tells_left
    }
}

/// The request that has waited for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The request.
    pub id: PermitId,
    /// Whether the answer is its grant, and not an update.
    pub is_grant: bool,
}

/// A message to be published.
#[derive(Debug)]
pub struct Outgoing {
    /// Where to.
    pub to: Address,
    /// The request that has waited for it, if one has.
    pub waited: Option<Waited>,
    /// Only refusals have some: they cost the receiver time.
    pub headers: Option<HeaderMap>,
    /// The content.
    pub payload: Bytes,
}

/// Writes answers, and keeps them until they are published.
#[derive(Debug, Default)]
pub struct Outbox {
    outgoing: Vec<Outgoing>,
    arrays: Arrays,
    buffer: BytesMut,
    has_answered: bool,
}

impl Outbox {
    /// Answers one element.
    pub fn answer(&mut self, to: ReplyTo, answer: &Answer<'_>) {
        self.answer_waiting(to, None, answer);
    }

    /// Whether any client may know the epoch of this leader from an answer.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// The same for a request that has waited for this answer, if it has.
    pub fn answer_waiting(&mut self, to: ReplyTo, waited: Option<Waited>, answer: &Answer<'_>) {
        self.has_answered = true;
        match to.envelope {
            Envelope::Alone(address) => {
                write_answer(&mut self.buffer, answer);
                self.push(address, waited, headers(answer));
            }
            Envelope::InArray(place) => {
                self.arrays.answer(place, |text| write_answer(text, answer));
                self.send_array(place.array());
            }
        }
    }

    /// Begins the answer to an array.
    pub fn begin_array(&mut self, to: Address) -> usize {
        self.arrays.begin(to)
    }

    /// Where the answer to the next element of an array goes.
    pub fn place(&mut self, array: usize) -> ReplyTo {
        ReplyTo::new(Envelope::InArray(self.arrays.place(array)))
    }

    /// Notes that all elements of an array have been read. The array goes out with its last answer.
    pub fn end_array(&mut self, array: usize) {
        self.arrays.seal(array);
        self.send_array(array);
    }

    /// Forgets the answers that are ready to be published. Their permits stay charged, and waiting
    /// clients ask again.
    pub fn forget(&mut self) {
        self.outgoing.clear();
    }

    fn send_array(&mut self, array: usize) {
        let Self { arrays, buffer, .. } = self;
        if let Some(to) = arrays.close(array, |piece| buffer.put_slice(piece)) {
            self.push(to, None, None);
        }
    }

    /// Sends any other message.
    pub fn send(&mut self, to: Address, message: &impl Serialize) {
        write((&mut self.buffer).writer(), message);
        self.push(to, None, None);
    }

    /// Sends a text as it is.
    pub fn send_text(&mut self, to: Address, text: Bytes) {
        self.outgoing.push(Outgoing { to, waited: None, headers: None, payload: text });
    }

    /// What is to be published.
    pub fn drain(&mut self) -> impl Iterator<Item = Outgoing> {
        self.outgoing.drain(..)
    }

    fn push(&mut self, to: Address, waited: Option<Waited>, headers: Option<HeaderMap>) {
        let payload = self.buffer.split().freeze();
        self.outgoing.push(Outgoing { to, waited, headers, payload });
    }
}

fn write_answer(to: &mut impl BufMut, answer: &Answer<'_>) {
    answer.write(to.writer()).expect("answers are plain data");
}

fn write(to: impl std::io::Write, message: &impl Serialize) {
    serde_json::to_writer(to, message).expect("answers are plain data");
}

fn headers(answer: &Answer<'_>) -> Option<HeaderMap> {
    let Answer::Refused(Refused { code, message, .. }) = answer else { return None };
    let mut headers = HeaderMap::new();
    headers.insert(ERROR_CODE_HEADER, code.status().to_string());
    headers.insert(ERROR_HEADER, one_line(message));
    Some(headers)
}

/// The message in one line, because a line break would end the header.
fn one_line(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A refusal as the wire has it.
#[must_use]
pub fn refusal<'a>(id: Option<&'a str>, code: Code, message: String, epoch: Epoch) -> Answer<'a> {
    Answer::Refused(Refused { id: id.map(Text::from), epoch, ..Refused::new(code, message) })
}
