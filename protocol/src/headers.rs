//! Which headers of an upstream's response a worker passes on to the scheduler.

/// Headers without a [mark](MARKS) that schedulers read all the same, in lower case, sorted.
pub const OF_LIMITS: [&str; 5] =
    ["date", "sforce-limit-info", "x-amzn-errortype", "x-processingunits-spent", "x-shopify-shop-api-call-limit"];

/// Parts of a name that mark a header as one that describes rate limits.
pub const MARKS: [&str; 5] = ["quota", "rate-limit", "ratelimit", "retry-after", "throttl"];

/// Words in a header's name that suggest a secret. Such headers never leave a worker.
pub const SECRETS: [&str; 9] =
    ["auth", "authorization", "cookie", "key", "password", "secret", "session", "signature", "token"];

/// Longest header name that a worker sends. The longest known ones have 50 characters.
pub const MAX_HEADER_NAME: usize = 64;

/// Returns whether a worker passes on the header `name`: it is one of [`OF_LIMITS`], or contains
/// one of the [`MARKS`] and no word of a secret. Case does not matter.
///
/// ```
/// use rampmeter_protocol::headers::speaks_of_limits;
/// assert!(speaks_of_limits("Retry-After") && speaks_of_limits("X-App-Quota-Left"));
/// assert!(!speaks_of_limits("Set-Cookie") && !speaks_of_limits("X-RateLimit-Token"));
/// ```
#[must_use]
pub fn speaks_of_limits(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_told = || name.len() <= MAX_HEADER_NAME && MARKS.iter().any(|mark| name.contains(mark));
    OF_LIMITS.contains(&&*name) || (is_told() && !may_be_secret(&name))
}

pub(crate) fn may_be_secret(name: &str) -> bool {
    name.split(['-', '_']).any(|word| SECRETS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::{MAX_HEADER_NAME, speaks_of_limits};

    /// The clients for Python, TypeScript and Go read the same table.
    const TABLE: &str = include_str!("../tests/headers.txt");

    #[test]
    fn all_clients_pass_on_the_same_headers() {
        let rows: Vec<(&str, &str)> = TABLE.lines().filter_map(|line| line.split_once(' ')).collect();
        assert!(rows.len() > 40, "{}", rows.len());
        for (passes, name) in rows {
            assert_eq!(speaks_of_limits(name), passes == "yes", "{name}");
        }
        let long = |length: usize| "quota".to_owned() + &"x".repeat(length - 5);
        assert!(speaks_of_limits(&long(MAX_HEADER_NAME)) && !speaks_of_limits(&long(MAX_HEADER_NAME + 1)));
    }
}
