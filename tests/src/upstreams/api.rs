//! The upstream as a worker sees it.

use axum::Router;
use rampmeter_protocol::headers::speaks_of_limits;
use rampmeter_upstream::{Config, Dialect, Preset, Rule, Upstream};
use rampmeter_worker_sdk::Outcome;
use std::collections::BTreeMap;
use tokio::net::TcpListener;

/// Starts an upstream that enforces `policies`, such as `requests=50/10s`.
pub async fn upstream(policies: &[&str]) -> Upstream {
    upstream_with(policies, Dialect::default()).await
}

/// The same, with answers in `dialect`.
pub async fn upstream_with(policies: &[&str], dialect: Dialect) -> Upstream {
    let rules = policies.iter().map(|policy| Rule::new(policy.parse().unwrap())).collect();
    let mut preset = Preset::new(rules);
    preset.dialect = dialect;
    Upstream::start(Config::of(preset)).await.unwrap()
}

/// Serves `router` on a free port until the runtime ends, and returns its URL.
pub async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, router).await });
    url
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
}

impl Api {
    /// The API of `upstream`.
    pub fn new(upstream: &Upstream) -> Self {
        Api { http: http(), url: upstream.url() }
    }

    /// One call with a cost of one request and these amounts.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn call(&self, cost: &BTreeMap<&str, f64>) -> Result<Outcome, reqwest::Error> {
        let cost: Vec<String> = cost.iter().map(|(unit, amount)| format!("{unit}={amount}")).collect();
        let request = self.http.get(format!("{}/process?{}", self.url, cost.join("&")));
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
