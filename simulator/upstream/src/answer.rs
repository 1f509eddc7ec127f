//! The HTTP answer to a call.

use crate::{Cost, RetryAfter, call::BadCost, ledger::Verdict};
use axum::{
    Json,
    http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

/// The answer to a call, with the wait in this form and with these additional headers.
pub(crate) fn answer(verdict: &Verdict, form: RetryAfter, headers: Vec<(String, String)>) -> Response {
    let mut response = match verdict {
        Verdict::Admitted { cost, .. } => admitted(cost),
        Verdict::RateLimited(rejection) => rate_limited(form.of(*rejection)),
        Verdict::Bad(bad) => malformed(bad),
    };
    for (name, value) in headers {
        let name = HeaderName::try_from(name).expect("a dialect's names are those of headers");
        response
            .headers_mut()
            .insert(name, HeaderValue::try_from(value).expect("a dialect's values are visible ASCII"));
    }
    response
}

fn admitted(cost: &Cost) -> Response {
    let spent: Map<String, Value> =
        cost.iter().map(|(unit, amount)| (unit.to_string(), amount.to_f64().into())).collect();
    Json(json!({ "spent": spent })).into_response()
}

/// An answer as Sentinel Hub gives it; without a number if the wait is unknown.
fn rate_limited(retry_after: Option<u128>) -> Response {
    let body = error(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMIT_EXCEEDED", "You have exceeded your rate limit");
    let status = StatusCode::TOO_MANY_REQUESTS;
    match retry_after {
        Some(wait) => (status, [(RETRY_AFTER, wait.to_string())], body).into_response(),
        None => (status, body).into_response(),
    }
}

fn malformed(bad: &BadCost) -> Response {
    let status = StatusCode::BAD_REQUEST;
    (status, error(status, "COMMON_BAD_PAYLOAD", &bad.to_string())).into_response()
}

/// The answer to a call of something that the service does not have.
pub(crate) fn unknown(status: StatusCode, method: &Method, uri: &Uri) -> Response {
    let path = uri.path();
    let message = format!("there is no {method} {path} here; there are GET or POST /process and GET /stats");
    (status, error(status, "COMMON_NOT_FOUND", &message)).into_response()
}

fn error(status: StatusCode, code: &str, message: &str) -> Json<Value> {
    Json(json!({
        "error": {
            "status": status.as_u16(),
            "reason": status.canonical_reason(),
            "message": message,
            "code": code,
        }
    }))
}
