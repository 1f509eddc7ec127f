//! An API whose answers a test writes down.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// What the API does with a call.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// It answers with this status.
    Status(u16),
    /// It answers 429, and says in how many seconds to come back.
    TooMany(u32),
    /// It never answers.
    Silence,
}

/// Starts an API that takes one step for each call, in this order, and then answers 200. Returns
/// its URL. It runs until its runtime ends.
pub async fn start(steps: impl IntoIterator<Item = Step>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let left: Vec<Step> = steps.into_iter().collect();
    let api = Router::new().fallback(answer).with_state(Steps(Arc::new(Mutex::new(left.into_iter()))));
    tokio::spawn(async { axum::serve(listener, api).await });
    url
}

/// The steps that are left. The lock is held to take one.
#[derive(Clone)]
struct Steps(Arc<Mutex<std::vec::IntoIter<Step>>>);

async fn answer(State(steps): State<Steps>) -> Response {
    let step = steps.0.lock().unwrap().next();
    match step {
        None => StatusCode::OK.into_response(),
        Some(Step::Status(status)) => StatusCode::from_u16(status).unwrap().into_response(),
        Some(Step::TooMany(seconds)) => {
            (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, seconds.to_string())]).into_response()
        }
        Some(Step::Silence) => std::future::pending().await,
    }
}
