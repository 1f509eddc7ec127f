//! The dialects, as data.

use crate::shopify;
use crate::table::{
    Bucket, BucketScope, Fields, Figures, Means, Objection, Quotas, Refill, Remark, Share, Spent, Syntax, Table, Tells,
    When,
};
use crate::unit::RetryAfterUnit;
use rampmeter_protocol::amount::Amount;

const THOUSAND: Amount = Amount::whole(1000);

const TOO_MANY_REQUESTS: Objection = Objection { status: 429, when: When::Always, means: Means::Limited };
const UNAVAILABLE_FOR_NOW: Objection = Objection { status: 503, when: When::HasRetryAfter, means: Means::Overloaded };

const BUSY: Objection = Objection { status: 503, when: When::NamesNoTime, means: Means::Busy };

pub(crate) static PLAIN: Table = Table {
    retry_after: RetryAfterUnit::Seconds,
    spent_codes: &[],
    objections: &[TOO_MANY_REQUESTS, UNAVAILABLE_FOR_NOW, BUSY],
    remarks: &[],
    buckets: &[],
    figures: &[],
    shares: &[],
    fields: None,
    spent: &[],
    quotas: Quotas::Unknown,
};

pub(crate) static SENTINEL_HUB: Table = Table {
    retry_after: RetryAfterUnit::Milliseconds,
    spent_codes: &["ACCESS_INSUFFICIENT_PROCESSING_UNITS"],
    objections: &[
        TOO_MANY_REQUESTS,
        Objection { status: 403, when: When::HasRetryAfter, means: Means::Exhausted },
        BUSY,
    ],
    remarks: &[],
    buckets: &[],
    figures: &[],
    shares: &[],
    fields: None,
    spent: &[Spent { header: "x-processingunits-spent", unit: "processing-units" }],
    quotas: Quotas::Monthly,
};

pub(crate) static IETF: Table = Table {
    retry_after: RetryAfterUnit::Seconds,
    spent_codes: &[],
    objections: &[TOO_MANY_REQUESTS, UNAVAILABLE_FOR_NOW, BUSY],
    remarks: &[],
    buckets: &[Bucket {
        of: BucketScope::Unnamed,
        remaining: "ratelimit-remaining",
        rounded_to: Amount::ONE,
        capacity: "ratelimit-limit",
        used: None,
        reset: &[("ratelimit-reset", Syntax::Seconds)],
        refill: Refill::AtOnce,
    }],
    figures: &[],
    shares: &[],
    fields: Some(Fields { state: "ratelimit", policy: "ratelimit-policy" }),
    spent: &[],
    quotas: Quotas::Unknown,
};

pub(crate) static DISCORD: Table = Table {
    retry_after: RetryAfterUnit::Seconds,
    spent_codes: &[],
    objections: &[TOO_MANY_REQUESTS, BUSY],
    remarks: &[
        Remark { header: "x-ratelimit-global", value: "true", tells: Tells::Global },
        Remark { header: "x-ratelimit-scope", value: "global", tells: Tells::Global },
        Remark { header: "x-ratelimit-scope", value: "shared", tells: Tells::SharedLimit },
    ],
    buckets: &[Bucket {
        of: BucketScope::Limit("x-ratelimit-bucket"),
        remaining: "x-ratelimit-remaining",
        rounded_to: Amount::ONE,
        capacity: "x-ratelimit-limit",
        used: None,
        reset: &[("x-ratelimit-reset-after", Syntax::Seconds), ("x-ratelimit-reset", Syntax::Epoch)],
        refill: Refill::AtOnce,
    }],
    figures: &[],
    shares: &[],
    fields: None,
    spent: &[],
    quotas: Quotas::Unknown,
};

pub(crate) static OPENAI: Table = Table {
    retry_after: RetryAfterUnit::Seconds,
    spent_codes: &[],
    objections: &[TOO_MANY_REQUESTS, BUSY],
    remarks: &[],
    buckets: &[
        Bucket {
            of: BucketScope::Unit("requests"),
            remaining: "x-ratelimit-remaining-requests",
            rounded_to: Amount::ONE,
            capacity: "x-ratelimit-limit-requests",
            used: None,
            reset: &[("x-ratelimit-reset-requests", Syntax::Duration)],
            refill: Refill::Gradually,
        },
        Bucket {
            of: BucketScope::Unit("tokens"),
            remaining: "x-ratelimit-remaining-tokens",
            rounded_to: Amount::ONE,
            capacity: "x-ratelimit-limit-tokens",
            used: None,
            reset: &[("x-ratelimit-reset-tokens", Syntax::Duration)],
            refill: Refill::Gradually,
        },
    ],
    figures: &[],
    shares: &[],
    fields: None,
    spent: &[],
    quotas: Quotas::Unknown,
};

pub(crate) static ANTHROPIC: Table = Table {
    retry_after: RetryAfterUnit::Seconds,
    spent_codes: &[],
    objections: &[TOO_MANY_REQUESTS, BUSY],
    remarks: &[],
    buckets: &[
        Bucket {
            of: BucketScope::Unit("requests"),
            remaining: "anthropic-ratelimit-requests-remaining",
            rounded_to: Amount::ONE,
            capacity: "anthropic-ratelimit-requests-limit",
            used: None,
            reset: &[("anthropic-ratelimit-requests-reset", Syntax::Rfc3339)],
            refill: Refill::Gradually,
        },
        Bucket {
            of: BucketScope::Unit("tokens"),
            remaining: "anthropic-ratelimit-tokens-remaining",
            rounded_to: THOUSAND,
            capacity: "anthropic-ratelimit-tokens-limit",
            used: None,
            reset: &[("anthropic-ratelimit-tokens-reset", Syntax::Rfc3339)],
            refill: Refill::Gradually,
        },
        Bucket {
            of: BucketScope::Unit("input-tokens"),
            remaining: "anthropic-ratelimit-input-tokens-remaining",
            rounded_to: THOUSAND,
            capacity: "anthropic-ratelimit-input-tokens-limit",
            used: None,
            reset: &[("anthropic-ratelimit-input-tokens-reset", Syntax::Rfc3339)],
            refill: Refill::Gradually,
        },
        Bucket {
            of: BucketScope::Unit("output-tokens"),
            remaining: "anthropic-ratelimit-output-tokens-remaining",
            rounded_to: THOUSAND,
            capacity: "anthropic-ratelimit-output-tokens-limit",
            used: None,
            reset: &[("anthropic-ratelimit-output-tokens-reset", Syntax::Rfc3339)],
            refill: Refill::Gradually,
        },
    ],
    figures: &[],
    shares: &[
        Share {
            limit: "unified-5h",
            used: "anthropic-ratelimit-unified-5h-utilization",
            reset: ("anthropic-ratelimit-unified-5h-reset", Syntax::Epoch),
        },
        Share {
            limit: "unified-7d",
            used: "anthropic-ratelimit-unified-7d-utilization",
            reset: ("anthropic-ratelimit-unified-7d-reset", Syntax::Epoch),
        },
    ],
    fields: None,
    spent: &[],
    quotas: Quotas::Unknown,
};

pub(crate) static GITHUB: Table = Table {
    retry_after: RetryAfterUnit::Seconds,
    spent_codes: &[],
    objections: &[
        TOO_MANY_REQUESTS,
        Objection { status: 403, when: When::HasRetryAfterOrEmptyBucket, means: Means::Limited },
        BUSY,
    ],
    remarks: &[],
    buckets: &[Bucket {
        of: BucketScope::Limit("x-ratelimit-resource"),
        remaining: "x-ratelimit-remaining",
        rounded_to: Amount::ONE,
        capacity: "x-ratelimit-limit",
        used: Some("x-ratelimit-used"),
        reset: &[("x-ratelimit-reset", Syntax::Epoch)],
        refill: Refill::AtOnce,
    }],
    figures: &[],
    shares: &[],
    fields: None,
    spent: &[],
    quotas: Quotas::Unknown,
};

pub(crate) static SHOPIFY: Table = Table {
    retry_after: RetryAfterUnit::Seconds,
    objections: &[TOO_MANY_REQUESTS, BUSY],
    remarks: &[],
    buckets: &[],
    figures: &[
        Figures {
            unit: "points",
            header: "throttle-status",
            read: shopify::throttle_status,
            refill: Refill::Gradually,
        },
        Figures {
            unit: "requests",
            header: "x-shopify-shop-api-call-limit",
            read: shopify::call_limit,
            refill: Refill::Gradually,
        },
    ],
    shares: &[],
    fields: None,
    spent_codes: &[],
    spent: &[],
    quotas: Quotas::Unknown,
};
