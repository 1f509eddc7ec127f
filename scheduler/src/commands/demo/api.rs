//! A worker's client of the upstream.

use super::class::Class;
use super::scenario::PROCESSING_UNITS;
use anyhow::ensure;
use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Time;
use rampmeter_worker_sdk::Outcome;
use rampmeter_worker_sdk::call::Reply;
use std::time::Duration;

/// A client of the upstream, with a pool of connections that all clones share.
#[derive(Clone)]
pub(super) struct Api {
    client: Client<HttpConnector, Empty<Bytes>>,
    url: String,
    clock: Clock,
}

/// An answer with 200 or 429.
pub(super) struct Answer {
    /// When the call was sent.
    pub(super) sent: Time,
    head: http::Response<()>,
}

impl Api {
    /// A client of the upstream at `url`. It ignores proxies of the environment.
    pub(super) fn new(url: &str, clock: Clock) -> Self {
        Api { client: Client::builder(TokioExecutor::new()).build_http(), url: url.to_owned(), clock }
    }

    /// Makes one call of this class.
    ///
    /// # Errors
    /// If the call fails, or the answer is neither 200 nor 429.
    pub(super) async fn call(&self, class: Class) -> anyhow::Result<Answer> {
        let url = format!("{}/process?{PROCESSING_UNITS}={}", self.url, class.processing_units());
        let request = Request::get(url).header("x-class", class.name()).body(Empty::new())?;
        let sent = self.clock.now();
        let (head, body) = self.client.request(request).await?.into_parts();
        let expected = head.status.is_success() || head.status == StatusCode::TOO_MANY_REQUESTS;
        ensure!(expected, "the upstream answered {}", head.status);
        // The client reuses a connection only after the answer was read to its end.
        body.collect().await?;
        Ok(Answer { sent, head: http::Response::from_parts(head, ()) })
    }
}

impl Answer {
    /// The shortest wait after a 429. Sentinel Hub states it in milliseconds.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let throttled = self.head.status() == StatusCode::TOO_MANY_REQUESTS;
        let header = || self.head.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok();
        throttled.then(|| Duration::from_millis(header().unwrap_or_default()))
    }
}

impl Reply for Answer {
    fn outcome(&self) -> Outcome {
        self.head.outcome()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, retry_after: Option<&str>, expected: Option<u64>) {
        let head = http::Response::builder().status(status);
        let head = retry_after.into_iter().fold(head, |head, value| head.header(RETRY_AFTER, value));
        let answer = Answer { sent: Time::ORIGIN, head: head.body(()).unwrap() };
        assert_eq!(answer.retry_after(), expected.map(Duration::from_millis), "{status} {retry_after:?}");
    }

    #[test]
    fn only_a_429_states_a_wait() {
        check(200, None, None);
        check(200, Some("1500"), None);
        check(429, Some("1500"), Some(1500));
        check(429, None, Some(0));
        check(429, Some("soon"), Some(0));
    }
}
