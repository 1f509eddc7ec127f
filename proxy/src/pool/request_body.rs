//! The body of a client's request, which may be sent more than once.

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

/// How much of a body is read while its request waits, if the memory for bodies is half taken.
/// Otherwise as much is read as may be kept. Reading shows that the client is still there; a client
/// that ends a connection with an unread body is noticed later.
const READ_AHEAD: usize = 64 * 1024;

/// A body that is kept while it is sent, up to a bound. Within that bound, it can be sent again.
#[derive(Clone, Debug)]
pub(crate) struct RequestBody {
    /// What all sendings share. The lock is held for one poll of the client's body.
    shared: Arc<Mutex<Kept>>,
}

/// The memory for bodies of all requests.
#[derive(Clone, Debug)]
pub(crate) struct BodyMemory {
    free: Arc<Semaphore>,
    all: usize,
}

#[derive(Debug)]
struct Kept {
    rest: Incoming,
    pieces: Vec<Piece>,
    bytes: usize,
    /// The most bytes that are kept.
    most: usize,
    memory: BodyMemory,
    taken: Option<OwnedSemaphorePermit>,
    /// Whether all pieces so far are kept.
    is_whole: bool,
    has_ended: bool,
    has_failed: bool,
    /// The number of the present sending. Former sendings get no more pieces.
    sending: u32,
    length: SizeHint,
    clock: Clock,
    moved: Time,
}

#[derive(Clone, Debug)]
enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
}

/// One sending of a body.
#[derive(Debug)]
pub(crate) struct Sending {
    body: RequestBody,
    number: u32,
    /// The next kept piece.
    next: usize,
}

/// Why a body cannot be sent on.
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
    /// A body of which at most `most` bytes are kept.
    pub(crate) fn new(rest: Incoming, most: usize, memory: BodyMemory, clock: Clock) -> Self {
        let (has_ended, length) = (rest.is_end_stream(), rest.size_hint());
        let kept = Kept {
            rest,
            pieces: Vec::new(),
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

    /// The body from its beginning. Only for a body that [can be sent](Self::can_be_sent).
    pub(crate) fn send(&self) -> Sending {
        let mut kept = self.lock();
        kept.sending += 1;
        kept.moved = kept.clock.now();
        Sending { body: self.clone(), number: kept.sending, next: 0 }
    }

    /// Whether all that was read of the body is kept.
    pub(crate) fn can_be_sent(&self) -> bool {
        let kept = self.lock();
        kept.is_whole && !kept.has_failed
    }

    /// Whether the client has sent it to the end.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// Whether the client has broken it off.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().has_failed
    }

    /// When a piece of it was last sent on.
    pub(crate) fn moved(&self) -> Time {
        self.lock().moved
    }

    /// Reads while the request waits. Returns if the body breaks off, and otherwise never.
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

    /// The whole body, if it ends within `most` bytes. Otherwise what was read so far is kept.
    pub(crate) async fn whole(&self, most: usize) -> Option<Vec<u8>> {
        poll_fn(|cx| {
            let mut kept = self.lock();
            while !kept.has_ended && kept.bytes <= most.min(kept.most) && kept.is_whole {
                if ready!(kept.poll_ahead(cx)).is_err() {
                    return Poll::Ready(None);
                }
            }
            let is_there = kept.has_ended && kept.is_whole && kept.bytes <= most;
            Poll::Ready(is_there.then(|| kept.data()))
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// The most bytes that are read before the body is sent.
    fn most_ahead(&self) -> usize {
        if self.memory.is_half_taken() { READ_AHEAD.min(self.most) } else { self.most }
    }

    /// Reads the next piece before it can be sent. It is kept even if there is no room for more.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let Some(piece) = ready!(self.poll_piece(cx)) else { return Poll::Ready(Ok(())) };
        let piece = piece?;
        self.is_whole &= self.has_room(&piece);
        self.pieces.push(piece);
        Poll::Ready(Ok(()))
    }

    /// Reads the next piece, which is sent at once. It is kept if there is room.
    fn poll_on(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BodyError>>> {
        let next = ready!(self.poll_piece(cx));
        if let Some(Ok(piece)) = &next {
            self.is_whole = self.is_whole && self.has_room(piece);
            match self.is_whole {
                true => self.pieces.push(piece.clone()),
                false => (self.pieces, self.taken) = (Vec::new(), None),
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
                Poll::Ready(Some(Ok(Piece::new(frame))))
            }
        }
    }

    /// Takes room for `piece`; `false` if it exceeds a bound.
    fn has_room(&mut self, piece: &Piece) -> bool {
        self.bytes += piece.length();
        let place = self.memory.take(piece.length());
        let has_room = place.is_some() && self.bytes <= self.most;
        match (&mut self.taken, place) {
            (Some(taken), Some(place)) => taken.merge(place),
            (taken, place) => *taken = taken.take().or(place),
        }
        has_room
    }

    fn data(&self) -> Vec<u8> {
        let data = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Data(data) => Some(&**data),
            Piece::Trailers(_) => None,
        });
        data.collect::<Vec<_>>().concat()
    }
}

impl Piece {
    fn new(frame: Frame<Bytes>) -> Self {
        match frame.into_data() {
            Ok(data) => Piece::Data(data),
            Err(frame) => Piece::Trailers(frame.into_trailers().unwrap_or_default()),
        }
    }

    fn length(&self) -> usize {
        match self {
            Piece::Data(data) => data.len(),
            Piece::Trailers(trailers) => trailers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum(),
        }
    }

    fn frame(self) -> Frame<Bytes> {
        match self {
            Piece::Data(data) => Frame::data(data),
            Piece::Trailers(trailers) => Frame::trailers(trailers),
        }
    }
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
        let piece = match kept.pieces.get(self.next).cloned() {
            Some(piece) => Some(Ok(piece)),
            None => ready!(kept.poll_on(cx)),
        };
        self.next += 1;
        kept.moved = kept.clock.now();
        Poll::Ready(piece.map(|piece| piece.map(Piece::frame)))
    }

    fn is_end_stream(&self) -> bool {
        let kept = self.body.lock();
        kept.has_ended && !kept.has_failed && self.next >= kept.pieces.len()
    }

    fn size_hint(&self) -> SizeHint {
        match self.next {
            0 => self.body.lock().length,
            _ => SizeHint::default(),
        }
    }
}
