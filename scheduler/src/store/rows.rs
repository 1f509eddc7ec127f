//! Entries of lists in a record.

use super::array_form::stored_as_array;
use super::usage_record::UsageRecord;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::durability::snapshot::{CostFactor, DebitSnapshot, FreezeSnapshot, RateSnapshot};
use rampmeter_scheduler_core::policy::spec::MAX_PERIOD;
use serde::{Deserialize, Serialize, Serializer};

stored_as_array! {
    /// A frozen limit, or a spent quota.
    pub struct FreezeRow {
        limit: Name,
        key: Option<String>,
        /// The end in nanoseconds after the writing.
        ends: u64,
        spent: bool,
        /// Whether an operator ordered the freeze. Records of earlier schedulers do not say so.
        #[serde(default)]
        ordered: bool,
    }
}

stored_as_array! {
    /// A learned factor of costs.
    pub struct CostRow {
        kind: String,
        unit: Name,
        millionths: i64,
        calls: u64,
    }
}

stored_as_array! {
    /// A key and its level in millionths, after all promised permits are paid.
    pub(super) struct KeyRow {
        limit: Name,
        key: String,
        micros: i64,
    }
}

stored_as_array! {
    /// A key of a limit that is no token bucket, and its usage.
    pub(super) struct UsedKeyRow {
        limit: Name,
        key: String,
        usage: UsageRecord,
    }
}

stored_as_array! {
    /// The level in millionths and the usage of each key of a limit that is not listed.
    pub(super) struct OtherKeysRow {
        limit: Name,
        micros: i64,
        usage: Option<UsageRecord>,
    }
}

stored_as_array! {
    /// A pending debit.
    pub(super) struct DebitRow {
        /// The end in nanoseconds after the writing.
        ends: u64,
        micros: u64,
    }
}

impl FreezeRow {
    pub(super) fn snapshot(&self) -> FreezeSnapshot {
        let FreezeRow { limit, key, ends, spent, ordered } = self.clone();
        FreezeSnapshot { limit, key, ends_in: Span::from_nanos(ends), spent, ordered }
    }
}

impl From<&FreezeSnapshot> for FreezeRow {
    fn from(snapshot: &FreezeSnapshot) -> Self {
        let FreezeSnapshot { limit, key, ends_in, spent, ordered } = snapshot.clone();
        FreezeRow { limit, key, ends: ends_in.nanos(), spent, ordered }
    }
}

impl CostRow {
    pub(super) fn factor(&self) -> CostFactor {
        let CostRow { kind, unit, millionths, calls } = self.clone();
        CostFactor { kind, unit, millionths, calls }
    }
}

impl From<&CostFactor> for CostRow {
    fn from(factor: &CostFactor) -> Self {
        let CostFactor { kind, unit, millionths, calls } = factor.clone();
        CostRow { kind, unit, millionths, calls }
    }
}

impl DebitRow {
    pub(super) fn snapshot(&self) -> DebitSnapshot {
        DebitSnapshot { ends_in: Span::from_nanos(self.ends), micros: self.micros }
    }
}

impl From<&DebitSnapshot> for DebitRow {
    fn from(debit: &DebitSnapshot) -> Self {
        DebitRow { ends: debit.ends_in.nanos(), micros: debit.micros }
    }
}

stored_as_array! {
    /// The rate of the buckets of a limit with keys.
    pub(super) struct RateRow {
        limit: Name,
        capacity_micros: u64,
        period_nanos: u64,
    }
}

impl RateRow {
    pub(super) fn of(rate: &RateSnapshot) -> Self {
        RateRow {
            limit: rate.limit.clone(),
            capacity_micros: rate.capacity.micros(),
            period_nanos: rate.period.nanos(),
        }
    }

    /// The rate; `None` if no limit can have it.
    pub(super) fn rate(&self) -> Option<RateSnapshot> {
        let capacity = Amount::from_micros(self.capacity_micros).ok().filter(|capacity| *capacity > Amount::ZERO)?;
        let period = Some(Span::from_nanos(self.period_nanos))
            .filter(|period| (Span::from_nanos(1)..=MAX_PERIOD).contains(period))?;
        Some(RateSnapshot { limit: self.limit.clone(), capacity, period })
    }
}
