//! The upstream behind HTTP.

use crate::{
    Dialect, ResponseTime, Stats,
    config::Config,
    http::answer::{answer, unknown},
    http::call::{Call, CostParameters},
    http::clock::Clock,
    http::ledger::{Ledger, Verdict},
    http::stats_body::stats_body,
};
use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Query, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    response::Response,
    routing::{any, get},
};
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// Largest body that is read and ignored. A larger one is not read to its end, which closes the caller's connection.
const MAX_BODY_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Service {
    clock: Clock,
    parameters: CostParameters,
    pub(crate) response_time: ResponseTime,
    dialect: Dialect,
    /// Held for a decision (about 1 µs) or a copy of the counts, and never across an await.
    ledger: Mutex<Ledger>,
}

impl Service {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            clock: Clock::start(),
            parameters: CostParameters::of(&config.preset),
            response_time: config.response_time,
            dialect: config.preset.dialect,
            ledger: Mutex::new(Ledger::new(config, Clock::wall())),
        }
    }

    /// The service's own endpoints. The response to any other call lists them.
    pub(crate) fn routes() -> Router<Arc<Self>> {
        Router::new()
            .route("/process", get(process).post(process))
            .route("/process/{*path}", any(process))
            .route("/stats", get(stats))
            .fallback(async |method: Method, uri: Uri| unknown(StatusCode::NOT_FOUND, &method, &uri))
            .method_not_allowed_fallback(async |method: Method, uri: Uri| {
                unknown(StatusCode::METHOD_NOT_ALLOWED, &method, &uri)
            })
    }

    pub(crate) fn stats(&self) -> Stats {
        let (now, ledger) = self.open();
        ledger.stats(now)
    }

    fn decide(&self, call: &Call) -> Verdict {
        let (now, mut ledger) = self.open();
        ledger.arrive(now, call)
    }

    fn response_time(&self, verdict: &Verdict) -> Duration {
        match verdict {
            Verdict::Admitted { number, .. } => self.response_time.of_call(*number),
            Verdict::Refused(_) | Verdict::Bad(_) => Duration::ZERO,
        }
    }

    /// Reads the clock under the lock, so that times never decrease between decisions.
    pub(crate) fn open(&self) -> (Duration, MutexGuard<'_, Ledger>) {
        let ledger = self.ledger.lock().expect("no holder of the lock panics");
        (self.clock.now(), ledger)
    }
}

/// An admitted call until just before its response is sent or its caller disconnects.
struct InFlight {
    service: Arc<Service>,
}

impl InFlight {
    /// Counts an admitted call as in flight until dropped. Must directly follow the verdict, or nothing ends the call.
    fn if_admitted(service: &Arc<Service>, verdict: &Verdict) -> Option<Self> {
        match verdict {
            Verdict::Admitted { .. } => Some(Self { service: Arc::clone(service) }),
            Verdict::Refused(_) | Verdict::Bad(_) => None,
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.service.open().1.api.finish();
    }
}

/// Decides about a call when its head arrives, before its body and its response time.
async fn process(
    State(service): State<Arc<Service>>,
    method: Method,
    Query(query): Query<Vec<(String, String)>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let verdict = service.decide(&service.parameters.read(&method, &headers, query));
    let _in_flight = InFlight::if_admitted(&service, &verdict);
    // An error in the body closes the connection; the call still counts.
    drop(to_bytes(body, MAX_BODY_BYTES).await);
    sleep_for(service.response_time(&verdict)).await;
    answer(verdict, service.dialect)
}

async fn stats(State(service): State<Arc<Service>>) -> Json<Value> {
    Json(stats_body(&service.stats()))
}

/// A timer sleeps at least a millisecond, so a zero time does not sleep.
async fn sleep_for(time: Duration) {
    if time > Duration::ZERO {
        tokio::time::sleep(time).await;
    }
}
