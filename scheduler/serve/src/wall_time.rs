//! Wall time as shown to people.

use jiff::Timestamp;
use rampmeter_protocol::clock::unix_ms;

/// Returns the wall time, which may step in either direction.
pub(crate) fn now() -> Timestamp {
    i64::try_from(unix_ms()).ok().and_then(|now| Timestamp::from_millisecond(now).ok()).unwrap_or_default()
}

/// Returns the wall time to the second, in UTC.
pub(crate) fn text() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
