//! The statistics on the wire.

use crate::{PolicyStats, Stats, Tally};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// [`Stats`] as JSON. Amounts are floats for people and charts; [`Stats`] has the exact ones.
#[derive(Debug, Serialize)]
pub(crate) struct StatsBody {
    uptime_ms: u128,
    #[serde(flatten)]
    total: TallyBody,
    policies: Vec<PolicyBody>,
    classes: BTreeMap<String, TallyBody>,
}

#[derive(Debug, Serialize)]
struct TallyBody {
    sent: u64,
    ok: u64,
    rate_limited: u64,
    bad: u64,
}

#[derive(Debug, Serialize)]
struct PolicyBody {
    unit: String,
    capacity: f64,
    period_ms: u128,
    spent: f64,
    level: f64,
}

impl From<Stats> for StatsBody {
    fn from(stats: Stats) -> Self {
        Self {
            uptime_ms: stats.uptime.as_millis(),
            total: stats.total.into(),
            policies: stats.policies.iter().map(PolicyBody::from).collect(),
            classes: stats.classes.into_iter().map(|(class, tally)| (class, tally.into())).collect(),
        }
    }
}

impl From<Tally> for TallyBody {
    fn from(tally: Tally) -> Self {
        let Tally { ok, rate_limited, bad } = tally;
        Self { sent: tally.sent(), ok, rate_limited, bad }
    }
}

impl From<&PolicyStats> for PolicyBody {
    fn from(stats: &PolicyStats) -> Self {
        Self {
            unit: stats.policy.unit().to_string(),
            capacity: stats.policy.capacity().to_f64(),
            period_ms: ceil_ms(stats.policy.period()),
            spent: stats.spent.to_f64(),
            level: stats.level.to_f64(),
        }
    }
}

/// Whole milliseconds, rounded up, so that only a policy that never refills shows a period of zero.
fn ceil_ms(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000_000)
}
