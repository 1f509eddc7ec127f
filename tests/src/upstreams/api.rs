//! The upstream as a worker sees it.

use rampmeter_protocol::headers::speaks_of_limits;
use rampmeter_upstream::{Config, Dialect, Upstream};
use rampmeter_worker_sdk::Outcome;
use std::collections::BTreeMap;

/// Starts an upstream that enforces `policies`, such as `requests=50/10s`.
pub async fn upstream(policies: &[&str]) -> Upstream {
    upstream_with(policies, Dialect::default()).await
}

/// The same, with answers in `dialect`.
pub async fn upstream_with(policies: &[&str], dialect: Dialect) -> Upstream {
    let policies = policies.iter().map(|policy| policy.parse().unwrap()).collect();
    Upstream::start(Config::new(policies).dialect(dialect)).await.unwrap()
}

/// A client that ignores proxies in the environment.
pub fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Calls an upstream. Clones share connections.
#[derive(Clone, Debug)]
pub struct Api {
    http: reqwest::Client,
    url: String,
    /// The name under which the upstream counts the calls, if any.
    client: Option<&'static str>,
}

impl Api {
    /// The API of `upstream`.
    pub fn new(upstream: &Upstream) -> Self {
        Api { http: http(), url: upstream.url(), client: None }
    }

    /// The same, with calls that the upstream also counts under this name.
    pub fn named(self, client: &'static str) -> Self {
        Api { client: Some(client), ..self }
    }

    /// One call with a cost of one request and these amounts.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn call(&self, cost: &BTreeMap<&str, f64>) -> Result<Outcome, reqwest::Error> {
        let cost: Vec<String> = cost.iter().map(|(unit, amount)| format!("{unit}={amount}")).collect();
        let request = self.http.get(format!("{}/process?{}", self.url, cost.join("&")));
        let request = match self.client {
            Some(client) => request.header("x-client", client),
            None => request,
        };
        let response = request.send().await?;
        let outcome = Outcome::status(response.status().as_u16());
        let told = response.headers().iter().filter(|(name, _)| speaks_of_limits(name.as_str()));
        let told = told.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let outcome = told.fold(outcome, |outcome, (name, value)| outcome.header(name, value));
        // A connection is used again only if its answer was read to the end.
        response.bytes().await?;
        Ok(outcome)
    }
}
