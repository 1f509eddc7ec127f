//! Warnings that a quota is used to a half, four fifths, and nearly to its end.

use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::LimitStatus;
use std::collections::BTreeMap;

/// The shares that are told, in percent.
const STAGES: [u32; 3] = [50, 80, 95];
/// Keys whose stages are remembered. Beyond, all are told again.
const MAX_KEYS: usize = 1024;

/// The stages that were told, by limit. A reset begins anew.
#[derive(Debug, Default)]
pub(crate) struct QuotaAlerts(BTreeMap<Name, Told>);

/// The stages by key, and how long it was until the reset.
#[derive(Debug, Default)]
struct Told {
    resets_ms: f64,
    by_key: BTreeMap<Option<String>, u32>,
}

impl QuotaAlerts {
    /// Logs each quota that has reached another stage. Of one with a key, the status has the key with the least left.
    pub(crate) fn note(&mut self, resource: &Name, limits: &[LimitStatus]) {
        for limit in limits.iter().filter(|limit| limit.algorithm == "quota" && limit.shadow.is_none()) {
            if let Some(percent) = self.reached(limit) {
                let LimitStatus { name, key, unit, level, capacity, resets_ms, .. } = limit;
                let (left, resets_in_h) = (level.max(0.0), resets_ms.map(|millis| (millis / 36e5).ceil()));
                tracing::warn!(%resource, limit = %name, key, left, %unit, capacity, resets_in_h, "{percent} % of a quota are used");
            }
        }
    }

    /// Returns the highest stage that a quota has reached, if it was not told.
    fn reached(&mut self, limit: &LimitStatus) -> Option<u32> {
        let full = (limit.capacity - limit.margin).max(f64::MIN_POSITIVE);
        let used = 100.0 * (1.0 - limit.level / full);
        let stage = STAGES.into_iter().filter(|stage| used >= f64::from(*stage)).max().unwrap_or(0);
        let told = self.0.entry(limit.name.clone()).or_default();
        let resets_ms = limit.resets_ms.unwrap_or_default();
        if resets_ms > told.resets_ms || told.by_key.len() > MAX_KEYS {
            told.by_key.clear();
        }
        told.resets_ms = resets_ms;
        (stage > told.by_key.insert(limit.key.clone(), stage).unwrap_or(0)).then_some(stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(key: Option<&str>, level: f64) -> LimitStatus {
        let text = format!(
            r#"{{"name": "budget", "unit": "usd", "algorithm": "quota", "capacity": 10.0, "period_ms": 864e5,
                "margin": 0.0, "level": {level}, "next_free_ms": 0.0, "keys": 1, "frozen_ms": 0.0}}"#
        );
        LimitStatus { key: key.map(str::to_owned), ..serde_json::from_str(&text).unwrap() }
    }

    /// Beyond `quota_alerts::MAX_KEYS` they are told again.
    #[test]
    fn the_stages_of_a_bounded_number_of_keys_are_remembered() {
        let mut alerts = QuotaAlerts::default();
        let reached = |alerts: &mut QuotaAlerts, key: usize| alerts.reached(&quota(Some(&key.to_string()), 0.1));
        (0..=MAX_KEYS).for_each(|key| assert_eq!(reached(&mut alerts, key), Some(95)));
        assert_eq!(reached(&mut alerts, 0), Some(95));
        assert_eq!(alerts.0.values().map(|told| told.by_key.len()).sum::<usize>(), 1);
    }

    #[test]
    fn each_stage_is_told_once_until_the_reset() {
        let mut alerts = QuotaAlerts::default();
        #[rustfmt::skip]
        let table = [
            (None,      5.1,    None),
            (None,      5.0,    Some(50)),
            (None,      4.0,    None),
            (Some("x"), 0.1,    Some(95)),
            (None,      1.9,    Some(80)),
            (None,      -1.0,   Some(95)),
            (None,      10.0,   None),
            (None,      2.0,    Some(80)),
        ];
        for (key, level, expected) in table {
            assert_eq!(alerts.reached(&quota(key, level)), expected, "{level} left of {key:?}");
        }
    }
}
