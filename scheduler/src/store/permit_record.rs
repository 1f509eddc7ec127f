//! The stored form of a remembered permit.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_scheduler_core::durability::snapshot::{Fate, Offset, PermitSnapshot};
use serde::{Deserialize, Serialize};

/// One remembered permit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermitRecord {
    id: PermitId,
    start_nanos: i64,
    class: Name,
    /// The client whose use includes the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    client: Option<String>,
    bill: Vec<(Name, u64)>,
    /// Charges to keys: limit, key and amount in millionths.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    keyed: Vec<(Name, String, u64)>,
    /// For each limit, the end of the in-flight call's lease, in nanoseconds after the writing.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    held_until: Vec<(Name, i64)>,
    fate: FateRecord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FateRecord {
    Open,
    Settled,
    Returned,
}

impl PermitRecord {
    /// The stored form of a permit.
    #[must_use]
    pub fn of(snapshot: &PermitSnapshot) -> Self {
        PermitRecord {
            id: snapshot.id.clone(),
            start_nanos: snapshot.start.nanos(),
            class: snapshot.class.clone(),
            client: snapshot.client.clone(),
            bill: snapshot.bill.iter().map(|(limit, amount)| (limit.clone(), amount.micros())).collect(),
            keyed: snapshot
                .keyed
                .iter()
                .map(|(limit, key, amount)| (limit.clone(), key.clone(), amount.micros()))
                .collect(),
            held_until: snapshot.held_until.iter().map(|(limit, end)| (limit.clone(), end.nanos())).collect(),
            fate: match snapshot.fate {
                Fate::Open => FateRecord::Open,
                Fate::Settled => FateRecord::Settled,
                Fate::Returned => FateRecord::Returned,
            },
        }
    }

    pub(super) fn snapshot(&self) -> PermitSnapshot {
        let charge = |(limit, micros): &(Name, u64)| Some((limit.clone(), Amount::from_micros(*micros).ok()?));
        let key_charge = |(limit, key, micros): &(Name, String, u64)| {
            Some((limit.clone(), key.clone(), Amount::from_micros(*micros).ok()?))
        };
        PermitSnapshot {
            id: self.id.clone(),
            start: Offset::from_nanos(self.start_nanos),
            class: self.class.clone(),
            client: self.client.clone(),
            bill: self.bill.iter().filter_map(charge).collect(),
            keyed: self.keyed.iter().filter_map(key_charge).collect(),
            held_until: self.held_until.iter().map(|(limit, end)| (limit.clone(), Offset::from_nanos(*end))).collect(),
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
        let permit = PermitRecord {
            id: PermitId::new("a").unwrap(),
            start_nanos: -5,
            class: name("bulk"),
            client: Some("team-a".to_owned()),
            bill: vec![(name("per-minute"), 1_000_000)],
            keyed: vec![(name("per-client"), "team-a".to_owned(), 1_000_000)],
            held_until: vec![(name("in-flight"), 26_000_000_000)],
            fate: FateRecord::Open,
        };
        let golden = r#"{"id":"a","start_nanos":-5,"class":"bulk","client":"team-a","bill":[["per-minute",1000000]],"keyed":[["per-client","team-a",1000000]],"held_until":[["in-flight",26000000000]],"fate":"open"}"#;
        assert_eq!(serde_json::to_string(&permit).unwrap(), golden);
        assert_eq!(serde_json::from_str::<PermitRecord>(golden).unwrap(), permit);
    }
}
