//! The stored form of an unwritten limit.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::durability::snapshot::{DiscoveredSnapshot, Evidence};
use serde::{Deserialize, Serialize};

/// A limit that was found. The capacity is in millionths, lengths of time are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredRecord {
    name: Name,
    unit: Name,
    /// How the limit was found.
    origin: String,
    /// Whether the limit refills all the time.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    gradual: bool,
    capacity: u64,
    period: u64,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    routes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    key: Vec<String>,
    /// How long the limit had been known when the record was written.
    age: u64,
}

impl From<&DiscoveredSnapshot> for DiscoveredRecord {
    fn from(found: &DiscoveredSnapshot) -> Self {
        DiscoveredRecord {
            name: found.name.clone(),
            unit: found.unit.clone(),
            origin: found.evidence.as_str().to_owned(),
            gradual: found.is_gradual,
            capacity: found.capacity.micros(),
            period: found.period.nanos(),
            routes: found.routes.clone(),
            key: found.key.clone(),
            age: found.age.nanos(),
        }
    }
}

impl DiscoveredRecord {
    /// The core's form; `None` for an origin that this build does not know.
    pub(super) fn snapshot(&self) -> Option<DiscoveredSnapshot> {
        Some(DiscoveredSnapshot {
            name: self.name.clone(),
            unit: self.unit.clone(),
            evidence: Evidence::named(&self.origin)?,
            is_gradual: self.gradual,
            capacity: Amount::from_micros(self.capacity).ok()?,
            period: Span::from_nanos(self.period),
            routes: self.routes.clone(),
            key: self.key.clone(),
            age: Span::from_nanos(self.age),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_stays_as_it_is() {
        let name = |name| Name::new(name).unwrap();
        let found = DiscoveredSnapshot {
            name: name("abcd1234"),
            unit: name("requests"),
            evidence: Evidence::Headers,
            is_gradual: false,
            capacity: Amount::from_micros(5_000_000).unwrap(),
            period: Span::from_secs(5),
            routes: vec!["messages".to_owned(), "reactions".to_owned()],
            key: vec!["channel".to_owned()],
            age: Span::from_nanos(7),
        };
        let golden = r#"{"name":"abcd1234","unit":"requests","origin":"headers","capacity":5000000,"period":5000000000,"routes":["messages","reactions"],"key":["channel"],"age":7}"#;
        assert_eq!(serde_json::to_string(&DiscoveredRecord::from(&found)).unwrap(), golden);
        let record: DiscoveredRecord = serde_json::from_str(golden).unwrap();
        assert_eq!(record.snapshot(), Some(found));
        assert_eq!(DiscoveredRecord { origin: "hearsay".to_owned(), ..record }.snapshot(), None);
    }
}
