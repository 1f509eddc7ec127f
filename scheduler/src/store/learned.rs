//! The stored form of what was learned about a limit.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::durability::snapshot::{LearnedSnapshot, LimitPolicy, StatedSnapshot};
use rampmeter_scheduler_core::policy::spec::Algorithm;
use serde::{Deserialize, Serialize};

/// What was learned about a limit, and the policy that the limit had. Amounts are in millionths,
/// lengths of time in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LearnedRecord {
    unit: Name,
    algorithm: String,
    capacity: u64,
    period: u64,
    /// The lost rate, in millionths of the policy's rate.
    loss: u64,
    /// The age of the estimated loss at the writing.
    estimated: u64,
    /// The age of the last known level of the upstream at the writing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    known: Option<u64>,
    kept_back: u64,
    stock: u64,
    burst: u64,
}

/// A capacity that the upstream states, in millionths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StatedRecord {
    /// The written capacity at the writing.
    written: u64,
    capacity: u64,
    /// How long the capacity had counted at the writing, in nanoseconds.
    age: u64,
}

impl StatedRecord {
    pub(super) fn of(stated: &StatedSnapshot) -> Self {
        let StatedSnapshot { written, capacity, age } = *stated;
        StatedRecord { written: written.micros(), capacity: capacity.micros(), age: age.nanos() }
    }

    pub(super) fn snapshot(&self) -> Option<StatedSnapshot> {
        let amount = |micros| Amount::from_micros(micros).ok();
        let (written, capacity) = (amount(self.written)?, amount(self.capacity)?);
        Some(StatedSnapshot { written, capacity, age: Span::from_nanos(self.age) })
    }
}

impl LearnedRecord {
    pub(super) fn of(learned: &LearnedSnapshot) -> Self {
        LearnedRecord {
            unit: learned.policy.unit.clone(),
            algorithm: learned.policy.algorithm.as_str().to_owned(),
            capacity: learned.policy.capacity.micros(),
            period: learned.policy.period.nanos(),
            loss: learned.loss_ppm,
            estimated: learned.estimated_ago.nanos(),
            known: learned.known_ago.map(Span::nanos),
            kept_back: learned.kept_back_micros,
            stock: learned.stock_micros,
            burst: learned.burst_micros,
        }
    }

    /// The core's form; `None` for an algorithm about which this build learns nothing.
    pub(super) fn snapshot(&self) -> Option<LearnedSnapshot> {
        let learnable = [Algorithm::TokenBucket, Algorithm::LeakyBucket];
        let policy = LimitPolicy {
            unit: self.unit.clone(),
            algorithm: learnable.into_iter().find(|algorithm| algorithm.as_str() == self.algorithm)?,
            capacity: Amount::from_micros(self.capacity).ok()?,
            period: Span::from_nanos(self.period),
        };
        Some(LearnedSnapshot {
            policy,
            loss_ppm: self.loss,
            estimated_ago: Span::from_nanos(self.estimated),
            known_ago: self.known.map(Span::from_nanos),
            kept_back_micros: self.kept_back,
            stock_micros: self.stock,
            burst_micros: self.burst,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned() -> LearnedSnapshot {
        LearnedSnapshot {
            policy: LimitPolicy {
                unit: Name::new("requests").unwrap(),
                algorithm: Algorithm::LeakyBucket,
                capacity: Amount::from_micros(40_000_000).unwrap(),
                period: Span::from_secs(2),
            },
            loss_ppm: 250_000,
            estimated_ago: Span::from_secs(3),
            known_ago: Some(Span::from_secs(1)),
            kept_back_micros: 5_000_000,
            stock_micros: 7_500_000,
            burst_micros: 1,
        }
    }

    #[test]
    fn a_stated_capacity_is_written_like_this() {
        let golden = r#"{"written":100000000,"capacity":50000000,"age":7}"#;
        let amount = |micros| Amount::from_micros(micros).unwrap();
        let stated =
            StatedSnapshot { written: amount(100_000_000), capacity: amount(50_000_000), age: Span::from_nanos(7) };
        assert_eq!(serde_json::to_string(&StatedRecord::of(&stated)).unwrap(), golden);
        assert_eq!(serde_json::from_str::<StatedRecord>(golden).unwrap().snapshot(), Some(stated));
    }

    #[test]
    fn the_format_stays_as_it_is() {
        let golden = r#"{"unit":"requests","algorithm":"leaky-bucket","capacity":40000000,"period":2000000000,"loss":250000,"estimated":3000000000,"known":1000000000,"kept_back":5000000,"stock":7500000,"burst":1}"#;
        assert_eq!(serde_json::to_string(&LearnedRecord::of(&learned())).unwrap(), golden);
        assert_eq!(serde_json::from_str::<LearnedRecord>(golden).unwrap().snapshot(), Some(learned()));
    }

    #[test]
    fn an_unknown_algorithm_leaves_nothing_learned() {
        let record = LearnedRecord { algorithm: "thimble".to_owned(), ..LearnedRecord::of(&learned()) };
        assert_eq!(record.snapshot(), None);
    }
}
