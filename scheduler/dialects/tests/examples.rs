//! Real answers of upstreams, dialect by dialect.

mod common;

use common::{check, check_plainly};
use rampmeter_dialects::{Dialect, Reader, RetryAfterUnit};

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
        ("429\nX-RateLimit-Remaining: 0",                           "limited unnamed for ?"),
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
        ("503\nRetry-After: 1000",                                  "passed"),
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
        ("500\nRetry-After: 5",                                     "passed"),
        ("403\nRetry-After: 5",                                     "passed"),
        ("402 quota spent",                                         "exhausted unnamed for ?"),
        // This dialect knows no codes.
        ("403 ACCESS_INSUFFICIENT_PROCESSING_UNITS",                "passed"),
        ("200\nX-RateLimit-Remaining: 5",                           "passed"),
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
        ("Retry-After: -5",                     "limited unnamed for ?\nunreadable retry-after"),
        ("Retry-After: 5, 10",                  "limited unnamed for ?\nunreadable retry-after"),
        ("Retry-After: 5s",                     "limited unnamed for ?\nunreadable retry-after"),
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
    check(seconds, "429\nRetry-After: 2", "limited unnamed for 2s");
    let millis = Reader::of(Dialect::Openai).counting_in(Some(RetryAfterUnit::Milliseconds));
    check(millis, "429\nRetry-After: 2", "limited unnamed for 2ms");
    check(millis, "429\nRetry-After: Wed, 21 Oct 2026 07:28:01 GMT", "limited unnamed for 1s");
}

#[test]
fn ietf() {
    #[rustfmt::skip]
    let table = [
        (r#"200
            RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
            RateLimit: "burst";r=50;t=30"#,
         "passed\nlimit=burst 50/100 reset 30s"),
        (r#"200
            RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
            RateLimit: "burst";r=50;t=30, "daily";r=999"#,
         "passed\nlimit=burst 50/100 reset 30s\nlimit=daily 999/1000 reset ?"),
        (r#"429
            RateLimit-Policy: "burst";q=100;w=60
            RateLimit: "burst";r=0;t=12"#,
         "limited limit=burst for 12s\nlimit=burst 0/100 reset 12s"),
        (r#"429
            Retry-After: 20
            RateLimit: "burst";r=0;t=12"#,
         "limited limit=burst for 20s\nlimit=burst 0/? reset 12s"),
        (r#"429
            RateLimit: "burst";r=0;t=12, "daily";r=0;t=3000"#,
         "limited unnamed for 3000s\nlimit=burst 0/? reset 12s\nlimit=daily 0/? reset 3000s"),
        (r#"200
            RateLimit-Policy: peak;q=65535;w=10;qu="content-bytes";pk=:dGVuYW50:
            RateLimit: peak;r=1024.5;t=5;pk=:dGVuYW50:"#,
         "passed\nunit=content-bytes 1024.5/65535 reset 5s"),
        // A policy has another capacity for each partition.
        (r#"200
            RateLimit-Policy: "tenant";q=30;w=60;pk=:YQ==:, "tenant";q=90;w=60;pk=:Yg==:
            RateLimit: "tenant";r=12;t=5;pk=:Yg==:"#,
         "passed\nlimit=tenant 12/90 reset 5s"),
        (r#"200
            RateLimit-Policy: "tenant";q=30;w=60
            RateLimit: "tenant";r=12;t=5;pk=:Yg==:"#,
         "passed\nlimit=tenant 12/30 reset 5s"),
        // A name that no limit can have.
        (r#"200
            RateLimit: "per user and minute";r=5"#,
         "passed\nunnamed 5/? reset ?"),
        // Parameters that are missing, negative or not numbers are ignored.
        (r#"200
            RateLimit: "a";t=5, "b";r=-1;t=5, "c";r=5;t=-5, "d";r="5", ("e" "f");r=1"#,
         "passed\nlimit=c 5/? reset ?"),
        // Earlier drafts.
        ("200\nRateLimit: limit=100, remaining=50, reset=30",
         "passed\nunnamed 50/100 reset 30s"),
        ("200\nRateLimit-Limit: 100, 100;w=60, 1000;w=3600\nRateLimit-Remaining: 7\nRateLimit-Reset: 30",
         "passed\nunnamed 7/100 reset 30s"),
        ("429\nRateLimit-Limit: 10\nRateLimit-Remaining: 0\nRateLimit-Reset: 4",
         "limited unnamed for 4s\nunnamed 0/10 reset 4s"),
        ("200\nRateLimit: \"a\";r=5\nRateLimit-Remaining: 5",
         "passed\nlimit=a 5/? reset ?"),
        // Garbled.
        (r#"200
            RateLimit: "burst;r=50"#,
         "passed\nunreadable ratelimit"),
        (r#"200
            RateLimit-Policy: 100 per minute
            RateLimit: "burst";r=50"#,
         "passed\nlimit=burst 50/? reset ?\nunreadable ratelimit-policy"),
        ("429\nRateLimit: remaining",
         "limited unnamed for ?"),
        ("503\nRetry-After: 5",
         "limited unnamed for 5s by others"),
        ("503\nRateLimit: \"a\";r=0;t=5",
         "passed\nlimit=a 0/? reset 5s"),
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
         "passed\nunreadable x-ratelimit-remaining\nunreadable x-ratelimit-limit\nunreadable x-ratelimit-reset-after"),
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
            x-ratelimit-reset-requests: 1 minute",
         "passed\nunreadable x-ratelimit-reset-requests\nunreadable x-ratelimit-remaining-tokens"),
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
         "passed"),
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
         "limited limit=unified-5h for 600s\nlimit=unified-5h 0/? reset 600s"),
        ("429
            anthropic-ratelimit-unified-7d-utilization: 1.02
            anthropic-ratelimit-unified-7d-reset: soon",
         "limited limit=unified-7d for ?\nlimit=unified-7d 0/? reset ?\nunreadable anthropic-ratelimit-unified-7d-reset"),
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
