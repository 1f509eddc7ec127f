//! How fast counters grow between two surveys.

use super::survey::Survey;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::Status;
use std::collections::BTreeMap;

/// Permits granted and refused in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    pub(super) granted: f64,
    pub(super) refused: f64,
}

/// The paces of resources. A resource that was just found, or whose leader has changed, has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Paces(BTreeMap<Name, Pace>);

impl Paces {
    /// The paces between two surveys.
    pub(super) fn between(before: &Survey, now: &Survey) -> Self {
        let secs = now.at.since(before.at).secs();
        let statuses = now.resources.iter().filter_map(|resource| resource.status.as_ref().ok());
        let pace =
            |status: &Status| Some((status.resource.clone(), pace(before.status(&status.resource)?, status, secs)?));
        Paces(statuses.filter_map(pace).collect())
    }

    pub(super) fn of(&self, resource: &Name) -> Option<Pace> {
        self.0.get(resource).copied()
    }

    /// The permits that all resources grant in a second.
    pub(super) fn granted(&self) -> f64 {
        self.0.values().map(|pace| pace.granted).sum()
    }
}

/// The pace of one resource; `None` if the leader has changed, because counters begin at zero in
/// each process.
fn pace(before: &Status, now: &Status, secs: f64) -> Option<Pace> {
    let is_sequel = before.leader == now.leader && secs > 0.0;
    let per_second = |before: u64, now: u64| Some(now.checked_sub(before)? as f64 / secs);
    let granted = per_second(before.counters.granted, now.counters.granted).filter(|_| is_sequel)?;
    Some(Pace { granted, refused: per_second(before.counters.refused, now.counters.refused)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::survey::SurveyedResource;
    use rampmeter_protocol::time::Time;

    fn survey(at: u64, leader: &str, granted: u64) -> Survey {
        let status = format!(
            r#"{{"resource": "hub", "epoch": 1, "leader": "{leader}", "limits": [], "classes": [],
                 "counters": {{"granted": {granted}, "refused": 3, "settled": 0, "upstream_429": 0, "returned": 0}}}}"#
        );
        let resource =
            SurveyedResource { name: Name::new("hub").unwrap(), status: Ok(serde_json::from_str(&status).unwrap()) };
        Survey { at: Time::from_nanos(at * 1_000_000_000), resources: vec![resource], list: None }
    }

    #[test]
    fn a_pace_is_known_from_two_answers_of_one_leader() {
        let hub = Name::new("hub").unwrap();
        #[rustfmt::skip]
        let table = [
            (survey(12, "one", 110), Some(Pace { granted: 5.0, refused: 0.0 })),
            (survey(12, "two", 110), None),
            (survey(12, "one", 90), None),
            (survey(10, "one", 110), None),
        ];
        for (now, expected) in table {
            assert_eq!(Paces::between(&survey(10, "one", 100), &now).of(&hub), expected);
        }
    }
}
