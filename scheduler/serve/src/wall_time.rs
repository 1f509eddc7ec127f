//! Wall time for people to read.

use jiff::Timestamp;
use rampmeter_protocol::clock::unix_ms;

/// The wall time. It may step either way.
pub(crate) fn now() -> Timestamp {
    i64::try_from(unix_ms()).ok().and_then(|now| Timestamp::from_millisecond(now).ok()).unwrap_or_default()
}

/// The wall time as text, to the second.
pub(crate) fn text() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
