//! Outcomes of calls.

use crate::Cost;
use http::{HeaderMap, StatusCode};
use rampmeter_protocol::headers::speaks_of_limits;
use rampmeter_protocol::settle::{Headers, Response};
use rampmeter_protocol::text::Text;

/// The outcome of a call: the upstream's status, its headers that describe rate limits, and the
/// actual cost, all optional. A status of 429 freezes the violated limit for all workers.
///
/// ```
/// use rampmeter_worker_sdk::{Cost, Outcome};
/// let outcome = Outcome::status(429).header("Retry-After", "1500").cost(Cost::of("processing-units", 0));
/// assert!(outcome.is_throttled() && !outcome.is_success());
/// assert!(!Outcome::default().is_throttled());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    status: Option<u16>,
    headers: Vec<(String, String)>,
    quota_spent: bool,
    code: Option<String>,
    cost: Option<Cost>,
}

/// A call's result, of which [`Resource::run`](crate::Resource::run) needs the outcome: an [`http::Response`], an
/// [`Outcome`], a pair of one and any value or, with the feature `reqwest`, a response of reqwest 0.13.
///
/// ```
/// use rampmeter_worker_sdk::call::Reply;
/// use rampmeter_worker_sdk::{Cost, Outcome};
///
/// struct Tile {
///     status: u16,
///     units: f64,
/// }
///
/// impl Reply for Tile {
///     fn outcome(&self) -> Outcome {
///         Outcome::status(self.status).cost(Cost::of("processing-units", self.units))
///     }
/// }
/// # assert_eq!(Tile { status: 200, units: 1.0 }.outcome(), Outcome::status(200).cost(Cost::of("processing-units", 1)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how the call went",
    label = "the permit cannot be settled with this",
    note = "`reqwest::Response` of reqwest 0.13 does if rampmeter-worker-sdk has the feature `reqwest`",
    note = "any other type can be returned beside an outcome: `(Outcome::status(200), value)`"
)]
pub trait Reply {
    /// Returns the outcome of the call.
    fn outcome(&self) -> Outcome;
}

const THROTTLED: u16 = 429;

/// Codes of a 429 that no waiting mends.
const FINAL: [&str; 4] =
    ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "access_terminated"];

impl Outcome {
    /// Creates the outcome of a call that got this HTTP status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Outcome { status: Some(status), ..Outcome::default() }
    }

    /// Adds a header of the response; it needs a status. Further values are appended, as in HTTP.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = name.to_ascii_lowercase();
        match self.headers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => *values = format!("{values}, {value}"),
            None => self.headers.push((name, value.to_owned())),
        }
        self
    }

    /// Notes that the body reports a spent quota, such as a month's: no call starts before its
    /// reset. It needs a status. A 403 alone may also mean that this call is forbidden.
    #[must_use]
    pub fn quota_spent(self) -> Self {
        Outcome { quota_spent: true, ..self }
    }

    /// Sets the error code in the body, which distinguishes a spent quota from a forbidden call
    /// where the status does not, such as 403 of Sentinel Hub. It needs a status beside it.
    ///
    /// ```
    /// use rampmeter_worker_sdk::Outcome;
    /// # let error = serde_json::json!({"error": {"code": "ACCESS_INSUFFICIENT_PROCESSING_UNITS"}});
    /// let code = error["error"]["code"].as_str().unwrap_or_default();
    /// let outcome = Outcome::status(403).code(code);
    /// ```
    #[must_use]
    pub fn code(self, code: impl Into<String>) -> Self {
        Outcome { code: Some(code.into()), ..self }
    }

    /// Sets the actual cost of the call. A unit that is missing keeps its estimate.
    #[must_use]
    pub fn cost(self, cost: impl Into<Cost>) -> Self {
        Outcome { cost: Some(cost.into()), ..self }
    }

    /// Returns whether the upstream answered 429.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.status == Some(THROTTLED)
    }

    /// Returns whether the call succeeded with a status of 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    pub(crate) fn is_worth_repeating(&self) -> bool {
        self.is_throttled() && !self.code.as_deref().is_some_and(|code| FINAL.contains(&code))
    }

    /// Keeps of an HTTP response what schedulers read.
    pub(crate) fn answered(status: StatusCode, headers: &HeaderMap) -> Self {
        let relevant = headers.iter().filter(|(name, _)| speaks_of_limits(name.as_str()));
        let relevant = relevant.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        relevant.fold(Outcome::status(status.as_u16()), |outcome, (name, value)| outcome.header(name, value))
    }

    pub(crate) fn into_wire(self) -> (Option<Response<'static>>, Option<Cost>) {
        let headers = self.headers.into_iter().map(|(name, value)| (Text::from(name), Text::from(value)));
        let (headers, quota_spent, code) = (Headers::first_of(headers), self.quota_spent, self.code.map(Text::from));
        (self.status.map(|status| Response { status, headers, quota_spent, code }), self.cost)
    }
}

impl Reply for Outcome {
    fn outcome(&self) -> Outcome {
        self.clone()
    }
}

impl<T> Reply for (Outcome, T) {
    fn outcome(&self) -> Outcome {
        self.0.clone()
    }
}

impl<B> Reply for http::Response<B> {
    fn outcome(&self) -> Outcome {
        Outcome::answered(self.status(), self.headers())
    }
}

#[cfg(feature = "reqwest")]
impl Reply for reqwest::Response {
    fn outcome(&self) -> Outcome {
        Outcome::answered(self.status(), self.headers())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_that_speak_of_limits_leave_the_worker() {
        let response = http::Response::builder()
            .status(429)
            .header("Retry-After", "1500")
            .header("X-RateLimit-Remaining", "0")
            .header("RateLimit", "\"a\";r=0")
            .header("RateLimit", "\"b\";r=5")
            .header("X-RateLimit-Token", "secret")
            .header("Set-Cookie", "secret");
        let (response, cost) = response.body(()).unwrap().outcome().into_wire();
        let json = serde_json::to_string(&response).unwrap();
        let expected = r#"{"status":429,"headers":{"retry-after":"1500","x-ratelimit-remaining":"0","ratelimit":"\"a\";r=0, \"b\";r=5"}}"#;
        assert_eq!((json.as_str(), cost), (expected, None));
    }

    #[test]
    fn a_worker_can_tell_what_no_header_tells() {
        let (response, _) = Outcome::status(403).quota_spent().into_wire();
        let json = serde_json::to_string(&response).unwrap();
        assert_eq!(json, r#"{"status":403,"headers":{},"quota_spent":true}"#);
        let (response, _) = Outcome::status(403).code("ACCESS_FORBIDDEN").into_wire();
        let json = serde_json::to_string(&response).unwrap();
        assert_eq!(json, r#"{"status":403,"headers":{},"code":"ACCESS_FORBIDDEN"}"#);
    }
}
