//! Limits that were in force before.

use crate::policy::Resource;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Remembered units of former limits: far more than any resource has.
const MAX_FORMER_UNITS: usize = 1024;
/// Changes of limits that are under way at the same time. A change lasts a second at most.
const MAX_CHANGES: usize = 16;

/// Limits that come into force, and the amounts that are left of those that are new.
#[derive(Debug)]
pub(crate) struct NextLimits {
    pub(crate) resource: Resource,
    pub(crate) left: Vec<(Name, Amount)>,
}

/// Former limits, as far as they still count.
///
/// Invariant: during a change, `charging` has all limits that still charge waiting requests, by the
/// number of changes before them; otherwise it is empty.
#[derive(Debug, Default)]
pub(crate) struct FormerLimits {
    charging: BTreeMap<u32, Resource>,
    /// The latest limits that came while too many changes were under way.
    postponed: Option<NextLimits>,
    /// The units of former limits. Calls that were granted under these limits may still state costs
    /// in these units.
    units: BTreeSet<Name>,
}

impl FormerLimits {
    /// Adds limits that still charge waiting requests, with the number of changes before them.
    pub(crate) fn add(&mut self, changes: u32, former: Resource) {
        self.units.extend(former.units());
        while self.units.len() > MAX_FORMER_UNITS {
            self.units.pop_first();
        }
        self.charging.insert(changes, former);
    }

    /// Whether some waiting requests are not charged by the present limits yet.
    pub(crate) fn are_charging(&self) -> bool {
        !self.charging.is_empty()
    }

    /// Whether another change has to wait until those under way have ended.
    pub(crate) fn are_many(&self) -> bool {
        self.charging.len() >= MAX_CHANGES
    }

    /// Keeps limits for later, in place of those that were postponed before.
    pub(crate) fn postpone(&mut self, mut next: NextLimits) {
        next.left.extend(self.postponed.take().into_iter().flat_map(|earlier| earlier.left));
        self.postponed = Some(next);
    }

    /// The postponed limits, once they can come into force.
    pub(crate) fn take_postponed(&mut self) -> Option<NextLimits> {
        if self.are_many() { None } else { self.postponed.take() }
    }

    /// The former limits with this number of changes before them; none if these are the present
    /// ones.
    pub(crate) fn after(&self, changes: u32) -> Option<&Resource> {
        self.charging.get(&changes)
    }

    /// Notes that the present limits charge all waiting requests.
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
    fn former_limits_charge_until_the_change_ends() {
        let mut former = FormerLimits::default();
        (0..2).for_each(|changes| former.add(changes, counting(changes as usize)));
        let unit = |changes| former.after(changes).map(|resource| resource.units()[0].to_string());
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
