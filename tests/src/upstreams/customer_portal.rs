//! What a service of the account tells its customer, in Sentinel Hub's form: access tokens, the
//! contract, and what its buckets hold. Its endpoints can be broken.

use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_upstream::{Config, PolicyStats, Upstream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The customer's id in the account, which its tokens state.
const SUBJECT: &str = "8b5c2f0e-1d3a";
/// The head of a token without a signature, and the claim of [`SUBJECT`].
const TOKEN_HEAD: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiI4YjVjMmYwZS0xZDNhIn0";

/// An endpoint for the customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// Access tokens.
    Token,
    /// The policies.
    Contract,
    /// What they hold.
    TokenCounts,
}

/// What an endpoint does instead of answering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It answers with this status.
    Status(u16),
    /// It never answers.
    Hang,
    /// It answers 200 with this body.
    Body(String),
}

/// The endpoints, and the upstream that they tell of.
#[derive(Debug)]
pub struct Portal {
    url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: Arc<Upstream>,
    customer: (&'static str, &'static str),
    token_life: Duration,
    clock: Clock,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    faults: BTreeMap<Endpoint, Fault>,
    asked: BTreeMap<Endpoint, u64>,
    tokens: Vec<String>,
    /// Tokens that are good, and until when.
    good: BTreeMap<String, Time>,
}

impl Portal {
    /// Starts an upstream with these policies, and its portal for a customer with this id and secret.
    pub async fn start(policies: &[&str], customer: (&'static str, &'static str), token_life: Duration) -> Self {
        let policies = policies.iter().map(|policy| policy.parse().unwrap()).collect();
        let upstream = Arc::new(Upstream::start(Config::new(policies)).await.unwrap());
        let shared = Shared { upstream, customer, token_life, clock: Clock::start(), book: Mutex::default() };
        let shared = Arc::new(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/auth/realms/main/protocol/openid-connect/token", post(token))
            .route("/aux/ratelimit/{*what}", get(account))
            .with_state(shared.clone());
        let serving = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Portal { url, shared, serving }
    }

    /// The start of its URLs.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sets the fault of an endpoint, or removes it.
    pub fn set_fault(&self, endpoint: Endpoint, fault: Option<Fault>) {
        let faults = &mut self.shared.book.lock().unwrap().faults;
        match fault {
            Some(fault) => faults.insert(endpoint, fault),
            None => faults.remove(&endpoint),
        };
    }

    /// How often an endpoint was asked, whatever its answer was.
    pub fn asked(&self, endpoint: Endpoint) -> u64 {
        self.shared.book.lock().unwrap().asked.get(&endpoint).copied().unwrap_or(0)
    }

    /// All issued access tokens, in order.
    pub fn tokens(&self) -> Vec<String> {
        self.shared.book.lock().unwrap().tokens.clone()
    }

    /// Makes all tokens that were issued until now invalid.
    pub fn revoke_tokens(&self) {
        self.shared.book.lock().unwrap().good.clear();
    }

    /// Stops listening.
    pub async fn stop(self) {
        self.serving.abort();
        self.serving.await.ok();
    }
}

impl Shared {
    /// Counts a request, and returns the answer of a broken endpoint.
    async fn broken(&self, endpoint: Endpoint) -> Option<Response> {
        let fault = {
            let mut book = self.book.lock().unwrap();
            *book.asked.entry(endpoint).or_default() += 1;
            book.faults.get(&endpoint).cloned()
        };
        match fault? {
            Fault::Status(status) => Some(StatusCode::from_u16(status).unwrap().into_response()),
            Fault::Hang => std::future::pending().await,
            Fault::Body(body) => Some(body.into_response()),
        }
    }

    fn is_authorised(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let book = self.book.lock().unwrap();
        shown.and_then(|token| book.good.get(token)).is_some_and(|until| self.clock.now() < *until)
    }
}

async fn token(State(shared): State<Arc<Shared>>, Form(form): Form<BTreeMap<String, String>>) -> Response {
    if let Some(instead) = shared.broken(Endpoint::Token).await {
        return instead;
    }
    let (id, secret) = shared.customer;
    let expected = [("client_id", id), ("client_secret", secret), ("grant_type", "client_credentials")];
    if form != expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into() {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let mut book = shared.book.lock().unwrap();
    let token = format!("{TOKEN_HEAD}.bnVtYmVy{}", book.tokens.len());
    book.tokens.push(token.clone());
    book.good.insert(token.clone(), shared.clock.now() + Span::from(shared.token_life));
    let seconds = shared.token_life.as_secs_f64();
    Json(json!({"access_token": token, "token_type": "bearer", "expires_in": seconds})).into_response()
}

/// The contract or the token counts, to whom shows a good token of the account.
async fn account(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap) -> Response {
    let asked = uri.to_string().replace("%3A", ":").replace("/aux/ratelimit/", "").replace(SUBJECT, "CUSTOMER");
    let (endpoint, told): (_, fn(&[PolicyStats]) -> Value) = match &*asked {
        "contract?userId=eq:CUSTOMER" => (Endpoint::Contract, contract),
        "statistics/tokenCounts/CUSTOMER" => (Endpoint::TokenCounts, token_counts),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    if let Some(instead) = shared.broken(endpoint).await {
        return instead;
    }
    match shared.is_authorised(&headers) {
        true => Json(told(&shared.upstream.stats().policies)).into_response(),
        false => StatusCode::UNAUTHORIZED.into_response(),
    }
}

fn contract(policies: &[PolicyStats]) -> Value {
    let mut types: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for stats in policies {
        let (capacity, period) = (stats.policy.capacity().to_f64(), stats.policy.period());
        let between = (period.as_secs_f64() * 1e9 / capacity).round();
        let policy = json!({"capacity": capacity, "samplingPeriod": iso_8601(period), "nanosBetweenRefills": between});
        types.entry(type_name(stats)).or_default().push(policy);
    }
    let entry = |(name, policies)| json!({"type": {"name": name}, "policies": policies});
    json!({"data": types.into_iter().map(entry).collect::<Vec<_>>()})
}

fn token_counts(policies: &[PolicyStats]) -> Value {
    let mut data = json!({});
    for stats in policies {
        data[type_name(stats)][iso_8601(stats.policy.period())] = stats.level.to_f64().into();
    }
    json!({ "data": data })
}

fn iso_8601(period: Duration) -> String {
    format!("PT{}S", period.as_secs_f64())
}

fn type_name(stats: &PolicyStats) -> String {
    stats.policy.unit().as_str().to_ascii_uppercase().replace('-', "_")
}
