//! A connection whose heads are checked before hyper reads them.

mod head_check;

use head_check::{Framing, Verdict, check};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Longest head that is checked. hyper answers a longer one with 431.
pub(crate) const MAX_HEAD: usize = 32 * 1024;
const PIECE: usize = 4096;
/// Replaces an ambiguous head. No request begins like this: hyper answers 400 and closes.
const REFUSED: &[u8] = b"\0\r\n\r\n";

/// A stream that hides ambiguous heads from its reader. Nothing is checked after a chunked body:
/// [`closes`] makes such a request the last one.
#[derive(Debug)]
pub(crate) struct CheckedStream<S> {
    stream: S,
    expects: Expects,
    unchecked: Vec<u8>,
    seen: usize,
    /// Bytes that were checked but not yet read by hyper.
    checked: Vec<u8>,
    handed: usize,
}

#[derive(Clone, Copy, Debug)]
enum Expects {
    Head,
    /// This many more bytes of a body.
    Body(u64),
    /// Unchecked bytes up to the end of the connection.
    Anything,
}

impl Expects {
    /// This many bytes of a body, followed by the next head.
    fn rest(left: u64) -> Self {
        match left {
            0 => Expects::Head,
            left => Expects::Body(left),
        }
    }
}

/// Returns whether the connection has to close after a request with these headers.
pub(crate) fn closes(headers: &http::HeaderMap) -> bool {
    headers.contains_key(http::header::TRANSFER_ENCODING)
}

impl<S> CheckedStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        CheckedStream { stream, expects: Expects::Head, unchecked: Vec::new(), seen: 0, checked: Vec::new(), handed: 0 }
    }

    /// Checks the bytes read so far, and releases those that form valid heads to hyper.
    fn look(&mut self) {
        match check(&self.unchecked, self.seen) {
            Verdict::Open if self.unchecked.len() > MAX_HEAD => self.release(self.unchecked.len(), Expects::Anything),
            Verdict::Open => self.seen = self.unchecked.len(),
            Verdict::Empty => self.release(2, Expects::Head),
            Verdict::Http2 | Verdict::Clear(_, Framing::Chunked) => {
                self.release(self.unchecked.len(), Expects::Anything);
            }
            Verdict::Clear(head, Framing::Length(length)) => {
                let behind = (self.unchecked.len() - head) as u64;
                let body = behind.min(length);
                self.release(head + body as usize, Expects::rest(length - body));
            }
            Verdict::Ambiguous(why) => {
                tracing::debug!(why, "a request with an ambiguous head is refused");
                self.unchecked = REFUSED.to_vec();
                self.release(REFUSED.len(), Expects::Anything);
            }
        }
    }

    fn release(&mut self, bytes: usize, expects: Expects) {
        let rest = self.unchecked.split_off(bytes);
        self.checked = std::mem::replace(&mut self.unchecked, rest);
        (self.handed, self.seen, self.expects) = (0, 0, expects);
    }

    /// Hands checked bytes over; `false` if there are none.
    fn hand(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let left = &self.checked[self.handed..];
        let handed = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..handed]);
        let had_some = !left.is_empty();
        self.handed += handed;
        if self.handed == self.checked.len() {
            // An idle connection keeps no memory.
            (self.checked, self.handed) = (Vec::new(), 0);
        }
        had_some
    }
}

impl<S: AsyncRead + Unpin> CheckedStream<S> {
    /// Reads a piece of a head; `false` at the end of the stream.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<bool>> {
        let mut piece = [0; PIECE];
        let mut piece = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
        self.unchecked.extend_from_slice(piece.filled());
        Poll::Ready(Ok(!piece.filled().is_empty()))
    }

    fn poll_body(&mut self, left: u64, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        self.expects = match read {
            0 => Expects::Anything,
            read => Expects::rest(left - read as u64),
        };
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CheckedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        loop {
            if self.hand(buffer) {
                return Poll::Ready(Ok(()));
            }
            match self.expects {
                Expects::Body(left) => return self.poll_body(left, cx, buffer),
                Expects::Anything => return Pin::new(&mut self.stream).poll_read(cx, buffer),
                Expects::Head => {
                    let has_new = self.unchecked.len() > self.seen;
                    if !has_new && !ready!(self.poll_piece(cx))? {
                        return Poll::Ready(Ok(()));
                    }
                    self.look();
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CheckedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// What hyper reads of `sent`, which comes in pieces of this many bytes.
    async fn read(sent: &[u8], piece: usize) -> Vec<u8> {
        let (mut client, server) = tokio::io::duplex(piece);
        let sent = sent.to_vec();
        let sending = async move {
            client.write_all(&sent).await.ok();
        };
        let mut checked = CheckedStream::new(server);
        let mut found = Vec::new();
        let (read, ()) = tokio::join!(checked.read_to_end(&mut found), sending);
        read.unwrap();
        found
    }

    #[tokio::test]
    async fn clear_requests_pass_unchanged_however_they_are_cut() {
        let get = "GET / HTTP/1.1\r\nA: b\r\n\r\n";
        let post = "POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\nA\nbare\n";
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nanything\n";
        let all = format!("{get}{post}\r\n{post}{get}{chunked}");
        for piece in [1, 2, 3, 7, 50, 100, 1000] {
            assert_eq!(read(all.as_bytes(), piece).await, all.as_bytes(), "{piece}");
        }
    }

    /// The number of bytes that hyper sees of a head without an end, after `sent` bytes of it came.
    async fn handed(sent: usize) -> usize {
        let (mut client, server) = tokio::io::duplex(2 * MAX_HEAD);
        client.write_all(&[b"GET / HTTP/1.1\r\nA: ", &*vec![b'a'; sent]].concat()[..sent]).await.unwrap();
        let mut checked = CheckedStream::new(server);
        let (mut found, mut buffer) = (0, vec![0; 4 * MAX_HEAD]);
        loop {
            let mut part = ReadBuf::new(&mut buffer);
            match Pin::new(&mut checked).poll_read(&mut Context::from_waker(Waker::noop()), &mut part) {
                Poll::Ready(read) => read.unwrap(),
                Poll::Pending => return found,
            }
            found += part.filled().len();
        }
    }

    /// Reaches `checked_stream::MAX_HEAD`.
    #[tokio::test]
    async fn a_head_that_is_too_long_is_not_kept() {
        assert_eq!(handed(MAX_HEAD).await, 0, "its end may still come");
        assert_eq!(handed(MAX_HEAD + 1).await, MAX_HEAD + 1);
    }

    #[tokio::test]
    async fn behind_a_body_the_next_head_is_checked() {
        let post = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde";
        let smuggled =
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        for piece in [1, 10, 1000] {
            let found = read(format!("{post}{smuggled}").as_bytes(), piece).await;
            let expected = [post.as_bytes(), REFUSED].concat();
            assert!(found.starts_with(&expected), "{}", String::from_utf8_lossy(&found));
        }
    }
}
