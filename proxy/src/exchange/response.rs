//! Bodies of responses from the upstream or the proxy itself.

use crate::answer::AnswerReader;
use crate::objection::MAX_READ;
use crate::prompts::{Prompt, Prompts};
use bytes::{Bytes, BytesMut};
use http::Response;
use http::header::RETRY_AFTER;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_sdk::call::Reply;
use rampmeter_worker_sdk::{Call, Outcome};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

/// How long headers describe the upstream's current state; a longer call is settled without them.
const FRESH: Span = Span::from_secs(1);
/// How long to wait for the beginning of a rejection's body, which is read before it is passed on.
const PEEKED_WITHIN: Duration = Duration::from_millis(500);

pub(crate) type ResponseBody = Either<Box<Relay>, Full<Bytes>>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ResponseError {
    #[error("the upstream breaks off its answer")]
    BrokenOff(#[from] hyper::Error),
    #[error("the upstream does not go on with its answer")]
    Silent,
}

/// The upstream's body on its way to the client. The call ends with it.
#[derive(Debug)]
pub(crate) struct Relay {
    /// The beginning of the body, which was read already.
    seen: Bytes,
    body: Incoming,
    silence: Silence,
    /// `None` once the body has ended.
    unsettled: Option<UnsettledCall>,
}

/// Timer of the upstream's silence, which does not run while a slow client reads.
#[derive(Debug)]
pub(crate) struct Silence {
    longest: Span,
    ends: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    pub(crate) fn of_at_most(longest: Span) -> Self {
        Silence { longest, ends: None }
    }

    /// Starts the timer if it is not running. Ready once it has run out.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let longest = self.longest.duration();
        self.ends.get_or_insert_with(|| Box::pin(tokio::time::sleep(longest))).as_mut().poll(cx)
    }

    fn end(&mut self) {
        self.ends = None;
    }
}

#[derive(Debug)]
pub(crate) struct UnsettledCall {
    call: Call,
    outcome: Outcome,
    status: u16,
    begun: Time,
    clock: Clock,
    answer: AnswerReader,
    /// The request's prompt, and the record of what the vendor caches of it.
    prompt: (Prompt, Arc<Mutex<Prompts>>),
    /// Whether the head says when to come back.
    says_when: bool,
    /// The call's place among those in flight.
    _place: OwnedSemaphorePermit,
}

impl UnsettledCall {
    pub(crate) fn new(
        call: Call,
        response: &Response<Incoming>,
        answer: AnswerReader,
        prompt: (Prompt, Arc<Mutex<Prompts>>),
        place: OwnedSemaphorePermit,
        clock: Clock,
    ) -> Self {
        let (outcome, status) = (response.outcome(), response.status().as_u16());
        let says_when = response.headers().contains_key(RETRY_AFTER);
        UnsettledCall { call, outcome, status, begun: clock.now(), clock, answer, prompt, says_when, _place: place }
    }

    /// Reads the beginning of a rejection for its code.
    pub(crate) async fn peek(&mut self, body: &mut Incoming) -> Bytes {
        let mut seen = BytesMut::new();
        let reading = async {
            while seen.len() < MAX_READ
                && let Some(Ok(frame)) = body.frame().await
            {
                seen.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            }
        };
        // What was read so far is passed on, however little it is.
        tokio::time::timeout(PEEKED_WITHIN, reading).await.ok();
        self.answer.read(&seen);
        seen.freeze()
    }

    /// Whether the rejection is one that no waiting mends.
    pub(crate) fn is_final(&self) -> bool {
        self.answer.error().is_final()
    }

    /// Reports the call, which is over. A response that breaks off is not whole.
    pub(crate) fn settle(self, is_whole: bool) {
        let is_fresh = self.clock.now().since(self.begun) < FRESH;
        let outcome = if is_fresh { self.outcome } else { Outcome::status(self.status) };
        if let Some(kept) = self.answer.kept() {
            let (prompt, known) = self.prompt;
            known.lock().unwrap_or_else(PoisonError::into_inner).note(prompt, kept, self.clock.now());
        }
        let error = self.answer.error();
        let outcome = match self.answer.code() {
            Some(code) => outcome.code(code),
            None => outcome,
        };
        let outcome = match error.delay().filter(|_| !self.says_when && is_fresh) {
            Some(seconds) => outcome.header(RETRY_AFTER.as_str(), &seconds.to_string()),
            None => outcome,
        };
        self.call.settle(match self.answer.used(is_whole) {
            Some(cost) => outcome.cost(cost),
            None => outcome,
        });
    }
}

impl Relay {
    /// Relays `body`, of which `seen` was read already.
    pub(crate) fn new(seen: Bytes, body: Incoming, unsettled: UnsettledCall, silence: Silence) -> Self {
        let mut relay = Relay { seen, body, silence, unsettled: Some(unsettled) };
        if relay.body.is_end_stream() {
            relay.end(true);
        }
        relay
    }

    fn end(&mut self, is_whole: bool) {
        if let Some(unsettled) = self.unsettled.take() {
            unsettled.settle(is_whole);
        }
    }
}

impl Drop for Relay {
    /// A client that disconnects also ends the call.
    fn drop(&mut self) {
        self.end(false);
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = ResponseError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResponseError>>> {
        if !self.seen.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.seen)))));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.silence.poll(cx));
            self.end(false);
            return Poll::Ready(Some(Err(ResponseError::Silent)));
        };
        self.silence.end();
        if let (Some(Ok(frame)), Some(unsettled)) = (&frame, &mut self.unsettled)
            && let Some(data) = frame.data_ref()
        {
            unsettled.answer.read(data);
        }
        let is_broken = matches!(frame, Some(Err(_)));
        if frame.is_none() || is_broken || self.body.is_end_stream() {
            self.end(!is_broken);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(ResponseError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.seen.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.seen.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}
