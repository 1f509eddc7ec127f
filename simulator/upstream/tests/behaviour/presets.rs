//! The presets that ship, against the documentation of their upstreams.

use rampmeter_upstream::{Api, Arrival, Preset, Reply};
use std::time::Duration;

/// 2026-10-21T07:28:00Z
const SINCE_1970: Duration = Duration::from_secs(1_792_567_680);

/// An upstream and the time.
struct Stage {
    api: Api,
    now: Duration,
}

impl Stage {
    fn new(preset: &str) -> Self {
        Self { api: Api::new(Preset::named(preset).unwrap()).with_origin(SINCE_1970), now: Duration::ZERO }
    }

    fn at(&mut self, seconds: f64) -> &mut Self {
        self.now = Duration::from_secs_f64(seconds);
        self
    }

    /// Calls with these costs and labels, such as `points=5 method=POST`; a cost is a number.
    fn call(&mut self, text: &str) -> Reply {
        let items: Vec<(&str, &str)> = text.split_whitespace().filter_map(|item| item.split_once('=')).collect();
        let is_cost = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit());
        let costs: Vec<String> =
            items.iter().filter(|(_, value)| is_cost(value)).map(|(unit, amount)| format!("{unit}={amount}")).collect();
        let cost = crate::script::cost(&costs.join(" "));
        let label = |name: &str| items.iter().find(|(label, _)| *label == name).map(|(_, value)| (*value).to_owned());
        self.api.answer(self.now, &Arrival { cost: &cost, label: &label })
    }

    /// The status of `number` calls, which end at once. All must have the same status.
    fn calls(&mut self, number: usize, text: &str) -> u16 {
        let statuses: Vec<u16> = (0..number).map(|_| self.served(text)).collect();
        assert!(statuses.iter().all(|status| *status == statuses[0]), "{text}: {statuses:?}");
        statuses[0]
    }

    fn served(&mut self, text: &str) -> u16 {
        let reply = self.call(text);
        if reply.rejection.is_none() {
            self.api.finish();
        }
        reply.status
    }
}

/// Compares these headers of an answer: `name: value`, or `name` alone for a header that is absent.
fn check(reply: &Reply, status: u16, headers: &[&str]) {
    assert_eq!(reply.status, status, "{reply:?}");
    for header in headers {
        let (name, value) = header.split_once(": ").map_or((*header, None), |(name, value)| (name, Some(value)));
        assert_eq!(reply.header(name), value, "{name} in {reply:?}");
    }
}

#[test]
fn github_counts_an_hour_from_the_first_use() {
    let stage = &mut Stage::new("github");
    check(
        &stage.at(100.5).call("method=GET"),
        200,
        &[
            "x-ratelimit-limit: 5000",
            "x-ratelimit-remaining: 4999",
            "x-ratelimit-used: 1",
            "x-ratelimit-reset: 1792571381",
            "x-ratelimit-resource: core",
            "retry-after",
        ],
    );
    for minute in 2..8 {
        let calls = if minute < 7 { 900 } else { 499 };
        assert_eq!(stage.at(f64::from(minute) * 60.0 + 50.0).calls(calls, "method=GET"), 200, "minute {minute}");
    }
    // The primary limit states no wait but the reset.
    let refusal = stage.at(3_600.0).call("method=GET");
    check(
        &refusal,
        403,
        &["x-ratelimit-remaining: 0", "x-ratelimit-used: 5000", "x-ratelimit-reset: 1792571381", "retry-after"],
    );
    assert_eq!(stage.at(3_700.4).served("method=GET"), 403);
    check(&stage.at(3_700.5).call("method=GET"), 200, &["x-ratelimit-remaining: 4999"]);
}

#[test]
fn github_has_secondary_limits_that_no_header_tells_of() {
    let stage = &mut Stage::new("github");
    assert_eq!(stage.calls(100, "method=GET"), 200);
    // The method alone decides the cost, whatever a call states.
    assert_eq!(stage.calls(160, "method=PATCH points=0"), 200);
    let refusal = stage.call("method=GET");
    check(&refusal, 403, &["retry-after: 60", "x-ratelimit-remaining: 4740"]);
    assert_eq!(stage.at(59.9).served("method=GET"), 403);
    assert_eq!(stage.at(60.0).served("method=GET"), 200);

    let stage = &mut Stage::new("github");
    let in_flight = (0..100).filter(|_| stage.call("method=GET").status == 200).count();
    assert_eq!(in_flight, 100);
    check(&stage.call("method=GET"), 403, &["retry-after: 60", "x-ratelimit-remaining: 4900"]);
    stage.api.finish();
    assert_eq!(stage.call("method=GET").status, 200);
}

#[test]
fn github_counts_search_and_graphql_apart() {
    let stage = &mut Stage::new("github");
    assert_eq!(stage.calls(10, "method=GET api=code_search"), 200);
    check(
        &stage.call("method=GET api=code_search"),
        403,
        &["x-ratelimit-resource: code_search", "x-ratelimit-remaining: 0", "retry-after"],
    );
    check(&stage.call("method=GET api=search"), 200, &["x-ratelimit-limit: 30", "x-ratelimit-resource: search"]);
    check(&stage.call("method=GET api=graphql"), 200, &["x-ratelimit-resource: graphql"]);
    check(&stage.call("method=GET"), 200, &["x-ratelimit-resource: core", "x-ratelimit-remaining: 4999"]);
    assert_eq!(stage.calls(80, "method=POST creates=content"), 200);
    check(&stage.call("method=POST creates=content"), 403, &["retry-after: 60"]);
}

#[test]
fn a_file_names_headers_about_the_limit_with_the_least_left() {
    const FILE: &str = "dialect = \"plain\"\nheaders = { x-left = \"<remaining> of <limit>\" }\n\
        [[limit]]\nlimit = \"requests=9/1m\"\n[[limit]]\nlimit = \"requests=5/1m\"\n";
    let mut stage = Stage { api: Api::new(FILE.parse().unwrap()), now: Duration::ZERO };
    check(&stage.call(""), 200, &["x-left: 4 of 5"]);
}

#[test]
fn discord_has_a_bucket_for_each_hash_and_major_parameter() {
    let stage = &mut Stage::new("discord");
    check(
        &stage.at(7.25).call("route=messages channel=a"),
        200,
        &[
            "x-ratelimit-limit: 5",
            "x-ratelimit-remaining: 4",
            "x-ratelimit-reset: 1792567692.250",
            "x-ratelimit-reset-after: 5.000",
            "x-ratelimit-bucket: abcd1234",
            "x-ratelimit-scope",
        ],
    );
    // Another route shares the bucket, another channel does not.
    check(
        &stage.at(8.0).call("route=reactions channel=a"),
        200,
        &["x-ratelimit-remaining: 3", "x-ratelimit-reset-after: 4.250"],
    );
    check(&stage.call("route=messages channel=b"), 200, &["x-ratelimit-remaining: 4"]);
    check(&stage.call("route=roles guild=a"), 200, &["x-ratelimit-remaining: 9", "x-ratelimit-bucket: bcde2345"]);
    assert_eq!(stage.calls(3, "route=messages channel=a"), 200);
    check(
        &stage.call("route=messages channel=a"),
        429,
        &["retry-after: 5", "x-ratelimit-scope: user", "x-ratelimit-global", "x-ratelimit-reset-after: 4.250"],
    );
    assert_eq!(stage.at(12.25).served("route=messages channel=a"), 200);
}

#[test]
fn discord_closes_to_all_after_too_many_invalid_calls() {
    let stage = &mut Stage::new("discord");
    // A rejection by a shared limit counts as no invalid call.
    assert_eq!(stage.calls(5, "route=shared channel=a"), 200);
    assert_eq!(stage.calls(12_000, "route=shared channel=a"), 429);
    assert_eq!(stage.calls(5, "route=messages channel=a"), 200);
    assert_eq!(stage.calls(10_000, "route=messages channel=a"), 429);
    check(&stage.call("route=roles guild=a"), 403, &["retry-after", "x-ratelimit-limit"]);
    assert_eq!(stage.at(599.9).served("route=roles guild=a"), 403);
    assert_eq!(stage.at(600.0).served("route=roles guild=a"), 200);
}

#[test]
fn openai_charges_input_and_the_most_that_it_may_answer() {
    let stage = &mut Stage::new("openai");
    check(
        &stage.call("model=large input-tokens=1000 max-tokens=500"),
        200,
        &[
            "x-ratelimit-limit-requests: 500",
            "x-ratelimit-remaining-requests: 499",
            "x-ratelimit-reset-requests: 120ms",
            "x-ratelimit-limit-tokens: 30000",
            "x-ratelimit-remaining-tokens: 28500",
            "x-ratelimit-reset-tokens: 3s",
        ],
    );
    check(
        &stage.call("model=small tokens=30000"),
        200,
        &["x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 1m0s"],
    );
    let refusal = stage.call("model=small tokens=1000");
    check(&refusal, 429, &["retry-after: 2", "x-ratelimit-remaining-tokens: 0", "x-ratelimit-remaining-requests: 499"]);
    // Of ten answers, one tells nothing.
    let told = (3..23).filter(|_| stage.call("model=large").header("x-ratelimit-limit-tokens").is_some()).count();
    assert_eq!(told, 18);
}

#[test]
fn anthropic_counts_requests_input_and_output_apart() {
    let stage = &mut Stage::new("anthropic");
    check(
        &stage.call("input-tokens=600 output-tokens=400"),
        200,
        &[
            "anthropic-ratelimit-requests-limit: 50",
            "anthropic-ratelimit-requests-remaining: 49",
            "anthropic-ratelimit-requests-reset: 2026-10-21T07:28:02Z",
            // 29 400 and 7 600 are left.
            "anthropic-ratelimit-input-tokens-remaining: 29000",
            "anthropic-ratelimit-output-tokens-remaining: 8000",
            "anthropic-ratelimit-output-tokens-reset: 2026-10-21T07:28:03Z",
            "anthropic-ratelimit-unified-5h-utilization: 0",
            "anthropic-ratelimit-unified-5h-reset: 1792585680",
            "anthropic-ratelimit-unified-7d-reset: 1792627200",
            "anthropic-ratelimit-unified-status: allowed",
        ],
    );
    let refusal = stage.call("input-tokens=1 output-tokens=8000");
    check(&refusal, 429, &["retry-after: 3", "anthropic-ratelimit-requests-remaining: 49"]);
}

#[test]
fn the_ietf_lists_all_policies_and_the_partition() {
    let stage = &mut Stage::new("ietf");
    let policies = r#""burst";q=100;w=60;qu="requests", "daily";q=100000;w=86400;qu="requests", "tenant";q=30;w=60;qu="requests";pk=:YQ==:"#;
    let state = r#""burst";r=99;t=50, "daily";r=99999;t=59510, "tenant";r=29;t=50;pk=:YQ==:"#;
    check(
        &stage.at(10.0).call("tenant=a"),
        200,
        &[&format!("ratelimit-policy: {policies}"), &format!("ratelimit: {state}")],
    );
    assert_eq!(stage.calls(29, "tenant=a"), 200);
    let refusal = stage.call("tenant=a");
    let state = r#"ratelimit: "burst";r=70;t=50, "daily";r=99970;t=59510, "tenant";r=0;t=50;pk=:YQ==:"#;
    check(&refusal, 429, &["retry-after: 50", state]);
    assert_eq!(stage.served("tenant=b"), 200);
}

#[test]
fn shopify_tells_the_points_of_its_bucket() {
    let stage = &mut Stage::new("shopify");
    let status = r#"throttle-status: {"maximumAvailable":1000,"currentlyAvailable":954,"restoreRate":50.0}"#;
    check(&stage.call("points=46"), 200, &[status]);
    check(&stage.call("points=955"), 429, &[status, "retry-after"]);
    assert_eq!(stage.at(0.02).served("points=955"), 200);
}
