//! A body that is kept while it is sent. Up to a bound, it can be sent again.

use super::kept_bytes::KeptBytes;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Time;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How much of a body is read while its request waits, once the memory for bodies is half taken; before, as much as may
/// be kept. Reading shows that the client is there: with an unread body, its disconnect shows later.
const READ_AHEAD: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct RequestBody {
    /// What all sendings share. Locked for one poll of the client's body.
    shared: Arc<Mutex<Kept>>,
}

#[derive(Clone, Debug)]
pub(crate) struct BodyMemory {
    free: Arc<Semaphore>,
    all: usize,
}

#[derive(Debug)]
struct Kept {
    rest: Incoming,
    data: KeptBytes,
    trailers: Option<Box<HeaderMap>>,
    bytes: usize,
    most: usize,
    memory: BodyMemory,
    taken: Option<OwnedSemaphorePermit>,
    /// Whether all that was read is kept.
    is_whole: bool,
    has_ended: bool,
    has_failed: bool,
    /// The number of the current sending. Earlier ones get no more pieces.
    sending: u32,
    length: SizeHint,
    clock: Clock,
    moved: Time,
}

/// A part of the body, as hyper reads and sends it.
type Piece = Frame<Bytes>;

#[derive(Debug)]
pub(crate) struct Sending {
    body: RequestBody,
    number: u32,
    sent: usize,
    has_sent_trailers: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the client's body breaks off")]
    BrokenOff,
    #[error("the request is sent anew")]
    Superseded,
}

impl BodyMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        BodyMemory { free: Arc::new(Semaphore::new(bytes)), all: bytes }
    }

    fn is_half_taken(&self) -> bool {
        self.free.available_permits() < self.all / 2
    }

    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }
}

impl RequestBody {
    /// Creates a body of which at most `most` bytes are kept.
    pub(crate) fn new(rest: Incoming, most: usize, memory: BodyMemory, clock: Clock) -> Self {
        let (has_ended, length) = (rest.is_end_stream(), rest.size_hint());
        let kept = Kept {
            rest,
            data: KeptBytes::default(),
            trailers: None,
            bytes: 0,
            most,
            memory,
            taken: None,
            is_whole: true,
            has_ended,
            has_failed: false,
            sending: 0,
            length,
            clock,
            moved: clock.now(),
        };
        RequestBody { shared: Arc::new(Mutex::new(kept)) }
    }

    /// Sends the body from its beginning, which requires that it [can be sent](Self::can_be_sent).
    pub(crate) fn send(&self) -> Sending {
        let mut kept = self.lock();
        kept.sending += 1;
        kept.moved = kept.clock.now();
        Sending { body: self.clone(), number: kept.sending, sent: 0, has_sent_trailers: false }
    }

    /// Whether all that was read of the body is kept.
    pub(crate) fn can_be_sent(&self) -> bool {
        let kept = self.lock();
        kept.is_whole && !kept.has_failed
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.lock().has_failed
    }

    /// When a piece of it was last sent.
    pub(crate) fn moved(&self) -> Time {
        self.lock().moved
    }

    /// Reads while the request waits. Returns only if the body breaks off.
    pub(crate) async fn broken(&self) -> BodyError {
        poll_fn(|cx| {
            let mut kept = self.lock();
            while !kept.has_ended && kept.bytes < kept.most_ahead() && kept.is_whole {
                if let Err(error) = ready!(kept.poll_ahead(cx)) {
                    return Poll::Ready(error);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Reads the body, showing each piece to `see`. Returns whether it ended within the bounds; what was read is kept.
    pub(crate) async fn read(&self, mut see: impl FnMut(&[u8])) -> bool {
        poll_fn(|cx| {
            let mut kept = self.lock();
            while !kept.has_ended && kept.bytes <= kept.most && kept.is_whole {
                match ready!(kept.poll_ahead(cx)) {
                    Ok(piece) => see(piece.as_ref().and_then(Frame::data_ref).map_or(&[], |data| data)),
                    Err(_) => return Poll::Ready(false),
                }
            }
            Poll::Ready(kept.has_ended && kept.is_whole)
        })
        .await
    }

    pub(crate) fn kept(&self) -> Vec<u8> {
        self.lock().data.to_vec()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn most_ahead(&self) -> usize {
        if self.memory.is_half_taken() { READ_AHEAD.min(self.most) } else { self.most }
    }

    /// Reads the next piece before it can be sent. It is kept even if there is no room for more.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Piece>, BodyError>> {
        let Some(piece) = ready!(self.poll_piece(cx)).transpose()? else { return Poll::Ready(Ok(None)) };
        self.is_whole &= self.has_room(&piece);
        self.keep(&piece);
        Poll::Ready(Ok(Some(piece)))
    }

    /// Reads the next piece, which is sent at once. It is kept if there is room.
    fn poll_on(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BodyError>>> {
        let next = ready!(self.poll_piece(cx));
        if let Some(Ok(piece)) = &next {
            self.is_whole = self.is_whole && self.has_room(piece);
            match self.is_whole {
                true => self.keep(piece),
                false => (self.data, self.trailers, self.taken) = (KeptBytes::default(), None, None),
            }
        }
        Poll::Ready(next)
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BodyError>>> {
        if self.has_failed {
            return Poll::Ready(Some(Err(BodyError::BrokenOff)));
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        match ready!(Pin::new(&mut self.rest).poll_frame(cx)) {
            None => {
                self.has_ended = true;
                Poll::Ready(None)
            }
            Some(Err(_)) => {
                self.has_failed = true;
                Poll::Ready(Some(Err(BodyError::BrokenOff)))
            }
            Some(Ok(frame)) => {
                self.has_ended = self.rest.is_end_stream();
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    /// Takes room for `piece`; `false` if that exceeds a bound.
    fn has_room(&mut self, piece: &Piece) -> bool {
        self.bytes += length(piece);
        let growth = piece.data_ref().map_or_else(|| length(piece), |data| self.data.growth(data.len()));
        let place = self.memory.take(growth);
        let has_room = place.is_some() && self.bytes <= self.most;
        match (&mut self.taken, place) {
            (Some(taken), Some(place)) => taken.merge(place),
            (taken, place) => *taken = taken.take().or(place),
        }
        has_room
    }

    fn keep(&mut self, piece: &Piece) {
        match (piece.data_ref(), piece.trailers_ref()) {
            (Some(data), _) => self.data.push(data),
            (None, trailers) => self.trailers = trailers.cloned().map(Box::new),
        }
    }

    fn next_of(&mut self, sending: &Sending) -> Option<Piece> {
        if let Some(data) = self.data.from(sending.sent) {
            return Some(Frame::data(data));
        }
        let trailers = self.trailers.as_deref().filter(|_| !sending.has_sent_trailers)?;
        Some(Frame::trailers(trailers.clone()))
    }
}

fn length(piece: &Piece) -> usize {
    let trailers = piece.trailers_ref().into_iter().flatten();
    let trailers = trailers.map(|(name, value)| name.as_str().len() + value.len());
    piece.data_ref().map_or(0, Bytes::len) + trailers.sum::<usize>()
}

impl Body for Sending {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let body = self.body.clone();
        let mut kept = body.lock();
        if kept.sending != self.number {
            return Poll::Ready(Some(Err(BodyError::Superseded)));
        }
        let piece = match kept.next_of(&self) {
            Some(piece) => Some(Ok(piece)),
            None => ready!(kept.poll_on(cx)),
        };
        if let Some(Ok(piece)) = &piece {
            self.sent += piece.data_ref().map_or(0, Bytes::len);
            self.has_sent_trailers |= piece.is_trailers();
        }
        kept.moved = kept.clock.now();
        Poll::Ready(piece)
    }

    fn is_end_stream(&self) -> bool {
        let kept = self.body.lock();
        let has_more = self.sent < kept.data.len() || (kept.trailers.is_some() && !self.has_sent_trailers);
        kept.has_ended && !kept.has_failed && !has_more
    }

    fn size_hint(&self) -> SizeHint {
        match self.sent {
            0 => self.body.lock().length,
            _ => SizeHint::default(),
        }
    }
}
