//! Where answers go, and what they look like.

use crate::serve::messages::array::{ArrayPlace, Arrays};
use crate::serve::messages::inbound::Address;
use async_nats::HeaderMap;
use bytes::{BufMut, Bytes, BytesMut};
use rampmeter_protocol::answer::Answer;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::text::Text;
use serde::Serialize;

/// The protocol's headers of a refusal.
const ERROR_CODE: &str = "Nats-Service-Error-Code";
const ERROR: &str = "Nats-Service-Error";
/// Whole numbers below this are written digit by digit, larger ones with an exponent.
const MOST_WHOLE: u64 = 10_000_000_000_000_000;

/// Where the answer to one element of a message goes, and what it is to say. The core carries it
/// along.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    envelope: Envelope,
    tells_left: bool,
}

#[derive(Clone, Debug)]
enum Envelope {
    /// A message of its own.
    Alone(Address),
    /// An array of answers.
    InArray(ArrayPlace),
}

impl ReplyTo {
    /// A message of its own.
    pub fn alone(to: Address) -> Self {
        ReplyTo { envelope: Envelope::Alone(to), tells_left: false }
    }

    /// The same. If `tells_left`, a permit says what is left of its limits.
    pub fn with_left(self, tells_left: bool) -> Self {
        ReplyTo { tells_left, ..self }
    }

    /// The subject that the answer goes to, if it goes there alone.
    pub fn inbox(&self) -> Option<&str> {
        match &self.envelope {
            Envelope::Alone(Address::Subject(inbox)) => Some(inbox),
            Envelope::Alone(Address::Here(_)) | Envelope::InArray(_) => None,
        }
    }

    /// Whether a permit says what is left of its limits.
    pub fn tells_left(&self) -> bool {
        self.tells_left
    }
}

/// A message to be published.
#[derive(Debug)]
pub struct Outgoing {
    /// Where to.
    pub to: Address,
    /// The request that has waited for it, if one has.
    pub waited: Option<PermitId>,
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
}

impl Outbox {
    /// Answers one element.
    pub fn answer(&mut self, to: ReplyTo, answer: &Answer<'_>) {
        self.answer_waiting(to, None, answer);
    }

    /// The same for the request `waited`, if it has waited for this answer.
    pub fn answer_waiting(&mut self, to: ReplyTo, waited: Option<PermitId>, answer: &Answer<'_>) {
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
        ReplyTo { envelope: Envelope::InArray(self.arrays.place(array)), tells_left: false }
    }

    /// All elements of an array have been read; it goes out with its last answer.
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

    /// What is to be published.
    pub fn drain(&mut self) -> impl Iterator<Item = Outgoing> {
        self.outgoing.drain(..)
    }

    fn push(&mut self, to: Address, waited: Option<PermitId>, headers: Option<HeaderMap>) {
        let payload = self.buffer.split().freeze();
        self.outgoing.push(Outgoing { to, waited, headers, payload });
    }
}

/// Nearly all answers are grants. They are written by hand, in a third of the time.
fn write_answer(to: &mut impl BufMut, answer: &Answer<'_>) {
    match answer {
        Answer::Granted {
            id,
            delay_ms,
            valid_ms: Some(valid_ms),
            lease_ms: None,
            limited_by,
            left,
            at_ms: Some(at_ms),
            epoch,
        } if left.is_empty() => {
            write_grant(to, id, (*delay_ms, *valid_ms), limited_by.as_deref(), (*at_ms, *epoch));
        }
        Answer::Granted { .. } | Answer::Queued { .. } | Answer::Refused { .. } | Answer::Settled { .. } => {
            write(to.writer(), answer);
        }
    }
}

/// Neither ids nor names have a character that JSON escapes.
fn write_grant(
    to: &mut impl BufMut,
    id: &str,
    (delay_ms, valid_ms): (f64, f64),
    limited_by: Option<&str>,
    (at_ms, epoch): (u64, u64),
) {
    to.put_slice(br#"{"status":"granted","id":""#);
    to.put_slice(id.as_bytes());
    to.put_slice(br#"","delay_ms":"#);
    write_ms(to, delay_ms);
    to.put_slice(br#","valid_ms":"#);
    write_ms(to, valid_ms);
    if let Some(limit) = limited_by {
        to.put_slice(br#","limited_by":""#);
        to.put_slice(limit.as_bytes());
        to.put_u8(b'"');
    }
    to.put_slice(br#","at_ms":"#);
    write(to.writer(), &at_ms);
    to.put_slice(br#","epoch":"#);
    write(to.writer(), &epoch);
    to.put_u8(b'}');
}

/// Nearly all values are whole numbers, which are written in a fraction of the time.
fn write_ms(to: &mut impl BufMut, ms: f64) {
    match ms as u64 {
        whole if whole as f64 == ms && whole < MOST_WHOLE => {
            write(to.writer(), &whole);
            to.put_slice(b".0");
        }
        _fraction => write(to.writer(), &ms),
    }
}

fn write(to: impl std::io::Write, message: &impl Serialize) {
    serde_json::to_writer(to, message).expect("answers are plain data");
}

fn headers(answer: &Answer<'_>) -> Option<HeaderMap> {
    let Answer::Refused { code, message, .. } = answer else { return None };
    let mut headers = HeaderMap::new();
    headers.insert(ERROR_CODE, code.status().to_string());
    headers.insert(ERROR, one_line(message));
    Some(headers)
}

/// A line break would end the header.
fn one_line(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A refusal as the wire has it.
#[must_use]
pub fn refusal<'a>(id: Option<&'a str>, code: Code, message: String, epoch: u64) -> Answer<'a> {
    let (id, message) = (id.map(Text::from), Text::from(message));
    Answer::Refused { id, code, message, retry_after_ms: None, limited_by: None, epoch }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_by_hand_is_what_serde_writes() {
        for limited_by in [None, Some(Text::from("requests-per-minute"))] {
            for delay_ms in [0.0, 1234.5, 1e-6, 3.0, 9_999_999_999_999_998.0, 1e16, 2e19] {
                let id = Text::from("0199a7c2-5d1e.A_z:9");
                let limited_by = limited_by.clone();
                let (valid_ms, left) = (Some(5000.0), Vec::new());
                let (at_ms, epoch, lease_ms) = (Some(86_400_123), 7, None);
                let answer = Answer::Granted { id, delay_ms, valid_ms, lease_ms, limited_by, left, at_ms, epoch };
                let mut by_hand = Vec::new();
                write_answer(&mut by_hand, &answer);
                assert_eq!(String::from_utf8(by_hand).unwrap(), serde_json::to_string(&answer).unwrap());
            }
        }
    }
}
