//! Limits that were in force before.

use crate::policy::Resource;
use crate::queue::Edition;
use rampmeter_protocol::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Remembered units of former limits: far more than any resource has.
const MAX_FORMER_UNITS: usize = 1024;

/// Former limits, as far as they still count.
///
/// Invariant: during a change, `charging` has the limits of every edition that still charges
/// waiting requests; otherwise it is empty.
#[derive(Debug, Default)]
pub(crate) struct FormerLimits {
    charging: BTreeMap<Edition, Resource>,
    /// Calls that were granted under former limits may still state costs in these.
    units: BTreeSet<Name>,
}

impl FormerLimits {
    /// Takes the limits that charge the waiting requests of `edition`.
    pub(crate) fn add(&mut self, edition: Edition, former: Resource) {
        self.units.extend(former.units());
        while self.units.len() > MAX_FORMER_UNITS {
            self.units.pop_first();
        }
        self.charging.insert(edition, former);
    }

    /// Whether some waiting requests are not charged by the present limits yet.
    pub(crate) fn are_charging(&self) -> bool {
        !self.charging.is_empty()
    }

    /// The former limits that charge requests of `edition`.
    pub(crate) fn of(&self, edition: Edition) -> Option<&Resource> {
        // Requests that came during a change are of the edition below that of the change.
        self.charging.range(edition..).next().map(|(_, former)| former)
    }

    /// The present limits charge all waiting requests.
    pub(crate) fn end_change(&mut self) {
        self.charging.clear();
    }

    /// Whether a former limit counted this unit.
    pub(crate) fn counted(&self, unit: &str) -> bool {
        self.units.iter().any(|former| **former == *unit)
    }
}

#[cfg(test)]
mod tests {
    use super::{FormerLimits, MAX_FORMER_UNITS};
    use crate::policy::Resource;
    use crate::policy::spec::{LimitSpec, ResourceSpec};
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::name::Name;
    use rampmeter_protocol::time::Span;

    fn counting(unit: usize) -> Resource {
        let (name, unit) = (Name::new("few").unwrap(), Name::new(&format!("unit-{unit:04}")).unwrap());
        let limit = LimitSpec::new(name.clone(), unit, Amount::new(10.0).unwrap(), Span::from_secs(1));
        Resource::new(&ResourceSpec::new(name, vec![limit])).unwrap()
    }

    #[test]
    fn the_oldest_limits_after_an_edition_charge_its_requests() {
        let mut former = FormerLimits::default();
        (0..2).for_each(|edition| former.add(edition, counting(edition as usize)));
        let unit = |edition| former.of(edition).map(|resource| resource.units()[0].to_string());
        assert_eq!([unit(0), unit(1), unit(2)], [Some("unit-0000".into()), Some("unit-0001".into()), None]);
        former.end_change();
        assert!(!former.are_charging() && former.counted("unit-0001"));
    }

    #[test]
    fn units_of_former_limits_are_bounded() {
        let mut former = FormerLimits::default();
        (0..=MAX_FORMER_UNITS).for_each(|unit| former.add(0, counting(unit)));
        assert!(!former.counted("unit-0000"));
        assert!(former.counted("unit-0001") && former.counted(&format!("unit-{MAX_FORMER_UNITS:04}")));
    }
}
