//! Reads requests to their end, within bounds, before they are served; not without a token or on a path without bodies.

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use rampmeter_listener::Connection;
use std::time::Duration;

/// Bound on the bytes of a body: hundreds of requests, more than one message should hold.
pub(super) const MAX_BODY: usize = 64 * 1024;
/// How long a client may take for its body.
const READ_BODY: Duration = Duration::from_secs(5);

enum Unread {
    TooLong,
    BrokenOff,
}

/// Reads the body, and marks the connection as owed an answer from then on.
pub(super) async fn whole(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let body = match tokio::time::timeout(READ_BODY, read(body)).await {
        Ok(Ok(body)) => body,
        Ok(Err(Unread::TooLong)) => {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {MAX_BODY} bytes\n"));
        }
        Ok(Err(Unread::BrokenOff)) => {
            return refuse(StatusCode::BAD_REQUEST, "the body ends before its end\n".to_owned());
        }
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, format!("the body took longer than {READ_BODY:?}\n")),
    };
    answer_owed(Request::from_parts(head, Body::from(body)), next).await
}

/// Refuses a request with a body, on paths without bodies.
pub(super) async fn bodiless(request: Request, next: Next) -> Response {
    match request.body().is_end_stream() {
        true => answer_owed(request, next).await,
        false => refuse(StatusCode::PAYLOAD_TOO_LARGE, "this path takes no body\n".to_owned()),
    }
}

async fn answer_owed(request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<Connection>().cloned();
    let _owed = connection.as_ref().map(Connection::owe);
    next.run(request).await
}

/// Copies the body into one buffer. Frames kept as they came could take many times the bytes of the body.
async fn read(mut body: Body) -> Result<Bytes, Unread> {
    let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let mut whole = Vec::with_capacity(length.unwrap_or(MAX_BODY).min(MAX_BODY));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Unread::BrokenOff)?.into_data() else { continue };
        if whole.len() + data.len() > MAX_BODY {
            return Err(Unread::TooLong);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

/// Returns an answer that ends the connection, without waiting for the rest of the body.
pub(super) fn refuse(status: StatusCode, reason: String) -> Response {
    (status, [(header::CONNECTION, "close")], reason).into_response()
}
