//! Wrong rules are refused with place and reason, whichever way they come, and change nothing else.

use crate::prelude::*;
use rampmeter_tests::rules::{apply, put_by_hand};

/// A configuration whose limits do not count as soon as there are rules.
const CONFIGURATION: &str = r#"
[[resource]]
name = "hub"
start = "full"
[[resource.limit]]
name = "none"
capacity = 1
period = "400h"

[[resource]]
name = "other"
[[resource.limit]]
name = "none"
capacity = 1
period = "400h"
"#;

/// Valid rules; their lines count from 1.
const VALID: &str = r#"[[resource]]
name = "hub"

[[resource.limit]]
name = "few"
unit = "requests"
algorithm = "token-bucket"
capacity = 1000
period = "400h"
margin = 1
learn = true
floor = 0.2

[[resource.limit]]
name = "each"
capacity = 500
refill_interval = "2h"
key = ["client"]
match = { route = "/a*", method = ["PUT", "PATCH"] }
group = "clients"

[[resource.limit]]
name = "leaky"
algorithm = "leaky-bucket"
capacity = 350
drain_velocity = 0.1
shadow = true

[[resource]]
name = "other"

[[resource.limit]]
name = "rest"
capacity = 7
period = "PT1M"
"#;

/// The original text, its replacement, and the line, column and reason in the refusal. The values of
/// a limit are refused as in a configuration, whose tests have the other reasons.
#[rustfmt::skip]
const WRONG: &[(&str, &str, &str)] = &[
    // instead of, this, line:column: reason
    ("name = \"hub\"", "name = \"\"", "2:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"hub\"", "name = \"other\"", "30:8: there are two resources `other`"),
    ("name = \"hub\"", "nam = \"hub\"", "2:1: unknown field `nam`; did you mean `name`?"),
    ("name = \"hub\"", "name = \"hub\"\nname = \"hub\"", "3:1: duplicate key"),
    ("name = \"few\"", "name = \"each\"", "15:8: there are two limits `each`"),
    ("name = \"few\"", "name = \"few\"\nNAME = \"few\"", "6:1: unknown field `NAME`, expected one of `name`, `unit`"),
    ("capacity = 1000", "capacity = 1000\nlimit = 1000", "4:1: duplicate field `capacity`"),
    ("drain_velocity = 0.1", "drain_velocity = 0", "26:18: a `drain_velocity` is above 0, in units per second"),
    ("algorithm = \"leaky-bucket\"\n", "", "25:18: `drain_velocity` is for `algorithm = \"leaky-bucket\"`, in place of a `period` or a `refill_interval`"),
    ("[[resource]]\nname = \"hub\"\n", "[nats]\nurl = \"nats://localhost\"\n[[resource]]\nname = \"hub\"\n", "1:2: unknown field `nats`, expected `resource`"),
    ("[[resource]]\nname = \"hub\"\n", "[[resource]\n[[resource]]\nname = \"hub\"\n", "1:12: unclosed array table, expected `]`"),
    ("[[resource.limit]]\nname = \"rest\"\n", "[resource.limit]\nname = \"rest\"\n", "32:1: invalid type: map, expected a list"),
    ("period = \"PT1M\"\n", "period = \"PT1M\"\n[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"a\"\ncapacity = 1\nperiod = \"1s\"\n", "37:8: there are two resources `hub`"),
    ("period = \"PT1M\"\n", "period = \"PT1M\"\n[resource.applied]\nby = \"me\"\n", "36:1: missing field `at`"),
    ("period = \"PT1M\"\n", "period = \"PT1M\n", "35:15: invalid basic string, expected `\"`"),
];

/// More editions than the store keeps.
const EDITIONS: usize = 65;

/// All that the status says of the limits except their levels.
fn limits(status: &Status) -> Vec<(String, String, f64, f64, f64, bool)> {
    let limit = |limit: &LimitStatus| {
        let (name, algorithm) = (limit.name.to_string(), limit.algorithm.clone());
        (name, algorithm, limit.capacity, limit.period_ms, limit.margin, limit.shadow.is_some())
    };
    status.limits.iter().map(limit).collect()
}

fn wrong_texts() -> impl Iterator<Item = (String, &'static str)> + Clone {
    WRONG.iter().map(|(instead, this, expected)| {
        let text = VALID.replacen(instead, this, 1);
        assert_ne!(text, VALID, "{instead:?} is in the valid rules");
        (text, *expected)
    })
}

#[tokio::test]
async fn wrong_rules_are_refused_with_place_and_reason_and_change_no_grant() {
    let (nats, running, worker) = Worker::beside_scheduler(CONFIGURATION).await;
    let (code, said) = apply(RAMPMETER, &nats, VALID, &[]).await;
    assert_eq!(code, Some(0), "{said}");
    let before = worker.status().await;
    assert_eq!(limits(&before).len(), 3, "{before:?}");

    for (number, (text, expected)) in wrong_texts().cycle().take(EDITIONS).enumerate() {
        // A file that a person applies.
        let (code, said) = apply(RAMPMETER, &nats, &text, &[]).await;
        assert_eq!(code, Some(1), "{text}\n{said}");
        assert!(said.starts_with(&format!("rampmeter: rules.toml:{expected}")), "not {expected}:\n{said}\n{text}");

        // The same, written without any check.
        let revision = put_by_hand(&nats, &text).await;
        let (status, reason) = until("it is refused", async || {
            let status = worker.status().await;
            let rules = status.rules.as_ref().unwrap();
            assert_eq!(rules.revision, 1, "it counts:\n{text}");
            let refused = rules.refused.clone().filter(|refused| refused.revision == revision)?;
            Some((status, refused.reason))
        })
        .await;
        assert!(reason.starts_with(&format!("rules:{expected}")), "not {expected}: {reason}\n{text}");
        assert_eq!(limits(&status), limits(&before), "{text}");

        // Each permit is granted as before.
        let granted = worker.ask(json!({"mode": "allow"})).await;
        assert_eq!((&granted["status"], &granted["delay_ms"]), (&json!("granted"), &json!(0.0)), "{text}");
        let (level, spent) = (worker.limit("few").await.level, number as f64 + 1.0);
        assert!((999.0 - spent..1000.0 - spent).contains(&level), "{level} behind {spent}\n{text}");
    }
    let (_, metrics) = scheduler::page(&running, "/metrics").await;
    let refused = format!("rampmeter_rules_refused_total {EDITIONS}");
    assert!(metrics.lines().any(|line| line == refused), "{refused}\n{metrics}");
    let (ready, page) = scheduler::readiness(&running).await;
    let rules = &page["rules"];
    assert!(ready == 200 && rules["refused"]["reason"].is_string() && rules["revision"] == 1, "{page}");

    // More editions than the store keeps have come since the last good one. A new scheduler finds
    // the last good one nevertheless.
    scheduler::stop(running).await;
    let running = scheduler::start(&nats, CONFIGURATION).await;
    let status = worker.status_of_leader().await;
    assert_eq!(limits(&status), limits(&before));
    assert_eq!(status.counters.granted, 0, "a new scheduler answers");
    scheduler::stop(running).await;
}
