//! The upstream as a worker sees it.

use rampmeter_upstream::{Config, Upstream};
use rampmeter_worker_sdk::Outcome;
use reqwest::header::RETRY_AFTER;
use std::collections::BTreeMap;

/// Starts an upstream that enforces `policies`, such as `requests=50/10s`.
///
/// # Panics
/// If it can't be started.
pub async fn upstream(policies: &[&str]) -> Upstream {
    let policies = policies.iter().map(|policy| policy.parse().unwrap()).collect();
    Upstream::start(Config::new(policies)).await.unwrap()
}

/// A client without any proxy that the environment may name.
///
/// # Panics
/// If the system gives none.
#[must_use]
pub fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Calls an upstream. Clones share connections.
#[derive(Clone, Debug)]
pub struct Api {
    http: reqwest::Client,
    url: String,
}

impl Api {
    /// The API of `upstream`.
    #[must_use]
    pub fn new(upstream: &Upstream) -> Self {
        Api { http: http(), url: upstream.url() }
    }

    /// One call that costs a request and this much else.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn call(&self, cost: &BTreeMap<&str, f64>) -> Result<Outcome, reqwest::Error> {
        let cost: Vec<String> = cost.iter().map(|(unit, amount)| format!("{unit}={amount}")).collect();
        let response = self.http.get(format!("{}/process?{}", self.url, cost.join("&"))).send().await?;
        let outcome = Outcome::status(response.status().as_u16());
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        // Only a connection whose answer was read to the end is used again.
        response.bytes().await?;
        Ok(retry_after.iter().fold(outcome, |outcome, value| outcome.header("retry-after", value)))
    }
}
