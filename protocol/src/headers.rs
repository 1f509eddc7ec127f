//! The headers of an upstream's response that describe rate limits.

/// All headers that some dialect reads, in lower case and in order. A worker sends only these,
/// because other headers may hold secrets.
pub const OF_LIMITS: [&str; 40] = [
    "anthropic-ratelimit-input-tokens-limit",
    "anthropic-ratelimit-input-tokens-remaining",
    "anthropic-ratelimit-input-tokens-reset",
    "anthropic-ratelimit-output-tokens-limit",
    "anthropic-ratelimit-output-tokens-remaining",
    "anthropic-ratelimit-output-tokens-reset",
    "anthropic-ratelimit-requests-limit",
    "anthropic-ratelimit-requests-remaining",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-limit",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-tokens-reset",
    "anthropic-ratelimit-unified-5h-reset",
    "anthropic-ratelimit-unified-5h-utilization",
    "anthropic-ratelimit-unified-7d-reset",
    "anthropic-ratelimit-unified-7d-utilization",
    "ratelimit",
    "ratelimit-limit",
    "ratelimit-policy",
    "ratelimit-remaining",
    "ratelimit-reset",
    "retry-after",
    "throttle-status",
    "x-processingunits-spent",
    "x-ratelimit-bucket",
    "x-ratelimit-global",
    "x-ratelimit-limit",
    "x-ratelimit-limit-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-ratelimit-resource",
    "x-ratelimit-scope",
    "x-ratelimit-used",
    "x-shopify-shop-api-call-limit",
];

/// Whether some dialect reads the header with this name. Case does not matter.
///
/// ```
/// use rampmeter_protocol::headers::speaks_of_limits;
/// assert!(speaks_of_limits("Retry-After"));
/// assert!(!speaks_of_limits("Set-Cookie"));
/// ```
#[must_use]
pub fn speaks_of_limits(name: &str) -> bool {
    OF_LIMITS.binary_search(&&*name.to_ascii_lowercase()).is_ok()
}
