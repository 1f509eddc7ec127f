//! How a resource is doing.

use crate::name::Name;
use serde::{Deserialize, Serialize};

/// The answer on `rampmeter.status.<resource>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The resource.
    pub resource: Name,
    /// Grows with every change of leader.
    pub epoch: u64,
    /// The scheduler process that owns the resource.
    pub leader: String,
    /// Its limits, as configured.
    pub limits: Vec<LimitStatus>,
    /// Its classes, the most urgent first.
    pub classes: Vec<ClassStatus>,
    /// What happened since the process began.
    pub counters: Counters,
    /// The limit that delays the next request, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Name>,
    /// Who is asked for the limits, if somebody is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderStatus>,
    /// The rules that were applied while schedulers run, if there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesStatus>,
    /// How far estimates of costs have turned out to be off, where that is learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Correction>,
}

/// Which rules count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesStatus {
    /// The edition; 0 if none was ever valid.
    pub revision: u64,
    /// Whether it has limits for this resource; the configuration's count where it has none.
    pub counts: bool,
    /// Who has applied these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// A later edition that can't be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedRules>,
}

/// An edition that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRules {
    /// Which one.
    pub revision: u64,
    /// Line, column, and what is wrong there.
    pub reason: String,
}

/// How far estimates of one kind of calls are off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// The values of the labels that tell kinds apart, `|` between them.
    pub kind: String,
    /// What the estimate counts.
    pub unit: Name,
    /// What estimates are multiplied with.
    pub factor: f64,
    /// Calls that it was learned from.
    pub calls: u64,
}

/// How whoever knows the limits is doing. Whatever it is, the limits of [`Status::limits`] are the ones that count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProviderStatus {
    /// Which kind it is.
    pub kind: String,
    /// Whether it answers.
    pub state: ProviderState,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long ago this leader was last told the limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_age_ms: Option<f64>,
    /// Where what it says is not what counts, and what of it can't be kept to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Whether a provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderState {
    /// This leader has had no answer yet, and no failure.
    Unknown,
    /// Everything that was last asked was answered.
    Ok,
    /// Something was not.
    Failing,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// Its name.
    pub name: Name,
    /// What it counts.
    pub unit: Name,
    /// How it counts.
    pub algorithm: String,
    /// What a full bucket of the upstream holds.
    pub capacity: f64,
    /// In which time an empty bucket fills.
    pub period_ms: f64,
    /// Stock that is held back against jitter.
    pub margin: f64,
    /// What could be spent now, negative when promises reach into the future.
    pub level: f64,
    /// When the level will be above zero again.
    pub next_free_ms: f64,
    /// Live buckets.
    pub keys: u64,
    /// How long the limit is still frozen.
    pub frozen_ms: f64,
    /// How the upstream turns out to keep the limit, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Learned>,
    /// What was measured, where the limit is in shadow mode and holds nobody up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
}

/// Whom a limit in shadow mode would have held up, since this leader began or the limit did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShadowStatus {
    /// Calls that it is for.
    pub calls: u64,
    /// Calls that would have started later.
    pub would_wait: u64,
    /// Calls that would have been refused: they cost more than the limit holds, or could not have waited for so long.
    pub would_refuse: u64,
    /// The longest that one would have waited.
    pub longest_wait_ms: f64,
}

/// How an upstream keeps a limit, as far as that differs from what is configured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// The rate in use, as a part of the configured one.
    pub rate: f64,
    /// Tokens that are held back of a full bucket, beside the margin.
    pub held_back: f64,
}

/// One class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: Name,
    /// Requests that wait.
    pub queued: u64,
    /// How long the oldest of them has waited.
    pub oldest_ms: f64,
}

/// Totals since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Permits granted.
    pub granted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Permits settled.
    pub settled: u64,
    /// Calls that the upstream answered with 429.
    pub upstream_429: u64,
    /// Permits given back and waiting requests cancelled.
    pub returned: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_like_this() {
        let golden = r#"{"resource":"hub","epoch":3,"leader":"scheduler-1","limits":[],"classes":[],"counters":{"granted":1,"refused":2,"settled":3,"upstream_429":4,"returned":5},"limited_by":"few","provider":{"kind":"sentinel-hub","state":"failing","reason":"contract: answered 429, asked too often","contract_age_ms":1500.5,"notes":["a note"]},"corrections":[{"kind":"/a|PUT","unit":"units","factor":0.5,"calls":7}]}"#;
        let status: Status = serde_json::from_str(golden).unwrap();
        assert_eq!(serde_json::to_string(&status).unwrap(), golden);
        let without = golden.split_once(r#","limited_by"#).unwrap().0.to_owned() + "}";
        let status: Status = serde_json::from_str(&without).unwrap();
        assert_eq!((&status.limited_by, &status.provider), (&None, &None));
        assert_eq!(serde_json::to_string(&status).unwrap(), without);
        for (state, text) in [(ProviderState::Unknown, "\"unknown\""), (ProviderState::Ok, "\"ok\"")] {
            assert_eq!(serde_json::to_string(&state).unwrap(), text);
        }
    }
}
