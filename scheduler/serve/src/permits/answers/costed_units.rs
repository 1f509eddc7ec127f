//! The units that calls have cost, which show limits that limit nothing.

use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::LimitStatus;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::views::Use;
use std::collections::BTreeSet;

/// How long calls must go on before a unit without any cost deserves a remark.
const WORTH_A_REMARK: Span = Span::from_secs(60);

/// The units that calls have cost under this leader, at most those of the limits.
#[derive(Debug, Default)]
pub(crate) struct CostedUnits {
    first_call: Option<Time>,
    units: BTreeSet<Name>,
}

impl CostedUnits {
    pub(crate) fn note_call(&mut self, now: Time) {
        self.first_call.get_or_insert(now);
    }

    pub(crate) fn note_use(&mut self, used: &Use) {
        let costs = used.clients.iter().flat_map(|client| &client.micros);
        self.units.extend(costs.filter(|(_, micros)| *micros > 0).map(|(unit, _)| unit.clone()));
    }

    /// Adds a remark to limits of units that no call has cost.
    pub(crate) fn describe(&self, limits: &mut [LimitStatus], now: Time) {
        if self.first_call.is_none_or(|first| now.since(first) < WORTH_A_REMARK) {
            return;
        }
        for limit in limits.iter_mut().filter(|limit| !self.units.contains(&limit.unit)) {
            limit.notes.push(format!("no call has cost `{}` so far", limit.unit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_scheduler_core::views::ClientUse;

    #[test]
    fn a_unit_without_cost_is_told_after_a_minute_of_calls() {
        let name = |text| Name::new(text).unwrap();
        let limit: LimitStatus = serde_json::from_str(
            r#"{"name": "few", "unit": "units", "algorithm": "token-bucket", "capacity": 1.0, "period_ms": 1e3,
                "margin": 0.0, "level": 1.0, "next_free_ms": 0.0, "keys": 1, "frozen_ms": 0.0}"#,
        )
        .unwrap();
        let notes = |costed: &CostedUnits, secs| {
            let mut limits = [limit.clone()];
            costed.describe(&mut limits, Time::ORIGIN + Span::from_secs(secs));
            limits[0].notes.clone()
        };
        let mut costed = CostedUnits::default();
        assert!(notes(&costed, 100).is_empty(), "no call was made");
        costed.note_call(Time::ORIGIN + Span::from_secs(100));
        costed.note_call(Time::ORIGIN + Span::from_secs(150));
        assert!(notes(&costed, 159).is_empty());
        assert_eq!(notes(&costed, 160), ["no call has cost `units` so far"]);
        let mut used = |micros| {
            let client = ClientUse { client: "".into(), class: name("bulk"), calls: 1, micros };
            costed.note_use(&Use { clients: vec![client], limits: Vec::new() });
            notes(&costed, 170)
        };
        assert_eq!(used(vec![(name("requests"), 1), (name("units"), 0)]).len(), 1);
        assert!(used(vec![(name("units"), 1)]).is_empty());
    }
}
