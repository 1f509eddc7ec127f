//! The stored form of a discovered limit.

use rampmeter_discovery::{DiscoveredSnapshot, Evidence};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use serde::{Deserialize, Serialize};

/// A discovered limit. The capacity is in millionths, lengths of time are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredRecord {
    name: Name,
    unit: Name,
    /// How the limit was discovered.
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
    fn from(limit: &DiscoveredSnapshot) -> Self {
        DiscoveredRecord {
            name: limit.name.clone(),
            unit: limit.unit.clone(),
            origin: limit.evidence.as_str().to_owned(),
            gradual: limit.is_gradual,
            capacity: limit.capacity.micros(),
            period: limit.period.nanos(),
            routes: limit.routes.clone(),
            key: limit.key.clone(),
            age: limit.age.nanos(),
        }
    }
}

impl DiscoveredRecord {
    /// The limit as it was discovered; `None` for an origin that this build does not know.
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
