//! The web page: live status and explanations, and orders of operators.
//!
//! # How it works
//!
//! * The page is a few files in the binary (`assets`), which hold no data and need no token.
//! * The `feed` asks each leader once a second while a browser looks, and all browsers share its answer. A
//!   browser first gets it whole, and then the changes (`merge_patch`).
//! * The ids of requests are secrets, since an id is enough to give its permit back. Browsers get handles
//!   instead, which mean nothing to other processes (`handles`).
//! * A page of another origin can neither read nor order. The guard of browsers refuses it, and an order
//!   needs a token in `Authorization`, which no browser adds by itself.
//! * A stream of the page takes no place from clients of the front: its connection counts as idle.

mod assets;
mod feed;
mod handles;
mod jobs;
mod merge_patch;
mod orders;
mod page_error;
mod picture;
mod question;
mod recent_levels;
mod schedulers;
mod stream;
mod views;
mod waiting;
mod web_page;
mod what_if;

use crate::token::Caller;
use axum::Router;
use axum::extract::{Extension, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, map_response};
use axum::response::Response;
use axum::routing::{get, post};
pub(super) use jobs::JobQueues;
use std::sync::Arc;
pub(super) use web_page::WebPage;
pub use what_if::{Callers, ForecastError, Forecaster, WhatIf};

/// Returns the routes of the page's files, which need no token.
pub(super) fn files() -> Router {
    Router::new().route("/", get(assets::index)).route("/assets/{file}", get(assets::file))
}

/// Returns the routes for clients whose token allows them.
pub(super) fn routes(page: Arc<WebPage>) -> Router {
    Router::new()
        .route("/page/live", get(views::overview))
        .route("/page/live/{resource}", get(views::resource))
        .route("/page/history/{resource}", get(views::history))
        .route("/page/rights", get(views::rights))
        .route("/page/rules", get(views::rules))
        .route("/page/schedulers", get(views::schedulers))
        .route("/page/jobs", get(views::jobs))
        .route("/page/waiting/{resource}", post(views::waiting))
        .route("/page/what-if/{resource}", post(views::what_if))
        .route("/page/order/freeze/{resource}", post(orders::freeze))
        .route("/page/order/thaw/{resource}", post(orders::thaw))
        .route("/page/order/cancel/{resource}", post(orders::cancel))
        .route("/page/order/purge/{resource}", post(orders::purge))
        .route("/page/order/delete-job", post(orders::delete_job))
        .route("/page/order/apply", post(orders::apply))
        .with_state(page)
        .route_layer(from_fn(note_forbidden))
        .layer(map_response(unkept))
}

/// Notes requests that their client's token forbids.
async fn note_forbidden(Extension(caller): Extension<Caller>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if response.status() == StatusCode::FORBIDDEN {
        caller.note_forbidden();
    }
    response
}

/// Forbids caches to keep an answer, and browsers to guess its type.
async fn unkept(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
