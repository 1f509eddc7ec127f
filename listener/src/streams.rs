//! The requests of one connection whose answers are not complete.

use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;

/// The number of such requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<watch::Sender<usize>>);

/// One such request, until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream(Streams);

/// The body of an answer, whose request counts until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedBody<B> {
    body: B,
    _stream: OpenStream,
}

impl Streams {
    pub(crate) fn begin(&self) -> OpenStream {
        self.0.send_modify(|open| *open += 1);
        OpenStream(self.clone())
    }

    /// Returns once there has been no request for `idle`.
    pub(crate) async fn idle_for(&self, idle: Duration) {
        let mut open = self.0.subscribe();
        loop {
            open.wait_for(|open| *open == 0).await.map(drop).expect("the sender is part of `self`");
            if tokio::time::timeout(idle, open.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl OpenStream {
    pub(crate) fn until_end_of<B>(self, body: B) -> CountedBody<B> {
        CountedBody { body, _stream: self }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.send_modify(|open| *open -= 1);
    }
}

impl<B: Body + Unpin> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
