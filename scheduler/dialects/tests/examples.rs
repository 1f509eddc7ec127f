//! Real answers of upstreams, dialect by dialect.

mod common;

use common::{check, check_plainly};
use rampmeter_dialects::{Dialect, Means, Objection, OddHeaders, Reader, RetryAfterUnit, Statuses};
use rampmeter_protocol::time::Span;

#[test]
fn sentinel_hub() {
    #[rustfmt::skip]
    let table = [
        ("200\nX-ProcessingUnits-Spent: 3.3333333333333335",        "passed\nspent 3.333334 processing-units"),
        ("200\nX-ProcessingUnits-Spent: 0.005",                     "passed\nspent 0.005 processing-units"),
        ("200",                                                     "passed"),
        ("429\nRetry-After: 1500",                                  "limited unnamed for 1.5s"),
        ("429\nRetry-After: 16.7",                                  "limited unnamed for 16.7ms"),
        ("429",                                                     "limited unnamed for ?"),
        ("429\nX-RateLimit-Remaining: 0",                           "limited unnamed for ?\nunnamed 0/? reset ?"),
        // A missing permission or a spent quota: only the body tells which.
        ("403",                                                     "passed"),
        ("403\nX-ProcessingUnits-Spent: 0",                         "passed\nspent 0 processing-units"),
        ("403\nRetry-After: 86400000",                              "exhausted unnamed for 86400s"),
        // From the 21st of October, 07:28, to the first of November.
        ("403 quota spent",                                         "exhausted unnamed for 923520s"),
        ("403 quota spent\nRetry-After: 60000",                     "exhausted unnamed for 60s"),
        // The body's error has a code.
        ("403 ACCESS_INSUFFICIENT_PROCESSING_UNITS",                "exhausted unnamed for 923520s"),
        ("403 ACCESS_INSUFFICIENT_PROCESSING_UNITS\nRetry-After: 60000", "exhausted unnamed for 60s"),
        ("403 COMMON_INSUFFICIENT_PERMISSIONS",                     "passed"),
        ("403 COMMON_INSUFFICIENT_PERMISSIONS\nRetry-After: 60000", "passed"),
        ("429 RATE_LIMIT_EXCEEDED\nRetry-After: 1500",              "limited unnamed for 1.5s"),
        ("503\nRetry-After: 1000",                                  "limited unnamed for 1s by others"),
        ("200\nX-ProcessingUnits-Spent: lots",                      "passed\nunreadable x-processingunits-spent"),
    ];
    for (answer, expected) in table {
        check_plainly(Dialect::SentinelHub, answer, expected);
    }
}

#[test]
fn plain() {
    #[rustfmt::skip]
    let table = [
        ("429\nRetry-After: 120",                                   "limited unnamed for 120s"),
        ("429\nRetry-After: 0.5",                                   "limited unnamed for 500ms"),
        ("429\nRetry-After: Wed, 21 Oct 2026 07:28:30 GMT",         "limited unnamed for 30s"),
        ("429\nRetry-After: Wednesday, 21-Oct-26 07:28:30 GMT",     "limited unnamed for 30s"),
        ("429\nRetry-After: Wed Oct 21 07:28:30 2026",              "limited unnamed for 30s"),
        ("503\nRetry-After: 5",                                     "limited unnamed for 5s by others"),
        ("503",                                                     "busy"),
        ("500\nRetry-After: 5",                                     "limited unnamed for 5s by others"),
        ("500",                                                     "passed"),
        ("403\nRetry-After: 5",                                     "limited unnamed for 5s"),
        ("403",                                                     "passed"),
        ("402 quota spent",                                         "exhausted unnamed for ?"),
        // It is a code of another dialect.
        ("403 ACCESS_INSUFFICIENT_PROCESSING_UNITS",                "passed"),
        ("200\nX-RateLimit-Remaining: 5",                           "passed"),
        ("429\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 9\nretry-after-ms: 20", "limited unnamed for ?"),
    ];
    for (answer, expected) in table {
        check_plainly(Dialect::Plain, answer, expected);
    }
}

/// Reaches `reader::MAX_PAUSE`.
#[test]
fn retry_after_that_tells_little() {
    #[rustfmt::skip]
    let table = [
        // Zero, or a moment that has passed.
        ("",                                    "limited unnamed for ?"),
        ("Retry-After: 0",                      "limited unnamed for ?"),
        ("Retry-After: -5",                     "limited unnamed for ?"),
        ("Retry-After: Wed, 21 Oct 2015 07:28:00 GMT", "limited unnamed for ?"),
        // Bounded.
        ("Retry-After: 3600",                   "limited unnamed for 3600s"),
        ("Retry-After: 3601",                   "limited unnamed for 3600s"),
        ("Retry-After: 99999999999999999999",   "limited unnamed for 3600s"),
        ("Retry-After: Wed, 21 Oct 2099 07:28:00 GMT", "limited unnamed for 3600s"),
        // Finer than a nanosecond, rounded up.
        ("Retry-After: 0.0000000001",           "limited unnamed for 1ns"),
        // Garbled.
        ("Retry-After:",                        "limited unnamed for ?\nunreadable retry-after"),
        ("Retry-After: soon",                   "limited unnamed for ?\nunreadable retry-after"),
        ("Retry-After: NaN",                    "limited unnamed for ?\nunreadable retry-after"),
        ("Retry-After: 1e2",                    "limited unnamed for ?\nunreadable retry-after"),
    ];
    for (header, expected) in table {
        check_plainly(Dialect::Plain, &format!("429\n{header}"), expected);
    }
}

#[test]
fn the_unit_of_retry_after_can_be_another() {
    let seconds = Reader::of(Dialect::SentinelHub).counting_in(Some(RetryAfterUnit::Seconds));
    check(&seconds, "429\nRetry-After: 2", "limited unnamed for 2s");
    let millis = Reader::of(Dialect::Openai).counting_in(Some(RetryAfterUnit::Milliseconds));
    check(&millis, "429\nRetry-After: 2", "limited unnamed for 2ms");
    check(&millis, "429\nRetry-After: Wed, 21 Oct 2026 07:28:01 GMT", "limited unnamed for 1s");
}

#[test]
fn ietf() {
    #[rustfmt::skip]
    let table = [
        (r#"200
            RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
            RateLimit: "burst";r=50;t=30"#,
         "passed\npolicy=burst 50/100 reset 30s"),
        (r#"200
            RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
            RateLimit: "burst";r=50;t=30, "daily";r=999"#,
         "passed\npolicy=burst 50/100 reset 30s\npolicy=daily 999/1000 reset ?"),
        (r#"429
            RateLimit-Policy: "burst";q=100;w=60
            RateLimit: "burst";r=0;t=12"#,
         "limited policy=burst for 12s\npolicy=burst 0/100 reset 12s"),
        (r#"429
            Retry-After: 20
            RateLimit: "burst";r=0;t=12"#,
         "limited policy=burst for 20s\npolicy=burst 0/? reset 12s"),
        (r#"429
            RateLimit: "burst";r=0;t=12, "daily";r=0;t=3000"#,
         "limited unnamed for 3000s\npolicy=burst 0/? reset 12s\npolicy=daily 0/? reset 3000s"),
        (r#"200
            RateLimit-Policy: peak;q=65535;w=10;qu="content-bytes";pk=:dGVuYW50:
            RateLimit: peak;r=1024.5;t=5;pk=:dGVuYW50:"#,
         "passed\nunit=content-bytes 1024.5/65535 reset 5s"),
        // A policy has another capacity for each partition.
        (r#"200
            RateLimit-Policy: "tenant";q=30;w=60;pk=:YQ==:, "tenant";q=90;w=60;pk=:Yg==:
            RateLimit: "tenant";r=12;t=5;pk=:Yg==:"#,
         "passed\npolicy=tenant 12/90 reset 5s"),
        (r#"200
            RateLimit-Policy: "tenant";q=30;w=60
            RateLimit: "tenant";r=12;t=5;pk=:Yg==:"#,
         "passed\npolicy=tenant 12/30 reset 5s"),
        // A name that no limit can have.
        (r#"200
            RateLimit: "per user and minute";r=5"#,
         "passed\nunnamed 5/? reset ?"),
        // Parameters that are missing, negative or not numbers are ignored.
        (r#"200
            RateLimit: "a";t=5, "b";r=-1;t=5, "c";r=5;t=-5, "d";r="5", ("e" "f");r=1"#,
         "passed\npolicy=c 5/? reset ?"),
        // Earlier drafts.
        ("200\nRateLimit: limit=100, remaining=50, reset=30",
         "passed\nunnamed 50/100 reset 30s"),
        ("200\nRateLimit-Limit: 100, 100;w=60, 1000;w=3600\nRateLimit-Remaining: 7\nRateLimit-Reset: 30",
         "passed\nunnamed 7/100 reset 30s"),
        ("200\nRateLimit-Limit: 10, 100;w=60\nRateLimit-Remaining: 7, 3",
         "passed\nunnamed 3/10 reset ?"),
        ("429\nRateLimit-Limit: 10\nRateLimit-Remaining: 0\nRateLimit-Reset: 4",
         "limited unnamed for 4s\nunnamed 0/10 reset 4s"),
        ("200\nRateLimit: \"a\";r=5\nRateLimit-Remaining: 5",
         "passed\npolicy=a 5/? reset ?"),
        // Garbled.
        (r#"200
            RateLimit: "burst;r=50"#,
         "passed\nunreadable ratelimit"),
        (r#"200
            RateLimit-Policy: 100 per minute
            RateLimit: "burst";r=50"#,
         "passed\npolicy=burst 50/? reset ?\nunreadable ratelimit-policy"),
        ("429\nRateLimit: remaining",
         "limited unnamed for ?"),
        ("503\nRetry-After: 5",
         "limited unnamed for 5s by others"),
        ("503\nRateLimit: \"a\";r=0;t=5",
         "passed\npolicy=a 0/? reset 5s"),
    ];
    for (answer, expected) in table {
        check_plainly(Dialect::Ietf, answer, expected);
    }
}

#[test]
fn discord() {
    #[rustfmt::skip]
    let table = [
        ("200
            X-RateLimit-Limit: 5
            X-RateLimit-Remaining: 4
            X-RateLimit-Reset: 1470173023.123
            X-RateLimit-Reset-After: 4.999
            X-RateLimit-Bucket: abcd1234",
         "passed\nlimit=abcd1234 4/5 reset 4.999s"),
        ("429
            Retry-After: 65
            X-RateLimit-Limit: 10
            X-RateLimit-Remaining: 0
            X-RateLimit-Reset-After: 64.57
            X-RateLimit-Bucket: abcd1234
            X-RateLimit-Scope: user",
         "limited limit=abcd1234 for 65s\nlimit=abcd1234 0/10 reset 64.57s"),
        ("429
            X-RateLimit-Limit: 10
            X-RateLimit-Remaining: 0
            X-RateLimit-Reset-After: 64.57
            X-RateLimit-Bucket: abcd1234
            X-RateLimit-Scope: shared",
         "limited limit=abcd1234 for 64.57s by others\nlimit=abcd1234 0/10 reset 64.57s"),
        ("429
            Retry-After: 0.753
            X-RateLimit-Global: true
            X-RateLimit-Scope: global",
         "limited limit=global for 753ms"),
        // Without the time until the reset, its moment counts.
        ("200
            X-RateLimit-Limit: 5
            X-RateLimit-Remaining: 4
            X-RateLimit-Reset: 1792567681.250
            X-RateLimit-Bucket: abcd1234",
         "passed\nlimit=abcd1234 4/5 reset 1.25s"),
        ("429\nRetry-After: 1\nX-RateLimit-Global: true",   "limited limit=global for 1s"),
        ("429\nRetry-After: 1\nX-RateLimit-Scope: Global",  "limited limit=global for 1s"),
        ("429\nRetry-After: 1\nX-RateLimit-Scope: user",    "limited narrow for 1s"),
        ("429\nRetry-After: 1\nX-RateLimit-Scope: ???",     "limited unnamed for 1s"),
        ("200\nX-RateLimit-Scope: shared",                  "passed"),
        ("200
            X-RateLimit-Remaining: 1
            X-RateLimit-Bucket: not a name",
         "passed\nunnamed 1/? reset ?\nunreadable x-ratelimit-bucket"),
        ("200
            X-RateLimit-Limit: many
            X-RateLimit-Remaining: some
            X-RateLimit-Reset-After: soon",
         "passed\nunreadable x-ratelimit-limit\nunreadable x-ratelimit-remaining\nunreadable x-ratelimit-reset-after"),
    ];
    for (answer, expected) in table {
        check_plainly(Dialect::Discord, answer, expected);
    }
}

#[test]
fn openai() {
    #[rustfmt::skip]
    let table = [
        ("200
            x-ratelimit-limit-requests: 60
            x-ratelimit-limit-tokens: 150000
            x-ratelimit-remaining-requests: 59
            x-ratelimit-remaining-tokens: 149984
            x-ratelimit-reset-requests: 1s
            x-ratelimit-reset-tokens: 6m0s",
         "passed\nunit=requests 59/60 reset 1s\nunit=tokens 149984/150000 reset 360s"),
        // The bucket is full in 20 s, and allows a request long before.
        ("429
            x-ratelimit-limit-requests: 3
            x-ratelimit-remaining-requests: 0
            x-ratelimit-reset-requests: 20s",
         "limited unit=requests for ?\nunit=requests 0/3 reset 20s"),
        ("429
            retry-after: 20
            x-ratelimit-remaining-requests: 5
            x-ratelimit-remaining-tokens: 0
            x-ratelimit-reset-tokens: 120ms",
         "limited unit=tokens for 20s\nunit=requests 5/? reset ?\nunit=tokens 0/? reset 120ms"),
        // Some tokens are left, though too few: either limit may have objected.
        ("429
            x-ratelimit-remaining-requests: 5
            x-ratelimit-remaining-tokens: 10",
         "limited unnamed for ?\nunit=requests 5/? reset ?\nunit=tokens 10/? reset ?"),
        ("429 quota spent",
         "exhausted unnamed for ?"),
        ("200
            x-ratelimit-remaining-tokens: -12
            x-ratelimit-remaining-requests: few
            x-ratelimit-reset-requests: in a minute",
         "passed
            unit=tokens 0/? reset ?
            unreadable x-ratelimit-remaining-requests
            unreadable x-ratelimit-reset-requests"),
        ("200
            x-ratelimit-remaining-tokens: 99999999999999
            x-ratelimit-reset-tokens: 9999d",
         "passed\nunit=tokens 1000000000/? reset 2764800s"),
    ];
    for (answer, expected) in table {
        check_plainly(Dialect::Openai, answer, expected);
    }
}

#[test]
fn anthropic() {
    #[rustfmt::skip]
    let table = [
        ("200
            anthropic-ratelimit-requests-limit: 50
            anthropic-ratelimit-requests-remaining: 49
            anthropic-ratelimit-requests-reset: 2026-10-21T07:28:01Z
            anthropic-ratelimit-input-tokens-limit: 50000
            anthropic-ratelimit-input-tokens-remaining: 48000
            anthropic-ratelimit-input-tokens-reset: 2026-10-21T07:28:02.5Z
            anthropic-ratelimit-output-tokens-limit: 10000
            anthropic-ratelimit-output-tokens-remaining: 10000
            anthropic-ratelimit-output-tokens-reset: 2026-10-21T07:27:59Z",
         "passed
            unit=requests 49/50 reset 1s
            unit=input-tokens 48000/50000 in steps of 1000 reset 2.5s
            unit=output-tokens 10000/10000 in steps of 1000 reset 0ns"),
        ("429
            retry-after: 7
            anthropic-ratelimit-input-tokens-remaining: 0
            anthropic-ratelimit-input-tokens-reset: 2026-10-21T07:29:00Z",
         "limited unit=input-tokens for 7s\nunit=input-tokens 0/? in steps of 1000 reset 60s"),
        ("529\nretry-after: 7",
         "limited unnamed for 7s by others"),
        // In the stream of an answer that has begun.
        ("200 rate_limit_error", "limited unnamed for ?"),
        ("200 overloaded_error", "limited unnamed for ? by others"),
        ("200
            anthropic-ratelimit-tokens-limit: 90000
            anthropic-ratelimit-tokens-remaining: 88000
            anthropic-ratelimit-tokens-reset: 2026-10-21T07:28:03Z",
         "passed\nunit=tokens 88000/90000 in steps of 1000 reset 3s"),
        // The windows of a subscription tell the used share, which counts once all is used.
        ("200
            anthropic-ratelimit-unified-5h-utilization: 0.26
            anthropic-ratelimit-unified-5h-reset: 1792571280
            anthropic-ratelimit-unified-7d-utilization: 0.97
            anthropic-ratelimit-unified-7d-reset: 1792571290",
         "passed"),
        ("429
            anthropic-ratelimit-unified-5h-utilization: 1
            anthropic-ratelimit-unified-5h-reset: 1792568280
            anthropic-ratelimit-unified-7d-utilization: 0.97
            anthropic-ratelimit-unified-7d-reset: 1792571290",
         "limited policy=unified-5h for 600s\npolicy=unified-5h 0/? reset 600s"),
        ("429
            anthropic-ratelimit-unified-7d-utilization: 1.02
            anthropic-ratelimit-unified-7d-reset: soon",
         "limited policy=unified-7d for ?\npolicy=unified-7d 0/? reset ?\nunreadable anthropic-ratelimit-unified-7d-reset"),
        ("200
            anthropic-ratelimit-requests-remaining: 1
            anthropic-ratelimit-requests-reset: in a minute",
         "passed\nunit=requests 1/? reset ?\nunreadable anthropic-ratelimit-requests-reset"),
    ];
    for (answer, expected) in table {
        check_plainly(Dialect::Anthropic, answer, expected);
    }
}

#[test]
fn github() {
    #[rustfmt::skip]
    let table = [
        ("200
            x-ratelimit-limit: 5000
            x-ratelimit-remaining: 4987
            x-ratelimit-reset: 1792571280
            x-ratelimit-used: 13
            x-ratelimit-resource: core",
         "passed\nlimit=core 4987/5000 reset 3600s"),
        // What is used tells what is left.
        ("200
            x-ratelimit-limit: 5000
            x-ratelimit-used: 5003
            x-ratelimit-resource: core",
         "passed\nlimit=core 0/5000 reset ?"),
        ("200\nx-ratelimit-used: 13",
         "passed"),
        ("200\nx-ratelimit-limit: 60\nx-ratelimit-used: many",
         "passed\nunreadable x-ratelimit-used"),
        // The primary limit.
        ("403
            x-ratelimit-limit: 60
            x-ratelimit-remaining: 0
            x-ratelimit-reset: 1792567980
            x-ratelimit-resource: search",
         "limited limit=search for 300s\nlimit=search 0/60 reset 300s"),
        // The secondary limit, which no header names.
        ("403
            retry-after: 60
            x-ratelimit-limit: 5000
            x-ratelimit-remaining: 4000
            x-ratelimit-reset: 1792567980
            x-ratelimit-resource: core",
         "limited unnamed for 60s\nlimit=core 4000/5000 reset 300s"),
        ("429\nretry-after: 60",
         "limited unnamed for 60s"),
        ("429\nx-ratelimit-remaining: 100",
         "limited unnamed for ?\nunnamed 100/? reset ?"),
        // A missing permission.
        ("403\nx-ratelimit-remaining: 100\nx-ratelimit-resource: core",
         "passed\nlimit=core 100/? reset ?"),
        ("403",
         "passed"),
        // The secondary limit without a header, as who has the body tells it.
        ("403 secondary_rate_limit",
         "limited unnamed for ?"),
        ("200 RATE_LIMITED\nx-ratelimit-resource: graphql\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1792567980",
         "limited limit=graphql for 300s\nlimit=graphql 0/? reset 300s"),
        // A window that has ended by our clock.
        ("403\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1372700873",
         "limited unnamed for ?\nunnamed 0/? reset 0ns"),
    ];
    for (answer, expected) in table {
        check_plainly(Dialect::Github, answer, expected);
    }
}

#[test]
fn shopify() {
    #[rustfmt::skip]
    let table = [
        (r#"200
            throttle-status: {"maximumAvailable":1000.0,"currentlyAvailable":954,"restoreRate":50.0}"#,
         "passed\nunit=points 954/1000 reset 920ms"),
        (r#"429
            throttle-status: {"maximumAvailable":1000,"currentlyAvailable":0,"restoreRate":50,"windows":[]}"#,
         "limited unit=points for ?\nunit=points 0/1000 reset 20s"),
        (r#"200
            throttle-status: {"maximumAvailable":1000,"currentlyAvailable":1000,"restoreRate":0}"#,
         "passed\nunit=points 1000/1000 reset ?"),
        ("429\nRetry-After: 2.0\nX-Shopify-Shop-Api-Call-Limit: 40/40",
         "limited unit=requests for 2s\nunit=requests 0/40 reset ?"),
        ("200\nX-Shopify-Shop-Api-Call-Limit: 32/40",
         "passed\nunit=requests 8/40 reset ?"),
        ("200\nX-Shopify-Shop-Api-Call-Limit: 41/40",
         "passed\nunit=requests 0/40 reset ?"),
        (r#"200
            throttle-status: {"maximumAvailable":-1,"currentlyAvailable":954,"restoreRate":50.0}"#,
         "passed\nunreadable throttle-status"),
        ("200\nthrottle-status: 954\nX-Shopify-Shop-Api-Call-Limit: 32",
         "passed\nunreadable throttle-status\nunreadable x-shopify-shop-api-call-limit"),
    ];
    for (answer, expected) in table {
        check_plainly(Dialect::Shopify, answer, expected);
    }
}

/// Answers in no dialect of their own; docs/upstreams.md has more.
#[test]
fn generic() {
    #[rustfmt::skip]
    let table = [
        // Two families that say the same.
        ("200\nRateLimit-Limit: 60\nRateLimit-Remaining: 5\nX-RateLimit-Limit: 60\nX-RateLimit-Remaining: 5",
         "passed\nunnamed 5/60 reset ?"),
        // Two windows.
        ("200
            X-RateLimit-Limit-Second: 5
            X-RateLimit-Remaining-Second: 4
            X-RateLimit-Limit-Hour: 1000
            X-RateLimit-Remaining-Hour: 950",
         "passed\nunnamed 4/5 reset ?\nunnamed 950/1000 reset ?"),
        // A window of which no capacity is told may be any.
        ("200\nX-RateLimit-Remaining-Day: 0",               "passed"),
        // No limit at all.
        ("200\nX-RateLimit-Limit: -1\nX-RateLimit-Remaining: -1", "passed"),
        // A rate, and not what is left.
        ("200\nx-amzn-RateLimit-Limit: 0.5",               "passed"),
        // A name that no limit has is not mistaken for the call's own.
        ("200\nx-ms-ratelimit-remaining-subscription-reads: 0", "passed\npolicy=subscription-reads 0/? reset ?"),
        // The longest of several pauses.
        ("429\nretry-after: 1\nretry-after-ms: 1200",       "limited unnamed for 1.2s"),
        ("429\nretry-after: soon\nretry-after-ms: 1200",    "limited unnamed for 1.2s\nunreadable retry-after"),
        ("429\nRetry-After: 2026-10-21T07:28:30Z",          "limited unnamed for 30s"),
        // What is left is told, so that the reset is not when calls go on.
        ("429\nx-ratelimit-remaining: 7\nx-ratelimit-reset: 50", "limited unnamed for ?\nunnamed 7/? reset 50s"),
        ("429\nx-ratelimit-reset: 50",                      "limited unnamed for 50s"),
        ("429\nanthropic-ratelimit-unified-5h-reset: 50\nanthropic-ratelimit-unified-5h-utilization: 0.2", "limited unnamed for ?"),
        ("429\nratelimit-remaining: \nratelimit-reset: ?",   "limited unnamed for ?\nunreadable ratelimit-remaining\nunreadable ratelimit-reset"),
        ("429\nx-ratelimit-reset-ms: 1500",                 "limited unnamed for 1.5s"),
        ("200\nx-ratelimit-limit-requests-day: 9\nx-ratelimit-remaining-requests-day: 5", "passed\nunit=requests 5/9 reset ?"),
        ("429\nx-envoy-ratelimited: 7\ncontent-length: 5",  "limited unnamed for ?"),
        ("302\nRetry-After: 5",                             "passed"),
        ("404\nx-ratelimit-remaining: 0",                   "passed\nunnamed 0/? reset ?"),
    ];
    for (answer, expected) in table {
        check_plainly(Dialect::Generic, answer, expected);
    }
}

#[test]
fn codes_of_errors() {
    #[rustfmt::skip]
    let table = [
        // Objections, whatever the status.
        ("200 RATE_LIMITED",                    "limited unnamed for ?"),
        ("200 ratelimited",                     "limited unnamed for ?"),
        ("200 THROTTLED",                       "limited unnamed for ?"),
        ("403 rateLimitExceeded",               "limited unnamed for ?"),
        ("403 userRateLimitExceeded",           "limited unnamed for ?"),
        ("429 RESOURCE_EXHAUSTED\nRetry-After: 9", "limited unnamed for 9s"),
        ("400 ThrottlingException",             "limited unnamed for ?"),
        ("400 com.amazon.coral.availability#ThrottlingException", "limited unnamed for ?"),
        ("400\nx-amzn-ErrorType: ProvisionedThroughputExceededException:http://internal.amazon.com/", "limited unnamed for ?"),
        ("503 SlowDown",                        "limited unnamed for ? by others"),
        ("429 QuotaExceeded",                   "limited unnamed for ?"),
        // Quotas.
        ("403 quotaExceeded",                   "exhausted unnamed for ?"),
        ("403 dailyLimitExceeded",              "exhausted unnamed for ?"),
        // 429s that are about something else.
        ("429 lock_timeout",                    "passed"),
        ("429 insufficient_quota\nretry-after: 5", "passed"),
        ("429 content_filter",                  "passed"),
        // Codes that nobody knows.
        ("429 teapot",                          "limited unnamed for ?"),
        ("403 forbidden",                       "passed"),
        // By status, if a time is named.
        ("529\nRetry-After: 20",                "limited unnamed for 20s by others"),
        ("503\nRetry-After: 20",                "limited unnamed for 20s by others"),
        ("420\nRetry-After: 20",                "limited unnamed for 20s"),
        ("529",                                 "passed"),
    ];
    for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::SentinelHub) {
        table.iter().for_each(|(answer, expected)| check_plainly(dialect, answer, expected));
    }
}

#[test]
fn objections_of_the_configuration_decide_first() {
    let limit = rampmeter_protocol::name::Name::new("search").unwrap();
    let reader = Reader::of(Dialect::Generic).with_objections(vec![
        Objection { code: Some("429".into()), ..Objection::new(Means::Ignore) },
        Objection {
            statuses: Statuses::Class(4),
            header: Some(("x-why".into(), Some("per-app*".into()))),
            limit: Some(limit),
            pause: Some(Span::from_secs(7)),
            ..Objection::new(Means::Limit)
        },
        Objection { statuses: Statuses::One(200), body: Some("Try again".into()), ..Objection::new(Means::Pause) },
        Objection { header: Some(("x-spent".into(), None)), ..Objection::new(Means::Quota) },
    ]);
    #[rustfmt::skip]
    let table = [
        ("429 429",                             "passed"),
        ("429 430",                             "limited unnamed for ?"),
        ("400\nX-Why: Per-App limit",           "limited limit=search for 7s"),
        ("400\nX-Why: per-app\nRetry-After: 9", "limited limit=search for 9s"),
        ("500\nX-Why: per-app",                 "passed"),
        ("400\nX-Why: other",                   "passed"),
        ("200 try again",                       "limited unnamed for ? by others"),
        ("201 try again",                       "passed"),
        ("200\nX-Spent: yes\nRetry-After: 70",  "exhausted unnamed for 70s"),
    ];
    for (answer, expected) in table {
        check(&reader, answer, expected);
    }
    assert_eq!(reader.code_in(200, "please TRY AGAIN later"), Some("Try again"));
    assert_eq!(reader.code_in(500, "please try again later"), None);
    assert!(reader.knows_code(200, "rateLimited") && reader.knows_code(500, "429") && !reader.knows_code(200, "tea"));
    let github = Reader::of(Dialect::Github);
    let body = r#"{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}"#;
    assert_eq!(github.code_in(403, body), Some("secondary_rate_limit"));
}

#[test]
fn odd_headers_of_the_configuration() {
    let named = |name: &str| Some(name.to_owned());
    let reader = Reader::default().with_headers(OddHeaders {
        limit: named("x-quota"),
        remaining: named("x-quota-left"),
        used: None,
        reset: named("x-quota-again"),
        reset_unit: Some(RetryAfterUnit::Milliseconds),
        retry_after: named("x-quota-wait"),
    });
    #[rustfmt::skip]
    let table = [
        ("200\nX-Quota: 60\nX-Quota-Left: 9\nX-Quota-Again: 1500", "passed\nunnamed 9/60 reset 1.5s"),
        ("429\nX-Quota-Left: 0\nX-Quota-Again: 1500",              "limited unnamed for 1.5s\nunnamed 0/? reset 1.5s"),
        ("429\nX-Quota-Wait: 2",                                   "limited unnamed for 2s"),
        ("200\nX-Quota-Left: lots",                                "passed\nunreadable x-quota-left"),
    ];
    for (answer, expected) in table {
        check(&reader, answer, expected);
    }
}
