//! Writes answers, and publishes them in that order.

use crate::connection::round_trip;
use crate::messages::inbound::{Address, user_of};
use crate::messages::reply::Arrays;
use crate::messages::reply::{Envelope, ReplyTo, Waited};
use crate::permits::answers::fitting::fitting;
use crate::permits::answers::undelivered::Undelivered;
use async_nats::client::PublishError;
use async_nats::{Client, HeaderMap, Subject};
use bytes::{BufMut, Bytes, BytesMut};
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::answer::{Answer, Refused};
use rampmeter_protocol::code::{ERROR_CODE_HEADER, ERROR_HEADER};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::news::News;
use rampmeter_protocol::subject::Subjects;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc::error::TrySendError;

/// The size of memory blocks for answers: some hundred answers each.
const BLOCK: usize = 64 << 10;

/// The output of a loop. Answers to waiting requests that reach no client are reported to `undelivered`.
#[derive(Debug)]
pub(crate) struct Outbox {
    client: Client,
    user: Arc<str>,
    outgoing: Vec<Outgoing>,
    arrays: Arrays,
    buffer: BytesMut,
    /// Whether any client may know this leader's epoch from an answer.
    pub(crate) has_answered: bool,
    pub(crate) undelivered: Undelivered,
    /// Why a message could not be sent, until that is logged.
    failure: Option<PublishError>,
    /// The subject of announcements.
    event: Address,
    echo: Address,
}

#[derive(Debug)]
struct Outgoing {
    to: Address,
    waited: Option<Waited>,
    /// Only refusals have headers, which cost the receiver time.
    headers: Option<HeaderMap>,
    payload: Bytes,
}

impl Outbox {
    pub(crate) fn new(client: Client, subjects: &Subjects, resource: &Name) -> Self {
        let user = user_of(&client.new_inbox()).into();
        Outbox {
            client,
            user,
            outgoing: Vec::new(),
            arrays: Arrays::default(),
            buffer: BytesMut::with_capacity(BLOCK),
            has_answered: false,
            undelivered: Undelivered::new(subjects, resource),
            failure: None,
            event: Address::Subject(subjects.event(resource).into()),
            echo: Address::Subject(subjects.echo(resource).into()),
        }
    }

    /// Returns the NATS user of clients whose inbox shows none, such as all HTTP clients.
    pub(crate) fn own_user(&self) -> Arc<str> {
        Arc::clone(&self.user)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    pub(crate) fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    pub(crate) fn answer(&mut self, to: ReplyTo, answer: &Answer<'_>) {
        self.answer_waiting(to, None, answer);
    }

    /// Answers a request, which has waited for this answer if `waited` is given.
    pub(crate) fn answer_waiting(&mut self, to: ReplyTo, waited: Option<Waited>, answer: &Answer<'_>) {
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

    pub(crate) fn begin_array(&mut self, to: Address) -> usize {
        self.arrays.begin(to)
    }

    pub(crate) fn place(&mut self, array: usize) -> ReplyTo {
        ReplyTo::new(Envelope::InArray(self.arrays.place(array)))
    }

    /// Ends an array, which goes out with its last answer.
    pub(crate) fn end_array(&mut self, array: usize) {
        self.arrays.seal(array);
        self.send_array(array);
    }

    /// Discards unpublished answers: permits stay charged, clients ask again. Keeps announcements, never asked for.
    pub(crate) fn forget(&mut self) {
        forget_answers(&mut self.outgoing, &self.event);
    }

    pub(crate) fn announce(&mut self, news: &News) {
        self.send(self.event.clone(), news);
    }

    /// Sends an echo, on the path of requests and answers.
    pub(crate) fn send_echo(&mut self, message: &impl Serialize) {
        self.send(self.echo.clone(), message);
    }

    pub(crate) fn send(&mut self, to: Address, message: &impl Serialize) {
        serde_json::to_writer((&mut self.buffer).writer(), message).expect("answers are plain data");
        self.push(to, None, None);
    }

    pub(crate) fn send_text(&mut self, to: Address, text: Bytes) {
        self.outgoing.push(Outgoing { to, waited: None, headers: None, payload: text });
    }

    pub(crate) async fn publish(&mut self) {
        for Outgoing { to, waited, headers, payload } in self.outgoing.drain(..) {
            match to {
                Address::Here(inbox, number) => {
                    let sent = inbox.try_send((number, InboxReply::Answer(payload)));
                    if let (Err(TrySendError::Closed(_)), Some(waited)) = (sent, waited) {
                        self.undelivered.note_here(waited);
                    }
                }
                Address::Subject(subject) => {
                    let notice_subject = waited.and_then(|waited| self.undelivered.notice_subject(&waited, &subject));
                    let payload = fitting(payload, self.client.max_payload());
                    let sent = send(&self.client, subject, notice_subject, headers, payload).await;
                    self.failure = sent.err().or(self.failure.take());
                }
            }
        }
    }

    /// Returns why a message could not be sent since the last call.
    pub(crate) fn take_failure(&mut self) -> Option<PublishError> {
        self.failure.take()
    }

    /// Publishes everything written, and returns once the server has it.
    pub(crate) async fn flush(&mut self) -> anyhow::Result<()> {
        self.publish().await;
        round_trip(&self.client).await
    }

    fn send_array(&mut self, array: usize) {
        let Self { arrays, buffer, .. } = self;
        if let Some(to) = arrays.close(array, |piece| buffer.put_slice(piece)) {
            self.push(to, None, None);
        }
    }

    fn push(&mut self, to: Address, waited: Option<Waited>, headers: Option<HeaderMap>) {
        let payload = self.buffer.split().freeze();
        self.outgoing.push(Outgoing { to, waited, headers, payload });
    }
}

fn forget_answers(outgoing: &mut Vec<Outgoing>, event: &Address) {
    outgoing.retain(|message| match (&message.to, event) {
        (Address::Subject(to), Address::Subject(event)) => to == event,
        (Address::Here(..), _) | (_, Address::Here(..)) => false,
    });
}

fn write_answer(to: &mut impl BufMut, answer: &Answer<'_>) {
    answer.write(to.writer()).expect("answers are plain data");
}

/// Returns the headers by which tools recognise a refusal.
pub(crate) fn headers(answer: &Answer<'_>) -> Option<HeaderMap> {
    let Answer::Refused(Refused { code, message, .. }) = answer else { return None };
    let mut headers = HeaderMap::new();
    headers.insert(ERROR_CODE_HEADER, code.status().to_string());
    headers.insert(ERROR_HEADER, &**message);
    Some(headers)
}

pub(crate) async fn send(
    client: &Client,
    to: Subject,
    reply: Option<Subject>,
    headers: Option<HeaderMap>,
    payload: Bytes,
) -> Result<(), PublishError> {
    match (reply, headers) {
        (None, None) => client.publish(to, payload).await,
        (None, Some(headers)) => client.publish_with_headers(to, headers, payload).await,
        (Some(reply), None) => client.publish_with_reply(to, reply, payload).await,
        (Some(reply), Some(headers)) => client.publish_with_reply_and_headers(to, reply, headers, payload).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standstill_drops_answers_and_no_announcement() {
        let to = |subject: &'static str| Address::Subject(subject.into());
        let message =
            |subject| Outgoing { to: to(subject), waited: None, headers: None, payload: Bytes::from(subject) };
        let mut outgoing = vec![message("inbox"), message("event")];
        forget_answers(&mut outgoing, &to("event"));
        assert_eq!(outgoing.iter().map(|message| &message.payload[..]).collect::<Vec<_>>(), [b"event"]);
    }
}
