//! The body of an answer, from the upstream or from the proxy itself.

use crate::tokens::{TokenUnits, UsageReader};
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_sdk::call::Reply;
use rampmeter_worker_sdk::{Call, Outcome};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

/// How long an answer's headers show the present state of the upstream. If the body takes longer,
/// the call is settled without them.
const FRESH: Span = Span::from_secs(1);

/// The body of any answer.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// A body from the upstream.
    Upstream(Box<Relay>),
    /// A body that the proxy wrote.
    Own(Full<Bytes>),
}

/// Why an answer breaks off.
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
    body: Incoming,
    silence: Silence,
    /// `None` once the body has ended.
    unsettled: Option<UnsettledCall>,
}

/// A wait for the upstream's next bytes. While a slow client reads, the wait does not run.
#[derive(Debug)]
pub(crate) struct Silence {
    longest: Span,
    ends: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    pub(crate) fn of_at_most(longest: Span) -> Self {
        Silence { longest, ends: None }
    }

    /// Begins the wait if there is none. Ready once it is too long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let longest = self.longest.duration();
        self.ends.get_or_insert_with(|| Box::pin(tokio::time::sleep(longest))).as_mut().poll(cx)
    }

    fn end(&mut self) {
        self.ends = None;
    }
}

/// A call whose answer has begun.
#[derive(Debug)]
pub(crate) struct UnsettledCall {
    call: Call,
    outcome: Outcome,
    status: u16,
    begun: Time,
    clock: Clock,
    usage: Option<(TokenUnits, UsageReader)>,
    /// The place of the call among those in flight.
    _place: OwnedSemaphorePermit,
}

impl UnsettledCall {
    pub(crate) fn new(call: Call, answer: &Response<Incoming>, place: OwnedSemaphorePermit, clock: Clock) -> Self {
        let (outcome, status) = (answer.outcome(), answer.status().as_u16());
        UnsettledCall { call, outcome, status, begun: clock.now(), clock, usage: None, _place: place }
    }

    /// Reads the cost from the usage in the response.
    pub(crate) fn with_usage(self, units: TokenUnits, answer: &Response<Incoming>) -> Self {
        let content_type = answer.headers().get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        UnsettledCall { usage: Some((units, UsageReader::new(content_type))), ..self }
    }

    fn read(&mut self, data: &[u8]) {
        if let Some((_, reader)) = &mut self.usage {
            reader.read(data);
        }
    }

    /// Reports the call, which is over.
    pub(crate) fn settle(self) {
        let is_fresh = self.clock.now().since(self.begun) < FRESH;
        let outcome = if is_fresh { self.outcome } else { Outcome::status(self.status) };
        let used = self.usage.and_then(|(units, reader)| units.used(reader));
        self.call.settle(match used {
            Some(cost) => outcome.cost(cost),
            None => outcome,
        });
    }
}

impl Relay {
    pub(crate) fn new(body: Incoming, unsettled: UnsettledCall, silence: Silence) -> Self {
        let mut relay = Relay { body, silence, unsettled: Some(unsettled) };
        if relay.body.is_end_stream() {
            relay.end();
        }
        relay
    }

    fn end(&mut self) {
        if let Some(unsettled) = self.unsettled.take() {
            unsettled.settle();
        }
    }
}

impl Drop for Relay {
    /// A client that is gone ends the call, too.
    fn drop(&mut self) {
        self.end();
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = ResponseError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResponseError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.silence.poll(cx));
            self.end();
            return Poll::Ready(Some(Err(ResponseError::Silent)));
        };
        self.silence.end();
        if let (Some(Ok(frame)), Some(unsettled)) = (&frame, &mut self.unsettled)
            && let Some(data) = frame.data_ref()
        {
            unsettled.read(data);
        }
        let goes_on = frame.as_ref().is_some_and(Result::is_ok) && !self.body.is_end_stream();
        if !goes_on {
            self.end();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(ResponseError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ResponseError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResponseError>>> {
        match self.get_mut() {
            ResponseBody::Upstream(relay) => Pin::new(relay).poll_frame(cx),
            ResponseBody::Own(text) => Pin::new(text).poll_frame(cx).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Upstream(relay) => relay.is_end_stream(),
            ResponseBody::Own(text) => text.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Upstream(relay) => Body::size_hint(&**relay),
            ResponseBody::Own(text) => Body::size_hint(text),
        }
    }
}
