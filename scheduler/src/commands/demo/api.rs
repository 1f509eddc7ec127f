//! The upstream as a worker sees it.

use super::class::Class;
use super::scenario::PROCESSING_UNITS;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Time;
use rampmeter_worker_sdk::Outcome;
use rampmeter_worker_sdk::call::Reply;
use reqwest::StatusCode;
use reqwest::header::RETRY_AFTER;
use std::time::Duration;

/// A client of the upstream, with a pool of connections that all clones share.
#[derive(Clone)]
pub(super) struct Api {
    client: reqwest::Client,
    url: String,
    clock: Clock,
}

/// 200 or 429.
pub(super) struct Answer {
    /// When the call was sent.
    pub(super) sent: Time,
    head: http::Response<()>,
}

impl Api {
    /// The upstream at `url`, without any proxy that the environment may name.
    pub(super) fn new(url: &str, clock: Clock) -> reqwest::Result<Self> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        Ok(Api { client, url: url.to_owned(), clock })
    }

    /// One call of this class.
    ///
    /// # Errors
    /// Anything else than 200 or 429.
    pub(super) async fn call(&self, class: Class) -> reqwest::Result<Answer> {
        let url = format!("{}/process?{PROCESSING_UNITS}={}", self.url, class.processing_units());
        let request = self.client.get(url).header("x-class", class.name());
        let sent = self.clock.now();
        let response = request.send().await?;
        let response = match response.status() {
            StatusCode::TOO_MANY_REQUESTS => response,
            _ => response.error_for_status()?,
        };
        let mut head = http::Response::new(());
        *head.status_mut() = response.status();
        *head.headers_mut() = response.headers().clone();
        // Only a connection whose answer was read to the end is used again.
        response.bytes().await?;
        Ok(Answer { sent, head })
    }
}

impl Answer {
    /// How long to wait at least, of a 429. Sentinel Hub says it in milliseconds.
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
    fn only_a_429_says_when_to_come_back() {
        check(200, None, None);
        check(200, Some("1500"), None);
        check(429, Some("1500"), Some(1500));
        check(429, None, Some(0));
        check(429, Some("soon"), Some(0));
    }
}
