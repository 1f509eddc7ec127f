//! The status of a resource.

use crate::epoch::Epoch;
use crate::explained::Explained;
use crate::forecast::LimitForecast;
use crate::name::Name;
use crate::reason::{Holder, PauseCause, Reason};
use crate::recent::Recent;
use crate::shares::Shares;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The answer on `rampmeter.status.<resource>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The resource whose leader answers.
    pub resource: Name,
    /// The epoch of the leader that answers.
    pub epoch: Epoch,
    /// The scheduler process that leads the resource.
    pub leader: String,
    /// Number of other schedulers that could take over, if the leader knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standbys: Option<u64>,
    /// Its limits, with their state.
    pub limits: Vec<LimitStatus>,
    /// Its classes, the most urgent first.
    pub classes: Vec<ClassStatus>,
    /// Totals since this leader began.
    pub counters: Counters,
    /// When this leader began to count, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The limit that delays the most urgent class's first request or, if none waits, one more of the default class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Name>,
    /// Why it delays that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The bucket that delays that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Holder>,
    /// The provider of the limits, if one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderStatus>,
    /// The rules applied at run time, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesStatus>,
    /// Learned corrections of cost estimates, if the resource learns them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Correction>,
    /// Forecasts of when long limits are used up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forecasts: Vec<LimitForecast>,
    /// Running schedulers whose limits or settings for the resource differ from the leader's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differing: Vec<DifferingScheduler>,
    /// The last upstream header that could not be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<UnreadableHeader>,
    /// Remarks on the resource, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The limits in force as TOML (`[[resource.limit]]`), if the [query](StatusQuery) asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits_toml: Option<String>,
    /// The configured or provider's limits that the rules in force replace, if the query asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_toml: Option<String>,
    /// How classes and clients share the resource, if the query asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Recent counts, if the query asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<Recent>,
}

/// A scheduler whose limits or settings differ from the leader's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferingScheduler {
    /// The scheduler process.
    pub scheduler: String,
    /// The limits that differ, or that only one of the two schedulers has.
    pub limits: Vec<Name>,
    /// Other parts of the configuration that differ: `classes`, `other settings`.
    pub settings: Vec<String>,
}

/// Formats the differences, as in ``limit `per-minute`, classes``.
impl fmt::Display for DifferingScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.limits.iter().map(|limit| format!("limit `{limit}`"));
        f.write_str(&limits.chain(self.settings.iter().cloned()).collect::<Vec<_>>().join(", "))
    }
}

/// An upstream header that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableHeader {
    /// Its name, in lower case.
    pub header: String,
    /// The first 64 bytes of its value.
    pub value: String,
}

/// Optional parts of the status that a query asks for.
///
/// ```
/// use rampmeter_protocol::status::StatusQuery;
/// assert!(StatusQuery::parse(br#"{"limits_toml": true}"#).limits_toml);
/// assert!(!StatusQuery::parse(b"").limits_toml);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusQuery {
    /// Asks for [`Status::limits_toml`] and [`Status::configured_toml`].
    pub limits_toml: bool,
    /// Asks for [`Status::shares`].
    pub shares: bool,
    /// Asks for [`Status::recent`].
    pub recent: bool,
}

impl Status {
    /// Returns the first waiting request of each class that has one, most urgent class first.
    pub fn first_waiting(&self) -> impl Iterator<Item = &Explained> {
        self.classes.iter().filter_map(|class| class.first.as_deref())
    }
}

impl StatusQuery {
    /// Parses a payload. An invalid one asks for the plain status.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Self {
        serde_json::from_slice(payload).unwrap_or_default()
    }
}

/// The rules in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesStatus {
    /// The revision in force; 0 if there has been no valid one.
    pub revision: u64,
    /// Whether that revision has limits for this resource; if not, the configuration counts.
    pub counts: bool,
    /// The user who applied these rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When they were applied, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Differences from the limits of the leader's configuration, a sentence each, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differ: Vec<String>,
    /// A later revision that is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedRules>,
}

/// An invalid revision of the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRules {
    /// The number of the revision.
    pub revision: u64,
    /// Line, column and mistake.
    pub reason: String,
}

/// The correction of cost estimates for one kind of calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// The values of the labels that define the kind, joined by `|`.
    pub kind: String,
    /// The unit that the estimate counts.
    pub unit: Name,
    /// The factor by which estimates are multiplied.
    pub factor: f64,
    /// Number of calls that the factor was learned from.
    pub calls: u64,
}

/// The state of a limit provider. In every state, the limits in [`Status::limits`] are in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProviderStatus {
    /// The kind of provider.
    pub kind: String,
    /// Whether the provider answers.
    pub state: ProviderState,
    /// Why the provider does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long ago this leader last received limits from the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_age_ms: Option<f64>,
    /// Differences from the limits in force, and provider limits that the scheduler cannot keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Whether a provider answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderState {
    /// No answer and no failure yet under this leader.
    #[default]
    Unknown,
    /// The last requests were all answered.
    Ok,
    /// Some of the last requests failed.
    Failing,
}

/// The state of one limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// The name, unique in the resource.
    pub name: Name,
    /// The unit that it counts.
    pub unit: Name,
    /// The algorithm by which it counts.
    pub algorithm: String,
    /// Capacity of a full bucket at the upstream.
    pub capacity: f64,
    /// Time in which an empty bucket fills.
    pub period_ms: f64,
    /// Stock held back against jitter.
    pub margin: f64,
    /// What can be spent now; negative if starts were promised from future stock.
    pub level: f64,
    /// Time until the level is positive, no pause is demanded and no quota is spent.
    pub next_free_ms: f64,
    /// Time until the current window ends; absent for a limit without windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_ms: Option<f64>,
    /// Time until the oldest call likely ends, by recent durations; only for a full limit of calls in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_free_ms: Option<f64>,
    /// Number of buckets.
    pub keys: u64,
    /// The key of the bucket shown: the one with the lowest level among some thousands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Time until its freeze ends.
    pub frozen_ms: f64,
    /// Why the limit is paused, while it is frozen or its quota is reported as spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<PauseCause>,
    /// The response that caused the pause, and how far it is believed, for people. Absent if another leader got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// Further remarks on the limit, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Labels of its key that no request has carried, if the limit skipped requests without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_labels: Vec<String>,
    /// How the upstream enforces the limit, if that differs from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Learned>,
    /// What the upstream's responses report about the bucket, if anything.
    #[serde(rename = "told", default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<UpstreamReport>,
    /// How the limit was discovered, if nobody configured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<DiscoveredStatus>,
    /// Measurements, if this is a shadow limit, which delays nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
}

/// How a limit that nobody configured was discovered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiscoveredStatus {
    /// The evidence: `headers` that describe it, `refusals`, or calls `in-flight`.
    pub by: String,
    /// Time since its discovery.
    pub for_ms: f64,
    /// The routes that the limit applies to; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// The labels of the limit's key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
}

/// What the upstream's responses report about a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpstreamReport {
    /// The capacity that all recent responses state, if it differs from the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<f64>,
    /// The capacity that rejections suggest, if it is far below the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allows: Option<f64>,
    /// The capacity that responses state, if it is below the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
    /// How long that capacity has been in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_for_ms: Option<f64>,
    /// What others have used of the current window.
    #[serde(default)]
    pub others: f64,
    /// What is held back of the current window because other users took that much of past ones.
    #[serde(default)]
    pub held_back: f64,
    /// Latest time until the current window ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ends_ms: Option<f64>,
    /// How much earlier the window may end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_slack_ms: Option<f64>,
}

/// What a shadow limit would have delayed since it or this leader began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShadowStatus {
    /// Calls that the limit applies to.
    pub calls: u64,
    /// Calls that would have started later.
    pub would_wait: u64,
    /// Calls that would have been refused: they exceed the limit's capacity or their maximum wait.
    pub would_refuse: u64,
    /// The longest wait that a call would have had.
    pub longest_wait_ms: f64,
}

/// How an upstream's enforcement of a limit differs from the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// The rate in use, as a fraction of the configured rate.
    pub rate: f64,
    /// Tokens held back from a full bucket besides the margin.
    pub held_back: f64,
}

/// The state of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// The name by which requests choose it.
    pub name: Name,
    /// Number of waiting requests.
    pub queued: u64,
    /// Time that the oldest request has waited.
    pub oldest_ms: f64,
    /// The request served next, as in [`explain`](crate::explain).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Box<Explained>>,
}

/// Totals since the leader began.
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
    /// Ignored statements of responses, such as a capacity above the configured one or a contradicted end of a window.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub disbelieved: u64,
    /// `upstream_429` by cause.
    #[serde(default, skip_serializing_if = "Rejections::are_none")]
    pub rejections: Rejections,
}

crate::named! {
    /// Why the upstream rejected a call with 429, as inferred from the scheduler's buckets.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RejectionCause {
        /// This call or an earlier one cost more than estimated.
        Ours = "ours",
        /// The upstream rejects calls after about the same fraction of a limit each time.
        LimitTooHigh = "limit-too-high",
        /// A whole limit was served, and calls came closer together than its margin covers.
        Burst = "burst",
        /// The buckets had enough; others use the limits, or one is missing or a bit too high.
        Strangers = "strangers",
        /// The upstream lacked capacity itself, or attributed the 429 to others.
        Upstream = "upstream",
        /// The upstream reported a spent quota.
        Quota = "quota",
        /// Too few rejections, a report of nothing but the status, or an unknown permit.
        Unknown = "unknown",
    }
}

/// Numbers of calls rejected with 429, by [cause](RejectionCause).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the causes say it")]
pub struct Rejections {
    pub ours: u64,
    #[serde(rename = "limit-too-high")]
    pub limit_too_high: u64,
    pub burst: u64,
    pub strangers: u64,
    pub upstream: u64,
    pub quota: u64,
    pub unknown: u64,
}

impl Rejections {
    /// Returns the number of calls with this cause.
    #[must_use]
    pub const fn by(mut self, cause: RejectionCause) -> u64 {
        *self.count_of(cause)
    }

    /// Counts one more call.
    pub const fn count(&mut self, cause: RejectionCause) {
        *self.count_of(cause) += 1;
    }

    const fn count_of(&mut self, cause: RejectionCause) -> &mut u64 {
        match cause {
            RejectionCause::Ours => &mut self.ours,
            RejectionCause::LimitTooHigh => &mut self.limit_too_high,
            RejectionCause::Burst => &mut self.burst,
            RejectionCause::Strangers => &mut self.strangers,
            RejectionCause::Upstream => &mut self.upstream,
            RejectionCause::Quota => &mut self.quota,
            RejectionCause::Unknown => &mut self.unknown,
        }
    }

    fn are_none(&self) -> bool {
        *self == Rejections::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_like_this() {
        let golden = r#"{"resource":"hub","epoch":3,"leader":"scheduler-1","limits":[],"classes":[],"counters":{"granted":1,"refused":2,"settled":3,"upstream_429":4,"returned":5},"limited_by":"few","provider":{"kind":"sentinel-hub","state":"failing","reason":"contract: answered 429, asked too often","contract_age_ms":1500.5,"notes":["a note"]},"corrections":[{"kind":"/a|PUT","unit":"units","factor":0.5,"calls":7}],"differing":[{"scheduler":"scheduler-2","limits":["few"],"settings":["classes"]}]}"#;
        let status: Status = serde_json::from_str(golden).unwrap();
        assert_eq!(serde_json::to_string(&status).unwrap(), golden);
        let without = golden.split_once(r#","limited_by"#).unwrap().0.to_owned() + "}";
        let status: Status = serde_json::from_str(&without).unwrap();
        assert_eq!((&status.limited_by, &status.provider), (&None, &None));
        assert_eq!(serde_json::to_string(&status).unwrap(), without);
        let mut rejections = Rejections::default();
        RejectionCause::ALL.into_iter().for_each(|cause| rejections.count(cause));
        let counters = serde_json::to_value(Counters { rejections, ..Counters::default() }).unwrap();
        for cause in RejectionCause::ALL {
            assert_eq!((rejections.by(cause), &counters["rejections"][cause.as_str()]), (1, &1.into()));
        }
        for (state, text) in [(ProviderState::Unknown, "\"unknown\""), (ProviderState::Ok, "\"ok\"")] {
            assert_eq!(serde_json::to_string(&state).unwrap(), text);
        }
    }
}
