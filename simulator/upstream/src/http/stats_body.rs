//! [`Stats`] as JSON. Amounts are floats for people and charts; [`Stats`] has the exact ones.

use crate::{PolicyStats, Stats, Tally};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn stats_body(stats: &Stats) -> Value {
    let Tally { ok, rate_limited, bad } = stats.total;
    json!({
        "sent": stats.total.sent(), "ok": ok, "rate_limited": rate_limited, "bad": bad,
        "uptime_ms": stats.uptime.as_millis(),
        "policies": stats.policies.iter().map(policy).collect::<Vec<_>>(),
    })
}

fn policy(stats: &PolicyStats) -> Value {
    let policy = &stats.policy;
    json!({
        "unit": policy.unit().as_str(),
        "capacity": policy.capacity().to_f64(),
        "period_ms": ceil_ms(policy.period()),
        "spent": stats.spent.to_f64(),
        "level": stats.level.to_f64(),
    })
}

/// Whole milliseconds, rounded up, so that only a policy that never refills has a period of zero.
fn ceil_ms(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000_000)
}
