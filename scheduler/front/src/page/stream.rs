//! Streams of server-sent events, bounded in number, duration and slowness.

use super::feed::Frame;
use super::page_error::PageError;
use crate::places::{Party, Places};
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Bound on concurrent streams, each of which costs a connection and what is written to it.
const MAX_STREAMS: usize = 64;
/// How long a stream lasts. Its browser then shows its token again to open another, or loses its place.
const LIFETIME: Duration = Duration::from_secs(60);
/// How long a stream may be silent: only a write shows that a browser is gone.
const SILENCE: Duration = Duration::from_secs(10);
/// A comment, which browsers ignore.
const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

#[derive(Clone, Debug)]
pub(super) struct Streams(Places<Party>);

impl Default for Streams {
    fn default() -> Self {
        Streams(Places::new(MAX_STREAMS))
    }
}

impl Streams {
    pub(super) fn open(&self, frames: watch::Receiver<Frame>, party: Party) -> Result<Response, PageError> {
        let Some(place) = self.0.take(party) else {
            let why = format!(
                "as many browsers are connected as there may be, {MAX_STREAMS} in all and two thirds of them with one \
                 token; close one, or retry in a minute"
            );
            return Err(PageError::unavailable(why));
        };
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::time::timeout(LIFETIME, send_frames(frames, sender)).await.ok();
            drop(place);
        });
        let events = futures::stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|event: Bytes| (Ok::<_, Infallible>(event), receiver))
        });
        let content_type = [(header::CONTENT_TYPE, "text/event-stream")];
        Ok((content_type, Body::from_stream(events)).into_response())
    }
}

/// Sends until the browser is gone. One that reads slowly misses frames, and then gets the whole picture.
async fn send_frames(mut frames: watch::Receiver<Frame>, browser: mpsc::Sender<Bytes>) {
    let mut sent = None;
    loop {
        let Frame { number, whole, change } = frames.borrow_and_update().clone();
        let event = match sent {
            Some(sent) if sent == number => HEARTBEAT,
            Some(sent) if sent + 1 == number && sent > 0 => change,
            // The resource was not observed yet.
            None if number == 0 => HEARTBEAT,
            Some(_) | None => whole,
        };
        sent = Some(number);
        if browser.send(event).await.is_err() {
            return;
        }
        tokio::select! {
            changed = frames.changed() => if changed.is_err() { return },
            () = browser.closed() => return,
            () = tokio::time::sleep(SILENCE) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use rampmeter_protocol::name::Name;

    fn frame(number: u64) -> Frame {
        Frame { number, whole: format!("whole {number}").into(), change: format!("change {number}").into() }
    }

    #[tokio::test]
    async fn streams_are_bounded() {
        let streams = Streams::default();
        let frames = watch::Sender::new(frame(1));
        let party = |name: &str| Party::Token(Name::new(name).unwrap());
        let open = |name: &str| streams.open(frames.subscribe(), party(name));
        let greedy: Vec<Response> = std::iter::from_fn(|| open("greedy").ok()).collect();
        assert_eq!((greedy.len(), open("greedy").unwrap_err().0), (43, StatusCode::SERVICE_UNAVAILABLE));
        let names: Vec<String> = (0..MAX_STREAMS).map(|number| number.to_string()).collect();
        let others: Vec<Response> = names.iter().filter_map(|name| open(name).ok()).collect();
        assert_eq!(others.len(), MAX_STREAMS - 43);
    }

    #[tokio::test]
    async fn a_browser_that_is_gone_has_no_place() {
        let streams = Streams::default();
        let frames = watch::Sender::new(frame(1));
        let party = Party::at([127, 0, 0, 1].into());
        drop(streams.open(frames.subscribe(), party).unwrap());
        while frames.receiver_count() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(streams.0.is_empty());
    }
}
