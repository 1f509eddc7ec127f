//! Announcements of a server's limits.

use crate::Error;
use http::HeaderValue;
use rampmeter_protocol::bounds::MAX_MILLIS;
use rampmeter_protocol::name::Name;
use std::fmt;
use std::time::Duration;

/// A limit as announced in `RateLimit-Policy`, a quota per window, to inform callers only.
///
/// ```
/// use rampmeter_worker_sdk::middleware::tower::Policy;
/// use std::time::Duration;
///
/// let policy = Policy::new("per-minute", 100, Duration::from_secs(60)).unwrap();
/// assert_eq!(policy.to_string(), r#""per-minute";q=100;w=60"#);
/// assert!(Policy::new("per-tick", 1, Duration::from_millis(100)).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    limit: Name,
    quota: u32,
    window: Duration,
}

impl Policy {
    /// Creates a policy. `limit` is the scheduler's name of the limit, as refusals state it.
    ///
    /// # Errors
    /// If `limit` is not a name, or `window` is not whole seconds from one second to 366 days.
    pub fn new(limit: &str, quota: u32, window: Duration) -> Result<Self, Error> {
        let limit = Name::new(limit).map_err(|error| Error::invalid(format!("policy {limit:?}: {error}")))?;
        let is_whole = window.subsec_nanos() == 0 && !window.is_zero();
        if !is_whole || window.as_secs_f64() * 1000.0 > MAX_MILLIS {
            let text =
                format!("policy {:?}: a window is from 1 s to a year, in whole seconds, not {window:?}", &*limit);
            return Err(Error::invalid(text));
        }
        Ok(Policy { limit, quota, window })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\";q={};w={}", self.limit, self.quota, self.window.as_secs())
    }
}

pub(super) fn field(policies: impl IntoIterator<Item = Policy>) -> Option<HeaderValue> {
    let list: Vec<String> = policies.into_iter().map(|policy| policy.to_string()).collect();
    let value = (!list.is_empty()).then(|| list.join(", "))?;
    Some(HeaderValue::try_from(value).expect("names and numbers are visible ASCII"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: &str, window: Duration, expected: Result<&str, &str>) {
        match (Policy::new(limit, 5, window), expected) {
            (Ok(policy), Ok(text)) => assert_eq!(policy.to_string(), text),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn windows_are_whole_seconds() {
        check("few", Duration::from_secs(1), Ok("\"few\";q=5;w=1"));
        check("few", Duration::from_secs(366 * 86_400), Ok("\"few\";q=5;w=31622400"));
        check("few", Duration::from_secs(366 * 86_400 + 1), Err("to a year"));
        check("few", Duration::from_millis(1500), Err("whole seconds, not 1.5s"));
        check("few", Duration::ZERO, Err("from 1 s"));
        check("a few", Duration::from_secs(1), Err("[A-Za-z0-9_-]"));
    }

    #[test]
    fn policies_are_one_list() {
        let policy = |name| Policy::new(name, 5, Duration::from_secs(1)).unwrap();
        assert_eq!(field([policy("a"), policy("b")]).unwrap(), "\"a\";q=5;w=1, \"b\";q=5;w=1");
        assert_eq!(field([]), None);
    }
}
