//! The code of an error in a response's body, by which the scheduler distinguishes causes.

use crate::json::{Seen, Value};

/// The bytes of a response that are read, unless it is a stream.
pub(crate) const MAX_READ: usize = 16 * 1024;
/// Longest code. A longer text is a message.
const MAX_CODE: usize = 64;
/// Positions of codes, the most specific first.
const PLACES: [&str; 14] = [
    "error.errors.reason",    // Google
    "errors.extensions.code", // Shopify
    "error.code",             // OpenAI, Stripe, Sentinel Hub
    "response.error.code",    // OpenAI, in a stream
    "error.status",           // Google
    "error.type",             // Anthropic
    "errors.type",            // GitHub
    "errors.code",
    "errors.reason",
    "__type", // AWS
    "error",  // Slack
    "code",   // Discord
    "error_code",
    "type",
];
/// The only positions that mean an error in a response with a good status, or in an event.
const OF_ERRORS: [&str; 2] = ["error", "errors"];
/// What GitHub says in place of a code.
const SECONDARY: (&str, [&str; 2]) = ("secondary_rate_limit", ["secondary rate limit", "abuse detection"]);
/// Positions of the seconds after which to come back.
const DELAYS: [&str; 3] = ["error.details.retryDelay", "retry_after", "parameters.retry_after"];
/// Codes of a 429 that no waiting mends.
const FINAL: [&str; 4] =
    ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "access_terminated"];

#[derive(Debug)]
pub(crate) struct ErrorReader {
    /// Whether the status is an error. Otherwise only what is certainly an error counts.
    is_error: bool,
    /// The code and the rank of its position.
    code: Option<(usize, String)>,
    delay: Option<f64>,
}

impl ErrorReader {
    /// Creates a reader for a response with this status, which may have a code in a header.
    pub(crate) fn new(status: u16, in_header: Option<&str>) -> Self {
        let code = in_header.and_then(|code| code.split(':').next()).unwrap_or_default();
        let mut reader = ErrorReader { is_error: status >= 400, code: None, delay: None };
        reader.code_at("__type", code.rsplit('#').next().unwrap_or_default());
        reader
    }

    pub(crate) fn code(&self) -> Option<&str> {
        self.code.as_ref().map(|(_, code)| code.as_str())
    }

    /// The seconds after which to come back, by the body.
    pub(crate) fn delay(&self) -> Option<u64> {
        self.delay.filter(|delay| delay.is_finite() && *delay > 0.0).map(|delay| delay.ceil() as u64)
    }

    /// Whether it is useless to repeat the call.
    pub(crate) fn is_final(&self) -> bool {
        self.code().is_some_and(|code| FINAL.contains(&code))
    }

    pub(crate) fn see(&mut self, seen: &Seen<'_>) {
        match seen.value {
            Value::Text(text) => self.text(seen.path, &text.start()),
            Value::Number(delay) if DELAYS.contains(&seen.path) => self.delay = Some(delay),
            // A number in place of a code is the status, except at Discord and X.
            Value::Number(code) if ["code", "errors.code"].contains(&seen.path) && code > 0.0 => {
                self.code_at(seen.path, &code.to_string());
            }
            Value::Key(_) | Value::Number(_) | Value::Word => {}
        }
    }

    fn text(&mut self, path: &str, text: &str) {
        if path == "type" && text == "error" {
            self.is_error = true;
        } else if self.is_error && path.ends_with("message") && is_secondary(text) {
            self.code = Some((0, SECONDARY.0.to_owned()));
        } else if DELAYS.contains(&path) {
            self.delay = self.delay.or(text.trim_end_matches('s').parse().ok());
        } else {
            self.code_at(path, text.rsplit('#').next().unwrap_or(text));
        }
    }

    /// Takes a code at one of the known positions.
    fn code_at(&mut self, path: &str, code: &str) {
        let Some(rank) = PLACES.iter().position(|place| *place == path) else { return };
        let is_certain = self.is_error || path.split('.').any(|key| OF_ERRORS.contains(&key));
        let is_code = (1..=MAX_CODE).contains(&code.len())
            && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte));
        if is_certain && is_code && self.code.as_ref().is_none_or(|(known, _)| rank < *known) {
            self.code = Some((rank, code.to_owned()));
        }
    }
}

fn is_secondary(message: &str) -> bool {
    let message = message.to_lowercase();
    SECONDARY.1.iter().any(|sign| message.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Scanner;

    fn found(status: u16, body: &str) -> ErrorReader {
        let (mut scanner, mut reader) = (Scanner::default(), ErrorReader::new(status, None));
        body.as_bytes().chunks(5).for_each(|piece| scanner.read(piece, &mut |seen| reader.see(seen)));
        reader
    }

    #[test]
    fn each_api_has_its_place_for_codes() {
        #[rustfmt::skip]
        let table = [
            (429, r#"{"error":{"message":"m","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,             Some("rate_limit_exceeded")),
            (429, r#"{"error":{"code":null,"type":"requests"}}"#,                                                       Some("requests")),
            (429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"m"}}"#,                              Some("rate_limit_error")),
            (403, r#"{"error":{"code":403,"errors":[{"domain":"usageLimits","reason":"rateLimitExceeded"}]}}"#,         Some("rateLimitExceeded")),
            (429, r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#,                                            Some("RESOURCE_EXHAUSTED")),
            (403, r#"{"error":{"status":403,"reason":"Forbidden","code":"ACCESS_FORBIDDEN"}}"#,                         Some("ACCESS_FORBIDDEN")),
            (400, r#"{"__type":"com.amazonaws.x#ThrottlingException","message":"Rate exceeded"}"#,                      Some("ThrottlingException")),
            (200, r#"{"data":null,"errors":[{"type":"RATE_LIMITED","message":"m"},{"type":"NOT_FOUND"}]}"#,             Some("RATE_LIMITED")),
            (200, r#"{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}]}"#,                          Some("THROTTLED")),
            (403, r#"{"message":"You have exceeded a secondary rate limit. Please wait","documentation_url":"x"}"#,     Some("secondary_rate_limit")),
            (429, r#"{"ok":false,"error":"ratelimited"}"#,                                                              Some("ratelimited")),
            (429, r#"{"message":"m","retry_after":1.5,"global":false,"code":40062}"#,                                   Some("40062")),
            (429, r#"{"errors":[{"code":88,"message":"Rate limit exceeded"}]}"#,                                        Some("88")),
            (200, r#"{"type":"error","code":"rate_limit_exceeded","message":"m"}"#,                                     Some("rate_limit_exceeded")),
            (200, r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded"}}}"#,                  Some("rate_limit_exceeded")),
            (200, r#"{"code":"x","type":"message","error":null}"#,                                                      None),
            (200, r#"{"text":"a secondary rate limit","input":{"error":{"code":"x"}}}"#,                                None),
            (400, r#"{"error":"a sentence is no code"}"#,                                                               None),
            (400, "no JSON",                                                                                            None),
        ];
        for (status, body, expected) in table {
            assert_eq!(found(status, body).code(), expected, "{body}");
        }
        assert_eq!(found(400, &format!("{{\"code\":\"{}\"}}", "c".repeat(MAX_CODE + 1))).code(), None);
        assert!(found(429, r#"{"error":{"code":"insufficient_quota"}}"#).is_final());
    }

    #[test]
    fn a_body_may_say_when_to_come_back() {
        for (body, expected) in [
            (r#"{"error":{"details":[{"@type":"x"},{"retryDelay":"38s"}]}}"#, Some(38)),
            (r#"{"retry_after":0.3}"#, Some(1)),
            (r#"{"retry_after":-5}"#, None),
            (r#"{"parameters":{"retry_after":7}}"#, Some(7)),
            (r#"{"error":{"message":"later"}}"#, None),
        ] {
            assert_eq!(found(429, body).delay(), expected, "{body}");
        }
    }
}
