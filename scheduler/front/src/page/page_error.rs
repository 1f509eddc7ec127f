//! Why a browser gets no answer.

use super::question::NoAnswer;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// A status, and its explanation for people.
#[derive(Debug)]
pub(super) struct PageError(pub(super) StatusCode, pub(super) String);

impl PageError {
    pub(super) fn unavailable(why: impl Into<String>) -> Self {
        PageError(StatusCode::SERVICE_UNAVAILABLE, why.into())
    }

    pub(super) fn invalid(why: impl Into<String>) -> Self {
        PageError(StatusCode::BAD_REQUEST, why.into())
    }

    pub(super) fn forbidden(why: impl Into<String>) -> Self {
        PageError(StatusCode::FORBIDDEN, why.into())
    }
}

impl From<NoAnswer> for PageError {
    fn from(error: NoAnswer) -> Self {
        match error {
            NoAnswer::Refused(why) => PageError(StatusCode::CONFLICT, why),
            NoAnswer::NoLeader(_) | NoAnswer::Silence(_) => PageError::unavailable(error.to_string()),
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        (self.0, axum::Json(serde_json::json!({"message": self.1}))).into_response()
    }
}
