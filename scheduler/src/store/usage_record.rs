//! The stored form of usage, for limits that are no token buckets.

use super::array_form::stored_as_array;
use rampmeter_scheduler_core::durability::snapshot::{ClaimedUsage, CountedUsage, Offset, ReportedUsage, UsageSpan};
use serde::{Deserialize, Serialize, Serializer};

/// The usage of a limit that is no token bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UsageRecord {
    /// Wall time at the writing, by the writer's clock.
    unix_nanos: u64,
    spans: Vec<UsageRow>,
    /// What the upstream reported, if anything.
    #[serde(rename = "told", skip_serializing_if = "Option::is_none", default)]
    reported: Option<ReportRecord>,
}

/// The upstream's reports on usage. Times are in nanoseconds after the writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReportRecord {
    /// The earliest and the latest end of a window of the upstream.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    ends: Option<(i64, i64)>,
    /// The part of the usage that other users of the account have caused.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    others: Vec<ClaimRow>,
    /// What other users of the account are expected to use of a window.
    #[serde(skip_serializing_if = "is_zero", default)]
    expected: u64,
}

stored_as_array! {
    /// An amount of usage, in millionths. Times are in nanoseconds after the writing.
    struct UsageRow {
        begins: i64,
        ends: i64,
        micros: u64,
    }
}

stored_as_array! {
    /// What other users of the account have used, in millionths. Times are in nanoseconds after the
    /// writing.
    struct ClaimRow {
        micros: u64,
        ends: i64,
        /// When the claim is forgotten, if no answer repeats it.
        expires: Option<i64>,
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(amount: &u64) -> bool {
    *amount == 0
}

impl ClaimRow {
    pub(super) fn claim(&self) -> ClaimedUsage {
        ClaimedUsage {
            micros: self.micros,
            until: Offset::from_nanos(self.ends),
            expires: self.expires.map(Offset::from_nanos),
        }
    }
}

impl From<&ClaimedUsage> for ClaimRow {
    fn from(claim: &ClaimedUsage) -> Self {
        ClaimRow { micros: claim.micros, ends: claim.until.nanos(), expires: claim.expires.map(Offset::nanos) }
    }
}

impl UsageRecord {
    pub(super) fn of(taken: &CountedUsage) -> Self {
        let row =
            |span: &UsageSpan| UsageRow { begins: span.from.nanos(), ends: span.until.nanos(), micros: span.micros };
        UsageRecord {
            unix_nanos: taken.unix_nanos,
            spans: taken.spans.iter().map(row).collect(),
            reported: taken.reported.as_ref().map(ReportRecord::of),
        }
    }

    pub(super) fn usage(&self) -> CountedUsage {
        let span = |row: &UsageRow| UsageSpan {
            from: Offset::from_nanos(row.begins),
            until: Offset::from_nanos(row.ends),
            micros: row.micros,
        };
        let reported = self.reported.as_ref().map(ReportRecord::usage);
        CountedUsage {
            unix_nanos: self.unix_nanos,
            spans: self.spans.iter().map(span).collect(),
            doubted: false,
            reported,
        }
    }
}

impl ReportRecord {
    fn of(reported: &ReportedUsage) -> Self {
        let others = reported.claims.iter().map(ClaimRow::from).collect();
        let ends = reported.window_ends.map(|(from, until)| (from.nanos(), until.nanos()));
        ReportRecord { ends, others, expected: reported.expected_micros }
    }

    fn usage(&self) -> ReportedUsage {
        let claims = self.others.iter().map(ClaimRow::claim).collect();
        let window_ends = self.ends.map(|(from, until)| (Offset::from_nanos(from), Offset::from_nanos(until)));
        ReportedUsage { window_ends, claims, expected_micros: self.expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_use_has_a_stable_form() {
        let (golden, empty) = (r#"{"ends":[-5,1000],"others":[[4000000,1000,null],[1,9,7]],"expected":5000000}"#, "{}");
        let at = Offset::from_nanos;
        let claim =
            |micros, until, expires: Option<i64>| ClaimedUsage { micros, until: at(until), expires: expires.map(at) };
        let claims = vec![claim(4_000_000, 1000, None), claim(1, 9, Some(7))];
        let reported = ReportedUsage { window_ends: Some((at(-5), at(1000))), claims, expected_micros: 5_000_000 };
        for (reported, golden) in [(reported, golden), (ReportedUsage::default(), empty)] {
            assert_eq!(serde_json::to_string(&ReportRecord::of(&reported)).unwrap(), golden);
            assert_eq!(serde_json::from_str::<ReportRecord>(golden).unwrap().usage(), reported);
        }
    }
}
