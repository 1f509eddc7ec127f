//! A short fingerprint of what a scheduler applies to a resource, by which schedulers can be compared.

use rampmeter_config::Configured;
use rampmeter_policy::Resource;
use rampmeter_policy::spec::{LimitSpec, ResourceSpec};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::DifferingScheduler;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Hashes of the limits and settings that a scheduler applies to a resource. Of one version, they are equal if and only
/// if the schedulers would decide alike, apart from 32-bit collisions; of different versions they say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    limits: BTreeMap<Name, u32>,
    classes: u32,
    settings: u32,
}

impl Fingerprint {
    /// Returns the fingerprint under the limits in force. Capacities are left out if a provider corrects them under
    /// every leader, and so are limits that only the provider states.
    #[must_use]
    pub fn of(configured: &Configured, resource: &Resource) -> Self {
        let Configured { provider, reader, pricing, spec: written, .. } = configured;
        let ResourceSpec { limits, classes, default_class, .. } = resource.spec();
        let corrected = |limit: &LimitSpec| match provider.is_some() {
            true => LimitSpec { capacity: Amount::ONE, ..limit.clone() },
            false => limit.clone(),
        };
        let counting = limits.iter().filter(|_| provider.is_none() || !written.limits.is_empty());
        let rest =
            ResourceSpec { limits: Vec::new(), classes: Vec::new(), default_class: None, ..resource.spec().clone() };
        Fingerprint {
            limits: counting.map(|limit| (limit.name.clone(), hash(&corrected(limit)))).collect(),
            classes: hash(&(classes, default_class)),
            settings: hash(&(rest, provider.is_some(), reader, pricing)),
        }
    }

    pub(crate) fn difference(&self, scheduler: &str, other: &Self) -> Option<DifferingScheduler> {
        let all = self.limits.keys().chain(other.limits.keys().filter(|name| !self.limits.contains_key(*name)));
        let mut limits: Vec<Name> =
            all.filter(|name| self.limits.get(*name) != other.limits.get(*name)).cloned().collect();
        limits.sort();
        let settings =
            [("classes", self.classes == other.classes), ("other settings", self.settings == other.settings)];
        let settings = settings.into_iter().filter(|(_, same)| !same).map(|(name, _)| name.to_owned()).collect();
        let differing = DifferingScheduler { scheduler: scheduler.to_owned(), limits, settings };
        (self != other).then_some(differing)
    }
}

/// Returns the checksum of the value's debug text, which is the same in every build of one version.
fn hash(value: &impl Debug) -> u32 {
    crc32c::crc32c(format!("{value:?}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_config::parse;
    use std::path::Path;

    const HUB: &str = r#"
        [[resource]]
        name = "hub"
        classes = [{ name = "urgent" }]
        horizon = "50ms"
        [[resource.limit]]
        name = "few"
        capacity = 4
        period = "2s"
        [[resource.limit]]
        name = "many"
        capacity = 100
        period = "1h"
        "#;
    const PROVIDER: &str = r#"
        [resource.provider]
        kind = "sentinel-hub"
        base_url = "https://services.example.com"
        token_url = "https://services.example.com/token"
        client_id_env = "ID"
        client_secret_env = "SECRET"
        "#;

    fn fingerprint(text: &str) -> Fingerprint {
        let config = parse(Path::new("test.toml"), text).unwrap_or_else(|error| panic!("{error}"));
        let configured = &config.resources[0];
        Fingerprint::of(configured, &configured.resource().expect("it has limits"))
    }

    /// What differs once `before` is replaced by `after`: limits, then settings.
    fn check(text: &str, before: &str, after: &str, expected: &[&str]) {
        assert!(text.contains(before), "{before}");
        let (one, another) = (fingerprint(text), fingerprint(&text.replacen(before, after, 1)));
        for (mine, other) in [(&one, &another), (&another, &one)] {
            let found = mine.difference("other", other);
            let limits = found.iter().flat_map(|found| &found.limits).map(|name| &**name);
            let settings = found.iter().flat_map(|found| &found.settings).map(String::as_str);
            assert_eq!(limits.chain(settings).collect::<Vec<_>>(), expected, "{before} → {after}");
        }
    }

    #[test]
    fn a_difference_has_the_name_of_its_limit_or_setting() {
        check(HUB, "capacity = 4", "capacity = 4.0", &[]);
        check(HUB, "capacity = 4", "capacity = 5", &["few"]);
        check(HUB, "period = \"1h\"", "period = \"2h\"", &["many"]);
        check(HUB, "capacity = 100", "margin = 3\ncapacity = 100", &["many"]);
        check(HUB, "capacity = 100", "match = { path = \"/a\" }\ncapacity = 100", &["many"]);
        check(HUB, "name = \"many\"", "name = \"more\"", &["many", "more"]);
        check(HUB, "{ name = \"urgent\" }", "{ name = \"urgent\", headroom = 0.5 }", &["classes"]);
        check(HUB, "horizon = \"50ms\"", "horizon = \"60ms\"", &["other settings"]);
        check(HUB, "name = \"hub\"", "name = \"hub\"\ndialect = \"github\"", &["other settings"]);
    }

    #[test]
    fn capacities_that_a_provider_corrects_do_not_differ() {
        let provided = format!("{HUB}{PROVIDER}");
        check(&provided, "capacity = 4", "capacity = 5", &[]);
        check(&provided, "period = \"1h\"", "period = \"2h\"", &["many"]);
    }
}
