//! Labels that keyed limits need and requests may lack.

use rampmeter_policy::Resource;
use rampmeter_policy::ids::LimitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::LimitStatus;

/// Once this many requests lack a label, workers evidently do not send it.
const MANY: u32 = 10;

/// The keyed limits, and those of their labels that no request has carried yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyLabels(Vec<MissingLabels>);

#[derive(Clone, Debug)]
struct MissingLabels {
    limit: LimitId,
    name: Name,
    key: Vec<String>,
    /// The labels of the key that no request has carried.
    labels: Vec<String>,
    /// Requests that met all conditions of the limit but lacked a label; at most [`MANY`].
    skipped: u32,
}

impl KeyLabels {
    /// Notes the labels of a request, and warns of keyed limits that skip every request.
    pub(crate) fn warn(&mut self, resource: &Resource, labels: &Labels<'_>) {
        for (limit, labels) in self.note(resource, labels) {
            let (resource, label) = (resource.name(), labels.join("`, `"));
            tracing::warn!(%resource, "no request carries the label `{label}`, so that the limit `{limit}` holds none");
        }
    }

    /// Notes the labels of a request. Returns the limits that have now skipped many, with the labels they all lacked.
    fn note(&mut self, resource: &Resource, labels: &Labels<'_>) -> Vec<(Name, Vec<String>)> {
        self.keep_to(resource);
        let mut noticed = Vec::new();
        for limit in self.0.iter_mut().filter(|limit| !limit.labels.is_empty()) {
            limit.labels.retain(|label| labels.get(label).is_none());
            if limit.labels.is_empty() || limit.skipped == MANY {
                continue;
            }
            limit.skipped += u32::from(resource.conditions_hold(limit.limit, labels));
            if limit.skipped == MANY {
                noticed.push((limit.name.clone(), limit.labels.clone()));
            }
        }
        noticed
    }

    /// Adds the labels that requests have lacked to the status of limits.
    pub(crate) fn describe(&self, limits: &mut [LimitStatus]) {
        for limit in self.0.iter().filter(|limit| limit.skipped > 0) {
            let shown = limits.iter_mut().filter(|shown| shown.name == limit.name);
            shown.for_each(|shown| shown.missing_labels.clone_from(&limit.labels));
        }
    }

    /// Watches the keyed limits of `resource`. A limit with an unchanged key keeps its counts.
    fn keep_to(&mut self, resource: &Resource) {
        let is_known = |(known, id): (&MissingLabels, LimitId)| {
            let spec = resource[id].spec();
            known.limit == id && known.name == spec.name && known.key == spec.applies.key
        };
        if self.0.len() == resource.keyed_limits().count() && self.0.iter().zip(resource.keyed_limits()).all(is_known) {
            return;
        }
        let before = std::mem::take(&mut self.0);
        self.0 = resource.keyed_limits().map(|id| MissingLabels::of(resource, id, &before)).collect();
    }
}

impl MissingLabels {
    fn of(resource: &Resource, limit: LimitId, before: &[MissingLabels]) -> Self {
        let (name, key) = (resource[limit].spec().name.clone(), resource[limit].spec().applies.key.clone());
        match before.iter().find(|before| before.name == name && before.key == key) {
            Some(known) => MissingLabels { limit, ..known.clone() },
            None => MissingLabels { limit, name, labels: key.clone(), key, skipped: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::spec::{Applies, LimitSpec, Pattern, ResourceSpec};
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::epoch::Epoch;
    use rampmeter_protocol::time::{Span, Time};
    use rampmeter_scheduler_core::scheduler::Scheduler;

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    fn resource(limits: Vec<Applies>) -> Resource {
        let spec = |(number, applies): (usize, Applies)| {
            let limit = LimitSpec::new(
                name(&format!("limit-{number}")),
                name("requests"),
                Amount::new(5.0).unwrap(),
                Span::from_secs(1),
            );
            LimitSpec { applies, ..limit }
        };
        let limits = limits.into_iter().enumerate().map(spec).collect();
        Resource::new(&ResourceSpec::new(name("api"), limits)).unwrap()
    }

    fn keyed(labels: &[&str]) -> Applies {
        Applies { key: labels.iter().map(|label| (*label).to_owned()).collect(), ..Applies::default() }
    }

    /// One limit for all requests, and one for each client and region that calls `/export`.
    fn each_client() -> Resource {
        let matching = [("route".to_owned(), Pattern::Exact("/export".to_owned()))].into();
        resource(vec![Applies::default(), Applies { matching, ..keyed(&["client", "region"]) }])
    }

    fn note(known: &mut KeyLabels, resource: &Resource, labels: &[(&str, &str)]) -> usize {
        let mut carried = Labels::new();
        labels.iter().for_each(|(label, value)| carried.set(*label, *value).unwrap());
        known.note(resource, &carried).len()
    }

    /// The missing labels of the last limit.
    fn missing(known: &KeyLabels, resource: &Resource) -> Vec<String> {
        let mut scheduler: Scheduler<()> = Scheduler::new(resource.clone(), Epoch::FIRST, Time::ORIGIN);
        let mut limits = scheduler.limit_status(Time::ORIGIN);
        known.describe(&mut limits);
        limits.pop().unwrap().missing_labels
    }

    #[test]
    fn a_label_that_no_request_carries_is_missing_once_a_request_would_need_it() {
        let (mut known, resource) = (KeyLabels::default(), each_client());
        note(&mut known, &resource, &[("route", "/list")]);
        assert_eq!(missing(&known, &resource), [""; 0], "the limit is for other requests");
        note(&mut known, &resource, &[("route", "/export"), ("region", "eu")]);
        assert_eq!(missing(&known, &resource), ["client"]);
        note(&mut known, &resource, &[("client", "ada")]);
        assert_eq!(missing(&known, &resource), [""; 0], "a request without it is no mistake");
    }

    #[test]
    fn ten_requests_without_a_label_are_noticed_once() {
        let (mut known, resource) = (KeyLabels::default(), each_client());
        let noticed = (1..=30).map(|_| note(&mut known, &resource, &[("route", "/export")]));
        let expected = (1..=30).map(|number| usize::from(number == 10));
        assert_eq!(noticed.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        assert_eq!(missing(&known, &resource), ["client", "region"]);
    }

    #[test]
    fn new_limits_are_watched_anew_and_others_go_on() {
        let mut known = KeyLabels::default();
        note(&mut known, &resource(vec![keyed(&["client"])]), &[("client", "ada")]);
        let by_team = resource(vec![keyed(&["team"])]);
        note(&mut known, &by_team, &[("client", "ada")]);
        assert_eq!(missing(&known, &by_team), ["team"]);
        let more = resource(vec![keyed(&["team"]), keyed(&["client"])]);
        (0..8).for_each(|_| assert_eq!(note(&mut known, &more, &[("client", "ada")]), 0));
        assert_eq!(note(&mut known, &more, &[("client", "ada")]), 1, "the tenth request without a team");
    }
}
