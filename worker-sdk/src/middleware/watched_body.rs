//! Settles a call when its response's body has been read, has failed, or is dropped.

use crate::{Call, Outcome};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub(crate) struct WatchedBody<B> {
    body: B,
    unsettled: Option<(Call, Outcome)>,
}

impl<B> WatchedBody<B> {
    pub(crate) fn new(body: B, call: Call, outcome: Outcome) -> Self {
        WatchedBody { body, unsettled: Some((call, outcome)) }
    }

    fn end(&mut self) {
        if let Some((call, outcome)) = self.unsettled.take() {
            call.settle(outcome);
        }
    }
}

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) || self.body.is_end_stream() {
            self.end();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for WatchedBody<B> {
    fn drop(&mut self) {
        self.end();
    }
}
