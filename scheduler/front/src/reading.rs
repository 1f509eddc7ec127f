//! Requests are read to their end before anything is done for them, within bounds.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rampmeter_listener::Connection;
use std::error::Error;
use std::time::Duration;

/// Bytes of a body: hundreds of requests, which is more than one message should hold.
pub(super) const MAX_BODY: usize = 64 * 1024;
/// How long a client may take for its body.
const READ_BODY: Duration = Duration::from_secs(5);

/// Reads the body, and marks the connection as one that is owed an answer from then on.
pub(super) async fn whole(request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<Connection>().cloned();
    let (head, body) = request.into_parts();
    let body = match tokio::time::timeout(READ_BODY, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) if is_too_long(&error) => {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {MAX_BODY} bytes\n"));
        }
        Ok(Err(_)) => return refuse(StatusCode::BAD_REQUEST, "the body ends before its end\n".to_owned()),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, format!("the body took longer than {READ_BODY:?}\n")),
    };
    let _owed = connection.as_ref().map(Connection::owe);
    next.run(Request::from_parts(head, Body::from(body))).await
}

fn is_too_long(error: &axum::Error) -> bool {
    error.source().is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

/// An answer that ends the connection: what is left of the body is not waited for.
pub(super) fn refuse(status: StatusCode, reason: String) -> Response {
    (status, [(header::CONNECTION, "close")], reason).into_response()
}
