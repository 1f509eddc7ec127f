//! The dialects as data.

use crate::objection::{Means, Objection, Statuses, When};
use crate::unit::RetryAfterUnit;
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) retry_after: RetryAfterUnit,
    /// The responses that object, before those of all dialects.
    pub(crate) objections: fn() -> Vec<Objection>,
    pub(crate) spent: Option<(&'static str, &'static str)>,
    /// Whether quotas are reset on the first of each month in UTC if the response does not say.
    pub(crate) is_monthly: bool,
}

/// A property of the limit that objected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tells {
    /// It is the limit of all calls, called `global`.
    Global,
    /// It is another limit.
    NotGlobal,
    /// It is shared with other clients, who have used it up.
    SharedLimit,
}

pub(crate) const USUAL: Table =
    Table { retry_after: RetryAfterUnit::Seconds, objections: Vec::new, spent: None, is_monthly: false };

pub(crate) static SENTINEL_HUB: Table = Table {
    retry_after: RetryAfterUnit::Milliseconds,
    objections: || {
        vec![
            Objection::coded("ACCESS_INSUFFICIENT_PROCESSING_UNITS", Means::Quota),
            // With any other code, it is about permissions.
            Objection::status(Statuses::One(403), When::HasCode, Means::Ignore),
            Objection::status(Statuses::One(403), When::HasPause, Means::Quota),
        ]
    },
    spent: Some(("x-processingunits-spent", "processing-units")),
    is_monthly: true,
};

/// GitHub reports a secondary limit only in the message of the body.
pub(crate) static GITHUB: Table =
    Table { objections: || vec![secondary("secondary rate limit"), secondary("abuse detection mechanism")], ..USUAL };

fn secondary(body: &'static str) -> Objection {
    Objection { body: Some(Cow::Borrowed(body)), ..Objection::coded("secondary_rate_limit", Means::Limit) }
}

/// Discord's headers that describe, with these values, the limit that objected.
pub(crate) const REMARKS: [(&str, &str, Tells); 5] = [
    ("x-ratelimit-global", "true", Tells::Global),
    ("x-ratelimit-scope", "global", Tells::Global),
    ("x-ratelimit-scope", "user", Tells::NotGlobal),
    ("x-ratelimit-scope", "shared", Tells::NotGlobal),
    ("x-ratelimit-scope", "shared", Tells::SharedLimit),
];

/// The meanings of error codes in every dialect. `RATE_LIMITED` also matches `rateLimited`.
const CODES: [(Means, &[&str]); 7] = [
    // OpenAI: no money is left, and the content. Stripe: another call changes the same object.
    (Means::Ignore, &["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "lock_timeout"]),
    (Means::Ignore, &["content_filter", "content_policy_violation"]),
    // Google: of a day.
    (Means::Quota, &["quotaExceeded", "dailyLimitExceeded", "dailyLimitExceededUnreg"]),
    // Google; GitHub, Slack, Notion, Square and Linear; Shopify; Stripe and HubSpot; Anthropic and OpenAI.
    (Means::Limit, &["rateLimitExceeded", "userRateLimitExceeded", "concurrentLimitExceeded", "RESOURCE_EXHAUSTED"]),
    (Means::Limit, &["RATE_LIMITED", "secondary_rate_limit", "THROTTLED", "rate_limit", "rate_limit_error"]),
    // AWS; Microsoft.
    (
        Means::Limit,
        &[
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottled",
            "RequestThrottledException",
            "EC2ThrottledException",
            "TooManyRequests",
            "TooManyRequestsException",
            "RequestLimitExceeded",
            "BandwidthLimitExceeded",
            "ProvisionedThroughputExceededException",
            "PriorRequestNotComplete",
            "ApplicationThrottled",
            "activityLimitReached",
        ],
    ),
    (Means::Pause, &["overloaded_error", "engine_overloaded", "server_overloaded", "SlowDown"]),
];

/// Returns the responses that object in every dialect, of which the first that matches decides.
pub(crate) fn objections() -> Vec<Objection> {
    // Amazon's Selling Partner API means a rate by the word that Google has for a day.
    let rate = Objection { statuses: Statuses::One(429), ..Objection::coded("QuotaExceeded", Means::Limit) };
    let codes = CODES.iter().flat_map(|(means, codes)| codes.iter().map(|code| Objection::coded(code, *means)));
    // GitHub and those who copy it refuse with 403 and an empty bucket.
    let by_status = [
        (Statuses::One(429), When::Always, Means::Limit),
        (Statuses::One(403), When::HasPauseOrEmptyBucket, Means::Limit),
        (Statuses::Class(4), When::HasPause, Means::Limit),
        (Statuses::Class(5), When::HasPause, Means::Pause),
        (Statuses::One(503), When::NamesNoTime, Means::Busy),
    ];
    let by_status = by_status.into_iter().map(|(statuses, when, means)| Objection::status(statuses, when, means));
    [rate].into_iter().chain(codes).chain(by_status).collect()
}
