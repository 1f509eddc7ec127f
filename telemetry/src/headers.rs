//! The headers for a collector, such as a key.

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

/// Bound on the headers: a key or two.
const MAX_HEADERS: usize = 16;

/// A text is no list of headers. The error contains no part of it, because it is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("headers are written like `name=value,name=value`, at most {MAX_HEADERS}, the values percent-encoded")]
pub struct HeadersError;

/// Parses headers in the format of OpenTelemetry's variable `OTEL_EXPORTER_OTLP_HEADERS`.
///
/// # Errors
/// If `text` is not such a list.
pub fn parse(text: &str) -> Result<HeaderMap, HeadersError> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(HeadersError)?;
        let name: HeaderName = name.trim().parse().map_err(|_| HeadersError)?;
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| HeadersError)?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| HeadersError)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    if headers.is_empty() || headers.len() > MAX_HEADERS { Err(HeadersError) } else { Ok(headers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_opentelemetry_writes_them() {
        let read = parse("authorization=Basic%20YTpi, x-key = canary ,").unwrap();
        assert_eq!(
            (&read["authorization"], &read["x-key"]),
            (&"Basic YTpi".parse().unwrap(), &"canary".parse().unwrap())
        );
        assert!(!format!("{read:?}").contains("canary"), "no log shows a key");
        let many: Vec<String> = (0..=MAX_HEADERS).map(|number| format!("x-{number}=a")).collect();
        for text in ["", "canary", "a b=c", "a=b%0Ac", "a=%ff", &many.join(",")] {
            let error = parse(text).unwrap_err();
            assert!(!error.to_string().contains("canary"));
        }
    }
}
