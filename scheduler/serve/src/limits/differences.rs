//! Detects other schedulers that lead a shared resource under another configuration.
//!
//! Every scheduler announces its fingerprints and compares those of others with its own once a second.
//! New rules reach schedulers one by one, so a difference is reported only when it has lasted for 3 s.

use crate::limits::fingerprint::Fingerprint;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::DifferingScheduler;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The fingerprints of one scheduler, by resource.
pub type Fingerprints = BTreeMap<Name, Fingerprint>;

/// A scheduler that was not seen for this long is gone: it missed two of three pings.
const GONE_AFTER: Span = Span::from_secs(3);
/// How long a difference has to last. New rules reach all schedulers within a second.
const SETTLED_AFTER: Span = Span::from_secs(3);
/// Bound on an announcement, a quarter of NATS's largest message: about 2000 resources. Others are not compared.
const MAX_ANNOUNCED_BYTES: usize = 256 * 1024;

/// The fingerprints of all live schedulers. The lock is held for one comparison.
#[derive(Debug, Default)]
pub struct Differences(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    own: Fingerprints,
    others: BTreeMap<String, Announced>,
    found: BTreeMap<(Name, String), Deviation>,
}

#[derive(Debug)]
struct Announced {
    at: Time,
    fingerprints: Fingerprints,
}

/// A difference. When it changes, its old form is reported until the new one has lasted.
#[derive(Debug)]
struct Deviation {
    difference: DifferingScheduler,
    since: Time,
    reported: Option<DifferingScheduler>,
}

impl Differences {
    /// Sets the fingerprint of this scheduler for `resource`.
    pub fn set_own(&self, resource: &Name, fingerprint: Fingerprint) {
        self.lock().own.insert(resource.clone(), fingerprint);
    }

    /// Returns the announcement of this scheduler, as JSON.
    #[must_use]
    pub fn announced(&self) -> String {
        let state = self.lock();
        let (mut announced, mut bytes) = (BTreeMap::new(), 0);
        for (resource, fingerprint) in &state.own {
            let text = serde_json::to_string(&(resource, fingerprint)).expect("names and numbers");
            bytes += text.len();
            if bytes > MAX_ANNOUNCED_BYTES {
                break;
            }
            announced.insert(resource, fingerprint);
        }
        serde_json::to_string(&announced).expect("names and numbers")
    }

    /// Notes what another scheduler of the same version has announced.
    pub fn note(&self, now: Time, scheduler: &str, fingerprints: Fingerprints) {
        self.lock().others.insert(scheduler.to_owned(), Announced { at: now, fingerprints });
    }

    /// Compares all live schedulers, and logs differences that have begun or ended.
    pub fn compare(&self, now: Time) {
        let mut state = self.lock();
        state.others.retain(|_, other| now.since(other.at) < GONE_AFTER);
        let before = std::mem::take(&mut state.found);
        for (key, difference) in state.differences() {
            let known = before.get(&key);
            let since = known.filter(|known| known.difference == difference).map_or(now, |known| known.since);
            let mut reported = known.and_then(|known| known.reported.clone());
            if now.since(since) >= SETTLED_AFTER && reported.as_ref() != Some(&difference) {
                let ((resource, scheduler), differs) = (&key, &difference);
                tracing::warn!(%resource, scheduler, %differs, "another scheduler has another configuration; which one counts depends on which of them leads");
                reported = Some(difference.clone());
            }
            state.found.insert(key, Deviation { difference, since, reported });
        }
        for ((resource, scheduler), _) in
            before.iter().filter(|(key, known)| known.reported.is_some() && state.agrees_on(key))
        {
            tracing::info!(%resource, scheduler, "the other scheduler has the same configuration again");
        }
    }

    /// Returns the schedulers that differ for `resource`.
    #[must_use]
    pub fn of(&self, resource: &Name) -> Vec<DifferingScheduler> {
        self.all().remove(resource).unwrap_or_default()
    }

    /// Returns the schedulers that differ, by resource.
    #[must_use]
    pub fn all(&self) -> BTreeMap<Name, Vec<DifferingScheduler>> {
        let state = self.lock();
        let mut all: BTreeMap<Name, Vec<DifferingScheduler>> = BTreeMap::new();
        for ((resource, _), found) in &state.found {
            if let Some(differing) = &found.reported {
                all.entry(resource.clone()).or_default().push(differing.clone());
            }
        }
        all
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the present differences between the other schedulers and this one.
    fn differences(&self) -> BTreeMap<(Name, String), DifferingScheduler> {
        let mut differences = BTreeMap::new();
        for (scheduler, other) in &self.others {
            for (resource, other) in &other.fingerprints {
                if let Some(difference) = self.own.get(resource).and_then(|own| own.difference(scheduler, other)) {
                    differences.insert((resource.clone(), scheduler.clone()), difference);
                }
            }
        }
        differences
    }

    /// Returns whether a scheduler lives and counts as this one does.
    fn agrees_on(&self, (resource, scheduler): &(Name, String)) -> bool {
        let other = self.others.get(scheduler).and_then(|other| other.fingerprints.get(resource));
        other.is_some_and(|other| self.own.get(resource) == Some(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// For each second, the hashes that the scheduler `other` announces, and the limits that are
    /// reported to differ then.
    fn check(script: &[(u64, Option<u32>, &[&str])]) {
        let (differences, hub) = (Differences::default(), Name::new("hub").unwrap());
        differences.set_own(&hub, fingerprint(1));
        for (secs, announced, expected) in script {
            let now = Time::ORIGIN + Span::from_secs(*secs);
            if let Some(few) = announced {
                differences.note(now, "other", Fingerprints::from([(hub.clone(), fingerprint(*few))]));
            }
            differences.compare(now);
            let reported = differences.of(&hub).into_iter().flat_map(|other| other.limits);
            assert_eq!(reported.map(|limit| limit.to_string()).collect::<Vec<_>>(), *expected, "after {secs} s");
        }
    }

    /// A fingerprint of two digits: the hash of the settings, and that of the limit.
    fn fingerprint(hashes: u32) -> Fingerprint {
        let (few, settings) = (hashes % 10, hashes / 10);
        serde_json::from_value(json!({"limits": {"few": few}, "classes": 0, "settings": settings})).unwrap()
    }

    #[test]
    fn a_difference_is_told_when_it_has_lasted_and_until_it_ends() {
        check(&[(0, Some(2), &[]), (2, Some(2), &[]), (3, Some(2), &["few"]), (4, Some(1), &[])]);
        // Rules that reach one scheduler after the other.
        check(&[(0, Some(2), &[]), (2, Some(1), &[]), (4, Some(2), &[]), (6, Some(2), &[]), (7, Some(2), &["few"])]);
        // A scheduler that is gone.
        check(&[(0, Some(2), &[]), (2, Some(2), &[]), (4, None, &["few"]), (5, None, &[])]);
        check(&[(0, Some(1), &[]), (2, Some(1), &[]), (4, Some(1), &[])]);
        // Another difference is reported only after it has lasted.
        let begin = [(0, Some(2), [].as_slice()), (2, Some(2), &[]), (3, Some(2), &["few"])];
        check(&[&begin[..], &[(4, Some(12), &["few"]), (5, Some(1), &[])]].concat());
    }

    #[test]
    fn resources_that_the_other_does_not_have_are_not_compared() {
        let (differences, name) = (Differences::default(), |name| Name::new(name).unwrap());
        differences.set_own(&name("hub"), fingerprint(1));
        for secs in [0, 2, 4] {
            let now = Time::ORIGIN + Span::from_secs(secs);
            differences.note(now, "other", Fingerprints::from([(name("maps"), fingerprint(2))]));
            differences.compare(now);
        }
        assert!(differences.all().is_empty());
    }

    #[test]
    fn an_announcement_has_a_bound() {
        let differences = Differences::default();
        for number in 0..10_000 {
            let name = format!("{number:0>64}");
            differences.set_own(&Name::new(&name).unwrap(), fingerprint(1));
        }
        let text = differences.announced();
        assert!(text.len() <= MAX_ANNOUNCED_BYTES && text.len() > MAX_ANNOUNCED_BYTES / 2, "{}", text.len());
        let read: Fingerprints = serde_json::from_str(&text).unwrap();
        assert!(read.len() > 1_000);
    }
}
