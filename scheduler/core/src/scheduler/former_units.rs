//! The units of limits that were replaced.

use crate::policy::Resource;
use rampmeter_protocol::name::Name;
use std::collections::BTreeSet;

/// Remembered units of former limits: far more than any resource has.
const MAX_FORMER_UNITS: usize = 1024;

/// The units of former limits. Calls that were granted under these limits may still state costs in
/// these units.
#[derive(Debug, Default)]
pub(crate) struct FormerUnits(BTreeSet<Name>);

impl FormerUnits {
    pub(super) fn add(&mut self, former: &Resource) {
        self.0.extend(former.units());
        while self.0.len() > MAX_FORMER_UNITS {
            self.0.pop_first();
        }
    }

    /// Whether a former limit counted this unit.
    pub(crate) fn has(&self, unit: &str) -> bool {
        self.0.iter().any(|former| **former == *unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn units_of_former_limits_are_bounded() {
        let mut former = FormerUnits::default();
        (0..=MAX_FORMER_UNITS).for_each(|unit| former.add(&counting(unit)));
        assert!(!former.has("unit-0000"));
        assert!(former.has("unit-0001") && former.has(&format!("unit-{MAX_FORMER_UNITS:04}")));
    }
}
