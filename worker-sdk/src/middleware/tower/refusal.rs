//! Responses to requests that get no permit.

use crate::Error;
use crate::error::ErrorKind;
use http::header::{HeaderName, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::rate_limit::{exhausted, whole_seconds};
use rampmeter_protocol::time::Span;
use std::sync::Arc;

/// The header of draft-ietf-httpapi-ratelimit-headers.
pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// A response without a body. Its extensions contain the reason.
pub(super) fn refusal<B: Default>(error: Error) -> Response<B> {
    let mut response = Response::new(B::default());
    *response.status_mut() = status(&error);
    if let Some(seconds) = error.retry_after().map(|pause| whole_seconds(pause.into())) {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if let Some(value) = rate_limit(&error) {
        response.headers_mut().insert(RATE_LIMIT, value);
    }
    response.extensions_mut().insert(Arc::new(error));
    response
}

fn status(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::Refused(code) => {
            StatusCode::from_u16(code.as_server()).expect("the protocol's numbers are those of HTTP")
        }
        // A named limit delayed the request. Without one, no scheduler has answered.
        ErrorKind::TimedOut if error.limited_by().is_some() => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::TimedOut
        | ErrorKind::Unreachable
        | ErrorKind::TooManyAsks
        | ErrorKind::Connect
        | ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::InvalidArgument => StatusCode::BAD_REQUEST,
    }
}

fn rate_limit(error: &Error) -> Option<HeaderValue> {
    let limit = Name::new(error.limited_by()?).ok()?;
    HeaderValue::try_from(exhausted(&limit, error.retry_after().map(Span::from))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::answer::Refused;
    use rampmeter_protocol::code::Code;
    use rampmeter_worker_session::Denial;

    fn refused(code: Code, retry_after_ms: Option<u64>, limited_by: Option<&str>) -> Denial {
        let retry_after_ms = retry_after_ms.map(|millis| millis as f64);
        let limited_by = limited_by.map(|limit| limit.to_owned().into());
        Denial::Refused(Refused { retry_after_ms, limited_by, ..Refused::new(code, "no") })
    }

    fn timed_out(limited_by: Option<&str>) -> Denial {
        Denial::TimedOut { waited: Span::from_secs(1), limited_by: limited_by.map(Box::from), answered: true }
    }

    /// Checks status, `Retry-After` and `RateLimit`; an empty text means an absent header.
    fn check(why: Denial, expected: (u16, &str, &str)) {
        let response: Response<()> = refusal(Error::denied(&Name::new("hub").unwrap(), why));
        let header = |name| response.headers().get(name).map_or("", |value| value.to_str().unwrap());
        assert_eq!((response.status().as_u16(), header(RETRY_AFTER), header(RATE_LIMIT)), expected);
        assert!(response.extensions().get::<Arc<Error>>().is_some(), "the reason travels along");
    }

    #[test]
    fn a_refusal_names_the_party_that_must_act() {
        check(refused(Code::NotInTime, Some(1), Some("few")), (429, "1", "\"few\";r=0;t=1"));
        check(refused(Code::NotInTime, Some(1000), None), (429, "1", ""));
        check(refused(Code::NotInTime, Some(1001), Some("few")), (429, "2", "\"few\";r=0;t=2"));
        check(refused(Code::NotInTime, None, Some("few")), (429, "", "\"few\";r=0"));
        check(refused(Code::NotInTime, Some(0), Some("no\r\nname")), (429, "1", ""));
        check(timed_out(Some("few")), (429, "", "\"few\";r=0"));
        check(refused(Code::QuotaSpent, Some(86_400_000), Some("month")), (429, "86400", "\"month\";r=0;t=86400"));
        check(refused(Code::NeverFits, None, None), (422, "", ""));
        check(refused(Code::InvalidRequest, None, None), (400, "", ""));
        for code in [Code::QueueFull, Code::NoLimit, Code::TooManyKeys, Code::Unavailable, Code::UnknownResource] {
            check(refused(code, None, None), (503, "", ""));
        }
        check(refused(Code::QueueFull, Some(2500), None), (503, "3", ""));
        check(timed_out(None), (503, "", ""));
        check(Denial::Unreachable { silence: Span::ZERO, retry_after: Span::from_secs(2) }, (503, "2", ""));
        check(Denial::Closed, (503, "", ""));
        for code in [
            Code::UnknownPermit,
            Code::IdInUse,
            Code::Lapsed,
            Code::AlreadySettled,
            Code::UnknownClass,
            Code::UnknownUnit,
            Code::Other,
        ] {
            check(refused(code, None, None), (500, "", ""));
        }
    }
}
