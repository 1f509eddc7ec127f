//! A vendor of a language model that bills its calls.

use crate::api::serve;
use crate::patience::let_pass;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::{Json, Router, body};
use futures::StreamExt;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Millionths of a millionth of a dollar for a token of gpt-4o.
const INPUT: u64 = 2_500_000;
const OUTPUT: u64 = 10_000_000;
/// The events of a stream before its usage.
const EVENTS: u32 = 4;

/// It answers with different parts of what a request allows, every other time as a stream, and bills a
/// call in full as soon as it has the request, whether or not the client reads the answer.
#[derive(Debug)]
pub struct Vendor {
    url: String,
    books: Arc<Books>,
}

#[derive(Debug, Default)]
struct Books {
    calls: AtomicU64,
    picos: AtomicU64,
}

impl Vendor {
    /// Starts it. Each part of an answer takes this long.
    pub async fn start(part: Duration) -> Self {
        let books = Arc::<Books>::default();
        let of_vendor = books.clone();
        let answering =
            async move |request: body::Bytes| of_vendor.answer(&serde_json::from_slice(&request).unwrap(), part).await;
        Vendor { url: serve(Router::new().fallback(answering)).await, books }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many calls it has had.
    pub fn calls(&self) -> u64 {
        self.books.calls.load(Ordering::Relaxed)
    }

    /// What it bills, in millionths of a dollar.
    pub fn billed(&self) -> u64 {
        self.books.picos.load(Ordering::Relaxed) / 1_000_000
    }
}

impl Books {
    async fn answer(&self, request: &Value, part: Duration) -> axum::response::Response {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let prompt = request["messages"][0]["content"].as_str().unwrap().len() as u64 / 4;
        let output = request["max_tokens"].as_u64().unwrap() * (number % 4 + 1) / 8;
        self.picos.fetch_add(prompt * INPUT + output * OUTPUT, Ordering::Relaxed);
        let usage = json!({ "usage": { "prompt_tokens": prompt, "completion_tokens": output } });
        let_pass(part, "an answer takes its time").await;
        if number.is_multiple_of(2) {
            return Json(usage).into_response();
        }
        let events = (0..EVENTS).map(|_| "data: {\"choices\":[]}\n\n".to_owned());
        let last = format!("data: {usage}\n\ndata: [DONE]\n\n");
        let events = futures::stream::iter(events.chain([last])).then(move |event| async move {
            let_pass(part, "a stream takes its time").await;
            Ok::<_, Infallible>(event)
        });
        ([(CONTENT_TYPE, "text/event-stream")], body::Body::from_stream(events)).into_response()
    }
}
