//! HTTP responses to calls.

use crate::{Cost, Dialect, Reply, http::ledger::Verdict};
use axum::{
    Json,
    http::{HeaderName, HeaderValue, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

pub(crate) fn answer(verdict: Verdict, dialect: Dialect) -> Response {
    match verdict {
        Verdict::Admitted { reply, .. } | Verdict::Refused(reply) if dialect.in_body() => told_in_body(&reply),
        Verdict::Admitted { reply, .. } => with_headers(admitted(&reply.cost).into_response(), reply),
        Verdict::Refused(reply) => with_headers(refused(reply.status), reply),
        Verdict::Bad(bad) => malformed(&bad),
    }
}

fn with_headers(mut response: Response, reply: Reply) -> Response {
    for (name, value) in reply.headers {
        let name = HeaderName::try_from(name).expect("a dialect's names are those of headers");
        let value = HeaderValue::try_from(value).expect("a dialect's values are visible ASCII");
        response.headers_mut().insert(name, value);
    }
    response
}

fn admitted(cost: &Cost) -> Json<Value> {
    let spent: Map<String, Value> =
        cost.iter().map(|(unit, amount)| (unit.to_string(), amount.to_f64().into())).collect();
    Json(json!({ "spent": spent }))
}

/// Responds to a rejected call as Sentinel Hub does.
fn refused(status: u16) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    (status, error(status, "RATE_LIMIT_EXCEEDED", "You have exceeded your rate limit")).into_response()
}

/// Responds as Shopify does, which puts the limits and errors into the body.
fn told_in_body(reply: &Reply) -> Response {
    let points = reply.cost.iter().filter(|(unit, _)| unit.as_str() == "points").map(|(_, amount)| amount.to_f64());
    let requested: f64 = points.sum();
    let status: Option<Value> = reply.header("throttle-status").and_then(|status| serde_json::from_str(status).ok());
    let served = reply.rejection.is_none();
    let actual = served.then_some(requested);
    let cost = json!({ "requestedQueryCost": requested, "actualQueryCost": actual, "throttleStatus": status });
    let throttled = json!([{ "message": "Throttled", "extensions": { "code": "THROTTLED" } }]);
    let (member, value) = if served { ("data", json!({})) } else { ("errors", throttled) };
    Json(json!({ member: value, "extensions": { "cost": cost } })).into_response()
}

fn malformed(reason: &str) -> Response {
    let status = StatusCode::BAD_REQUEST;
    (status, error(status, "COMMON_BAD_PAYLOAD", reason)).into_response()
}

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
