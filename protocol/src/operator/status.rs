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
    /// The resource.
    pub resource: Name,
    /// The epoch of the leader that answers.
    pub epoch: Epoch,
    /// The scheduler process that leads the resource.
    pub leader: String,
    /// How many other schedulers could take over, if the leader knows.
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
    /// The limit that delays the first waiting request of the most urgent class, if any waits, or
    /// else one more request of the default class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Name>,
    /// Why it delays that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The state of the bucket that delays that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Holder>,
    /// The provider of the limits, if one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderStatus>,
    /// The rules that were applied while schedulers run, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesStatus>,
    /// By how much cost estimates were wrong, if the resource learns that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Correction>,
    /// When long limits end at the present pace, if that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forecasts: Vec<LimitForecast>,
    /// The running schedulers whose limits or settings of the resource differ from the leader's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differing: Vec<DifferingScheduler>,
    /// The last header of the upstream's that could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<UnreadableHeader>,
    /// Sentences on the resource, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The limits that count, as `[[resource.limit]]` tables of TOML, if the
    /// [question](StatusQuery) was for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits_toml: Option<String>,
    /// The limits that would count without the rules in force, as the leader's configuration or
    /// provider has them, if the question was for limits and rules are in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_toml: Option<String>,
    /// How classes and clients share the resource, if the question was for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// What was counted lately, if the question was for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<Recent>,
}

/// A scheduler that would count differently if it led.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferingScheduler {
    /// The scheduler process.
    pub scheduler: String,
    /// The limits that differ, or that only one of the two schedulers has.
    pub limits: Vec<Name>,
    /// Other parts of the configuration that differ: `classes`, `other settings`.
    pub settings: Vec<String>,
}

/// What differs, as in ``limit `per-minute`, classes``.
impl fmt::Display for DifferingScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.limits.iter().map(|limit| format!("limit `{limit}`"));
        f.write_str(&limits.chain(self.settings.iter().cloned()).collect::<Vec<_>>().join(", "))
    }
}

/// A header of the upstream's that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableHeader {
    /// Its name, in lower case.
    pub header: String,
    /// The beginning of its value: at most 64 bytes.
    pub value: String,
}

/// What a request for the status may ask for.
///
/// ```
/// use rampmeter_protocol::status::StatusQuery;
/// assert!(StatusQuery::parse(br#"{"limits_toml": true}"#).limits_toml);
/// assert!(!StatusQuery::parse(b"").limits_toml);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusQuery {
    /// Whether the answer is to have [`Status::limits_toml`] and [`Status::configured_toml`].
    pub limits_toml: bool,
    /// Whether the answer is to have [`Status::shares`].
    pub shares: bool,
    /// Whether the answer is to have [`Status::recent`].
    pub recent: bool,
}

impl Status {
    /// The first waiting request of each class in which requests wait, the most urgent first.
    pub fn first_waiting(&self) -> impl Iterator<Item = &Explained> {
        self.classes.iter().filter_map(|class| class.first.as_deref())
    }
}

impl StatusQuery {
    /// Reads a payload. A payload that is no question asks for the status alone.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Self {
        serde_json::from_slice(payload).unwrap_or_default()
    }
}

/// Which rules are in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesStatus {
    /// The edition in force; 0 if there has been no valid one.
    pub revision: u64,
    /// Whether that edition has limits for this resource. Otherwise the configuration's limits are
    /// in force.
    pub counts: bool,
    /// The user that applied these rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When they were applied, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How the limits of these rules differ from those of the leader's configuration: a sentence
    /// each, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differ: Vec<String>,
    /// A later edition that is not valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedRules>,
}

/// An edition of the rules that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRules {
    /// The number of the edition.
    pub revision: u64,
    /// The line, the column, and the mistake.
    pub reason: String,
}

/// By how much estimates of one kind of calls are wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// The values of the labels that define the kind, with `|` between them.
    pub kind: String,
    /// The unit that the estimate counts.
    pub unit: Name,
    /// The factor that estimates are multiplied by.
    pub factor: f64,
    /// The calls that the factor was learned from.
    pub calls: u64,
}

/// The state of a provider. In every state, the limits in [`Status::limits`] are in force.
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
    /// The differences between its limits and those in force, and its limits that the scheduler
    /// cannot keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Whether a provider answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderState {
    /// This leader has had neither an answer nor a failure yet.
    #[default]
    Unknown,
    /// The provider answered all of the last questions.
    Ok,
    /// The provider failed to answer some of the last questions.
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
    /// The time in which an empty bucket fills.
    pub period_ms: f64,
    /// Stock that is held back against jitter.
    pub margin: f64,
    /// What could be spent now. It is negative if promised starts have spent future stock.
    pub level: f64,
    /// When calls can take from it again: the level is above zero, no pause is demanded, and no
    /// quota is spent.
    pub next_free_ms: f64,
    /// When the present window ends; absent for a limit without windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_ms: Option<f64>,
    /// When the oldest call in flight will probably end, by the time that calls have lately taken.
    /// Only for a limit of calls in flight whose places are all taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_free_ms: Option<f64>,
    /// How many buckets the limit has.
    pub keys: u64,
    /// The key whose bucket is shown: the one with the lowest level among some thousands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How long the limit stays frozen.
    pub frozen_ms: f64,
    /// Why the limit is paused, while it is frozen or its quota is said to be spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<PauseCause>,
    /// The answer of the upstream that began the pause, and how far it is believed: a sentence for
    /// people. Absent if this leader did not hear the answer itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// Further sentences on the limit, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Labels of its key that no request has carried, if the limit skipped requests without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_labels: Vec<String>,
    /// How the upstream enforces the limit, if that differs from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Learned>,
    /// What the upstream's responses report of the bucket, if anything.
    #[serde(rename = "told", default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<UpstreamReport>,
    /// How the limit was found, if it is unwritten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<DiscoveredStatus>,
    /// What was measured, if this is a shadow limit, which delays nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
}

/// How an unwritten limit was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiscoveredStatus {
    /// What the limit was found by: `headers` that tell of it, `refusals`, or calls `in-flight`.
    pub by: String,
    /// How long the limit has been known.
    pub for_ms: f64,
    /// The routes that the limit applies to; all, if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// The labels of the limit's key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
}

/// What the upstream's responses report of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpstreamReport {
    /// The capacity that all answers state lately, if that is not the written one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<f64>,
    /// The capacity that the upstream seems to allow by its rejections, if that is far below the
    /// written one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allows: Option<f64>,
    /// The capacity that answers state, if that is less than the written one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
    /// How long that capacity has been in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_for_ms: Option<f64>,
    /// What other users of the account have used of the present window.
    #[serde(default)]
    pub others: f64,
    /// What is held back of the present window, because other users took as much of former ones.
    #[serde(default)]
    pub held_back: f64,
    /// When the present window ends at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ends_ms: Option<f64>,
    /// How much earlier the window may end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_slack_ms: Option<f64>,
}

/// What a shadow limit would have delayed, since this leader or the limit began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShadowStatus {
    /// Calls that the limit applies to.
    pub calls: u64,
    /// Calls that would have started later.
    pub would_wait: u64,
    /// Calls that would have been refused. They cost more than the limit holds, or could not have
    /// waited that long.
    pub would_refuse: u64,
    /// The longest wait that a call would have had.
    pub longest_wait_ms: f64,
}

/// How an upstream enforces a limit, as far as that differs from the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// The rate in use, as a fraction of the configured rate.
    pub rate: f64,
    /// Tokens that are held back from a full bucket, besides the margin.
    pub held_back: f64,
}

/// One class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: Name,
    /// How many requests wait.
    pub queued: u64,
    /// How long the oldest request has waited.
    pub oldest_ms: f64,
    /// The request that is served next, as [`explain`](crate::explain) tells of it.
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
    /// Statements in the upstream's responses that the scheduler does not follow. An answer may
    /// state a capacity above the written one, or contradict other answers about the end of a
    /// window.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub disbelieved: u64,
    /// The calls of `upstream_429`, by cause.
    #[serde(default, skip_serializing_if = "Rejections::are_none")]
    pub rejections: Rejections,
}

crate::named! {
    /// Why the upstream answered a call with 429, as far as the scheduler's buckets tell.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RejectionCause {
        /// This call or an earlier one cost more than estimated.
        Ours = "ours",
        /// The upstream allows far less than a limit says: it rejects calls each time it has served
        /// about the same share of it.
        LimitTooHigh = "limit-too-high",
        /// The limit was served whole, and calls came closer together than its margin covers.
        Burst = "burst",
        /// The buckets had enough, and what the upstream serves varies: other parties use the account,
        /// or a limit is a little lower than written, or not written.
        Strangers = "strangers",
        /// The upstream had no room of its own, or says that other accounts caused the 429.
        Upstream = "upstream",
        /// The upstream says that a quota is spent.
        Quota = "quota",
        /// There were too few rejections to tell, the worker told nothing of the answer but its status,
        /// or the permit is not known.
        Unknown = "unknown",
    }
}

/// How many calls the upstream answered with 429, by [cause](RejectionCause).
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
    /// The number of calls with this cause.
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
