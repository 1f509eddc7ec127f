//! The proxy's own responses to requests that were not forwarded or not answered.

use crate::pool::CallError;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use rampmeter_listener::Unwelcome;
use rampmeter_protocol::code::{Code, Remedy};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::rate_limit::{exhausted, whole_seconds};
use rampmeter_protocol::text::brief;
use rampmeter_protocol::time::Span;
use rampmeter_worker_sdk::Error;
use rampmeter_worker_sdk::error::ErrorKind;
use serde_json::{Map, Value, json};

/// When a client may come back if nothing better is known.
const SOON: Span = Span::from_secs(1);
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request contradicts itself, or contains something invalid.
    #[error("{0}")]
    Unclear(String),
    /// The request wants a tunnel where there are none.
    #[error("this proxy opens no tunnels; set it as the base URL, not as HTTPS_PROXY")]
    Tunnel,
    /// The request came from this proxy.
    #[error("this request was here before: the upstream leads back to this proxy")]
    Loop,
    /// The request may come from another site's web page.
    #[error(transparent)]
    Unwelcome(#[from] Unwelcome),
    /// The client's body breaks off.
    #[error("the body of the request breaks off")]
    BrokenBody,
    /// The bound on held requests is reached.
    #[error("as many requests wait as this proxy holds")]
    TooManyHeld,
    /// The body waited too long to be read.
    #[error("too many bodies wait to be read for what they cost")]
    Unpriced,
    /// The cost of the request cannot be computed from its body.
    #[error("the body does not tell what the request costs: {0}")]
    NotUnderstood(String),
    /// The bound on calls in flight is reached, and none ended in time.
    #[error("no connection to the upstream became free in time")]
    NoPlace,
    /// No credential for the upstream is available.
    #[error("this proxy has no credential for the upstream at present")]
    NoCredential,
    #[error(transparent)]
    Permit(#[from] Error),
    /// There is no response.
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("this proxy stops")]
    Stopping,
}

struct StatusLine {
    status: u16,
    code: &'static str,
    /// The type of RFC 9209.
    proxy_status: &'static str,
    retry_after: Option<Span>,
}

impl Failure {
    pub(crate) fn response(&self) -> Response<Full<bytes::Bytes>> {
        let StatusLine { status, code, proxy_status, retry_after } = self.shape();
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let body = Value::Object(self.problem(status, code)).to_string();
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, PROBLEM);
        if let Ok(value) = HeaderValue::try_from(format!("rampmeter; error={proxy_status}")) {
            headers.insert(PROXY_STATUS, value);
        }
        if let Some(pause) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(pause)));
        }
        if let Some(limits) = self.rate_limit() {
            headers.insert(RATE_LIMIT, limits);
        }
        if self.ends_connection() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    pub(crate) fn code(&self) -> &'static str {
        self.shape().code
    }

    fn problem(&self, status: StatusCode, code: &str) -> Map<String, Value> {
        let title = status.canonical_reason().unwrap_or_default();
        let mut problem = Map::new();
        problem.insert("type".to_owned(), json!(format!("urn:rampmeter:proxy:{code}")));
        problem.insert("title".to_owned(), json!(title));
        problem.insert("status".to_owned(), json!(status.as_u16()));
        problem.insert("code".to_owned(), json!(code));
        problem.insert("detail".to_owned(), json!(brief(&self.to_string())));
        if let Some(limit) = self.limited_by() {
            problem.insert("limited_by".to_owned(), json!(limit));
        }
        problem
    }

    fn shape(&self) -> StatusLine {
        let shape = |status, code, proxy_status| StatusLine { status, code, proxy_status, retry_after: None };
        let soon = |status, code, proxy_status| StatusLine { status, code, proxy_status, retry_after: Some(SOON) };
        match self {
            Failure::Unclear(_) => shape(400, "unclear", "http_request_error"),
            Failure::Tunnel => shape(405, "tunnel", "http_request_denied"),
            Failure::Loop => shape(508, "loop", "proxy_loop_detected"),
            Failure::Unwelcome(unwelcome) => shape(unwelcome.status().as_u16(), "unwelcome", "http_request_denied"),
            Failure::BrokenBody | Failure::Call(CallError::BrokenBody) => {
                shape(400, "broken_body", "http_request_error")
            }
            Failure::TooManyHeld => soon(503, "too_many_held", "connection_limit_reached"),
            Failure::Unpriced => soon(503, "unpriced", "connection_limit_reached"),
            Failure::NotUnderstood(_) => shape(422, "not_understood", "http_request_error"),
            Failure::NoPlace => soon(503, "no_place", "connection_limit_reached"),
            Failure::NoCredential => soon(503, "no_credential", "proxy_configuration_error"),
            Failure::Stopping => soon(503, "stopping", "http_request_denied"),
            Failure::Call(CallError::NoConnection(_)) => shape(502, "no_connection", "connection_refused"),
            Failure::Call(CallError::NoAnswer(_) | CallError::Ending(_)) => {
                shape(502, "no_answer", "connection_terminated")
            }
            Failure::Call(CallError::Late) => shape(504, "late_answer", "http_response_timeout"),
            Failure::Call(CallError::SlowClient) => shape(408, "slow_client", "http_request_error"),
            Failure::Permit(error) => of_permit(error),
        }
    }

    fn limited_by(&self) -> Option<&str> {
        if let Failure::Permit(error) = self { error.limited_by() } else { None }
    }

    /// The IETF's `RateLimit`, if a limit delays the request for a known time.
    fn rate_limit(&self) -> Option<HeaderValue> {
        let limit = Name::new(self.limited_by()?).ok()?;
        HeaderValue::try_from(exhausted(&limit, self.shape().retry_after)).ok()
    }

    fn ends_connection(&self) -> bool {
        matches!(
            self,
            Failure::Unclear(_)
                | Failure::Tunnel
                | Failure::Unwelcome(_)
                | Failure::BrokenBody
                | Failure::Call(CallError::BrokenBody | CallError::SlowClient)
                | Failure::Stopping
        )
    }
}

fn of_permit(error: &Error) -> StatusLine {
    let (status, code, is_passing) = match error.kind() {
        ErrorKind::Refused(code) if code.as_server() == StatusCode::TOO_MANY_REQUESTS => (429, code.as_str(), true),
        ErrorKind::TimedOut => (429, "not_in_time", true),
        // A retry is useless.
        ErrorKind::Refused(code) if code.remedy() == Remedy::Change || code == Code::Forbidden => {
            (code.status(), code.as_str(), false)
        }
        ErrorKind::Refused(code) => (503, code.as_str(), true),
        ErrorKind::InvalidArgument => (400, "invalid_request", false),
        ErrorKind::Unreachable => (503, "unreachable", true),
        ErrorKind::TooManyAsks | ErrorKind::Connect | ErrorKind::Closed | _ => (503, "unavailable", true),
    };
    let retry_after = is_passing.then(|| error.retry_after().map_or(SOON, Span::from));
    StatusLine { status, code, proxy_status: "http_request_denied", retry_after }
}
