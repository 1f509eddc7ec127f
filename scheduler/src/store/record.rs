//! What is written, apart from the core's types so that each can change alone.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_scheduler_core::snapshot::{Fate, LevelMark, PermitMark, Snapshot};
use serde::{Deserialize, Serialize};

/// The state of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Grows with every change of leader.
    pub epoch: u64,
    /// Who wrote this.
    pub leader: String,
    /// Wall clock at writing.
    pub saved_unix_ms: u64,
    /// How many values hold remembered permits; they count only with the epoch of this record.
    pub permit_parts: usize,
    /// Levels in millionths by limit, every promise paid.
    pub levels: Vec<(Name, i64)>,
}

/// One remembered permit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermitRecord {
    id: PermitId,
    start_nanos: i64,
    class: Name,
    bill: Vec<(Name, u64)>,
    fate: FateRecord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FateRecord {
    Open,
    Settled,
    Returned,
}

impl StateRecord {
    /// The levels as the core has them.
    #[must_use]
    pub fn level_marks(&self) -> Vec<LevelMark> {
        let mark = |(limit, micros): &(Name, i64)| LevelMark { limit: limit.clone(), micros: i128::from(*micros) };
        self.levels.iter().map(mark).collect()
    }

    /// The core's levels as they are written; what is too low for 64 bits is as low as can be.
    #[must_use]
    pub fn levels_of(marks: &[LevelMark]) -> Vec<(Name, i64)> {
        let level = |mark: &LevelMark| (mark.limit.clone(), i64::try_from(mark.micros).unwrap_or(i64::MIN));
        marks.iter().map(level).collect()
    }

    /// The core's snapshot of this record and these permits.
    #[must_use]
    pub fn snapshot(&self, permits: &[PermitRecord]) -> Snapshot {
        Snapshot { levels: self.level_marks(), permits: permits.iter().map(PermitRecord::mark).collect() }
    }
}

impl PermitRecord {
    /// How a permit is written.
    #[must_use]
    pub fn of(mark: &PermitMark) -> Self {
        PermitRecord {
            id: mark.id.clone(),
            start_nanos: mark.start_nanos,
            class: mark.class.clone(),
            bill: mark.bill.iter().map(|(limit, amount)| (limit.clone(), amount.micros())).collect(),
            fate: match mark.fate {
                Fate::Open => FateRecord::Open,
                Fate::Settled => FateRecord::Settled,
                Fate::Returned => FateRecord::Returned,
            },
        }
    }

    fn mark(&self) -> PermitMark {
        let charge = |(limit, micros): &(Name, u64)| Some((limit.clone(), Amount::from_micros(*micros).ok()?));
        PermitMark {
            id: self.id.clone(),
            start_nanos: self.start_nanos,
            class: self.class.clone(),
            bill: self.bill.iter().filter_map(charge).collect(),
            fate: match self.fate {
                FateRecord::Open => Fate::Open,
                FateRecord::Settled => Fate::Settled,
                FateRecord::Returned => Fate::Returned,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_stays_as_it_is() {
        let name = |name: &str| Name::new(name).unwrap();
        let state = StateRecord {
            epoch: 7,
            leader: "host-1-2f".to_owned(),
            saved_unix_ms: 1_795_000_000_000,
            permit_parts: 1,
            levels: vec![(name("per-minute"), -12_500_000)],
        };
        let permit = PermitRecord {
            id: PermitId::new("a").unwrap(),
            start_nanos: -5,
            class: name("bulk"),
            bill: vec![(name("per-minute"), 1_000_000)],
            fate: FateRecord::Open,
        };
        let golden = r#"[{"epoch":7,"leader":"host-1-2f","saved_unix_ms":1795000000000,"permit_parts":1,"levels":[["per-minute",-12500000]]},{"id":"a","start_nanos":-5,"class":"bulk","bill":[["per-minute",1000000]],"fate":"open"}]"#;
        assert_eq!(serde_json::to_string(&(&state, &permit)).unwrap(), golden);
        assert_eq!(serde_json::from_str::<(StateRecord, PermitRecord)>(golden).unwrap(), (state, permit));
    }
}
