//! Connections to the upstream that know whether they have been answered.
//!
//! An upstream may close a kept connection at the moment when the next request leaves. No server
//! saw such a request if the connection has answered earlier requests, and this one with no byte.

use hyper_util::client::legacy::Error;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Nothing was read yet.
const NEW: u8 = 0;
const ANSWERED: u8 = 1;
/// The last event was a write, after an earlier read.
const ASKED_AGAIN: u8 = 2;

#[derive(Clone, Debug)]
struct History(Arc<AtomicU8>);

/// A connection with its history. hyper shows only through tokio's traits how much was read.
#[derive(Debug)]
pub(crate) struct KnownConnection<C> {
    connection: TokioIo<C>,
    history: History,
}

/// Returns whether a call failed because its connection, which had answered earlier calls, closed
/// before it answered this one. HTTP/2 itself reports requests that the server did not process.
pub(crate) fn was_ending(error: &Error) -> bool {
    let Some(connected) = error.connect_info().filter(|connected| !connected.is_negotiated_h2()) else { return false };
    let mut extras = http::Extensions::new();
    connected.get_extras(&mut extras);
    extras.get::<History>().is_some_and(|history| history.0.load(Ordering::Acquire) == ASKED_AGAIN)
}

impl<C> KnownConnection<C> {
    /// Wraps a new connection, as hyper takes it.
    pub(crate) fn begin(connection: C) -> TokioIo<Self> {
        let history = History(Arc::new(AtomicU8::new(NEW)));
        TokioIo::new(KnownConnection { connection: TokioIo::new(connection), history })
    }
}

impl History {
    fn note_read(&self) {
        self.0.store(ANSWERED, Ordering::Release);
    }

    fn note_written(&self) {
        self.0.compare_exchange(ANSWERED, ASKED_AGAIN, Ordering::AcqRel, Ordering::Relaxed).ok();
    }
}

impl<C: Connection> Connection for KnownConnection<C> {
    fn connected(&self) -> Connected {
        self.connection.inner().connected().extra(self.history.clone())
    }
}

impl<C: hyper::rt::Read + Unpin> AsyncRead for KnownConnection<C> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.connection).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.history.note_read();
        }
        read
    }
}

impl<C: hyper::rt::Write + Unpin> AsyncWrite for KnownConnection<C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.history.note_written();
        Pin::new(&mut self.connection).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.history.note_written();
        Pin::new(&mut self.connection).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}
