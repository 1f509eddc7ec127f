//! The forms of each dialect's responses, as templates.

use crate::RetryAfter;

/// A header's name and value, with placeholders such as `<limit>`. A part in brackets is left out
/// if it has a placeholder without a value, and the whole header if such a placeholder is outside
/// of brackets. [`fill`](crate::preset::template::fill) knows all placeholders.
pub(crate) type Template = (&'static str, &'static str);

#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) admitted: &'static [Template],
    pub(crate) refused: &'static [Template],
    /// Groups of headers about one limit each. Of those with equal first names, the one with the least left is shown.
    pub(crate) limits: &'static [Group],
    /// Headers about all limits, with lists as values.
    pub(crate) lists: &'static [Template],
    pub(crate) retry_after: RetryAfter,
    /// Whether the headers are part of the body, and a rejection has status 200.
    pub(crate) in_body: bool,
}

/// Headers about one limit of a family.
#[derive(Debug)]
pub(crate) struct Group {
    /// The family; empty for limits without one.
    pub(crate) family: &'static str,
    pub(crate) headers: &'static [Template],
}

const NOTHING: Form =
    Form { admitted: &[], refused: &[], limits: &[], lists: &[], retry_after: RetryAfter::Seconds, in_body: false };

/// Plain HTTP: `Retry-After` in seconds.
pub(crate) const PLAIN: Form = NOTHING;

/// <https://docs.sentinel-hub.com/api/latest/api/overview/rate-limiting/>
pub(crate) const SENTINEL_HUB: Form = Form {
    admitted: &[("x-processingunits-spent", "<cost:processing-units>")],
    retry_after: RetryAfter::Milliseconds,
    ..NOTHING
};

/// <https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/>, draft -11
pub(crate) const IETF: Form = Form {
    lists: &[
        ("ratelimit-policy", "\"<name>\";q=<limit>[;w=<window>];qu=\"<unit>\"[;pk=:<key>:]"),
        ("ratelimit", "\"<name>\";r=<remaining>[;t=<reset-seconds>][;pk=:<key>:]"),
    ],
    ..NOTHING
};

/// <https://platform.openai.com/docs/guides/rate-limits>, "Rate limits in headers"
pub(crate) const OPENAI: Form = Form {
    limits: &[Group {
        family: "",
        headers: &[
            ("x-ratelimit-limit-<unit>", "<limit>"),
            ("x-ratelimit-remaining-<unit>", "<remaining>"),
            ("x-ratelimit-reset-<unit>", "<reset-clock>"),
        ],
    }],
    ..NOTHING
};

/// <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>, "Checking the
/// status of your rate limit"
pub(crate) const GITHUB: Form = Form {
    limits: &[Group {
        family: "",
        headers: &[
            ("x-ratelimit-limit", "<limit>"),
            ("x-ratelimit-remaining", "<remaining>"),
            ("x-ratelimit-used", "<used>"),
            ("x-ratelimit-reset", "<reset-unix>"),
            ("x-ratelimit-resource", "<name>"),
        ],
    }],
    ..NOTHING
};

/// <https://discord.com/developers/docs/topics/rate-limits>, "Header Format"
pub(crate) const DISCORD: Form = Form {
    refused: &[("x-ratelimit-global", "<global>"), ("x-ratelimit-scope", "<scope>")],
    limits: &[Group {
        family: "",
        headers: &[
            ("x-ratelimit-limit", "<limit>"),
            ("x-ratelimit-remaining", "<remaining>"),
            ("x-ratelimit-reset", "<reset-unix-decimal>"),
            ("x-ratelimit-reset-after", "<reset-decimal>"),
            ("x-ratelimit-bucket", "<name>"),
        ],
    }],
    ..NOTHING
};

/// <https://platform.claude.com/docs/en/api/rate-limits>, "Response headers". No page of Anthropic's
/// describes the family `unified`; <https://github.com/anthropics/claude-code/issues/38335> shows it.
pub(crate) const ANTHROPIC: Form = Form {
    limits: &[
        Group {
            family: "",
            headers: &[
                ("anthropic-ratelimit-<unit>-limit", "<limit>"),
                ("anthropic-ratelimit-<unit>-remaining", "<remaining>"),
                ("anthropic-ratelimit-<unit>-reset", "<reset-rfc3339>"),
            ],
        },
        Group {
            family: "unified",
            headers: &[
                ("anthropic-ratelimit-unified-<name>-utilization", "<utilization>"),
                ("anthropic-ratelimit-unified-<name>-reset", "<reset-unix>"),
                ("anthropic-ratelimit-unified-<name>-status", "<status>"),
            ],
        },
        Group {
            family: "unified",
            headers: &[
                ("anthropic-ratelimit-unified-status", "<status>"),
                ("anthropic-ratelimit-unified-reset", "<reset-unix>"),
            ],
        },
    ],
    ..NOTHING
};

/// <https://shopify.dev/docs/api/usage/rate-limits>, in the body; rejections have status 200.
pub(crate) const SHOPIFY: Form = Form {
    limits: &[Group {
        family: "",
        headers: &[(
            "throttle-status",
            "{\"maximumAvailable\":<limit>,\"currentlyAvailable\":<remaining>,\"restoreRate\":<rate>}",
        )],
    }],
    retry_after: RetryAfter::Missing,
    in_body: true,
    ..NOTHING
};
