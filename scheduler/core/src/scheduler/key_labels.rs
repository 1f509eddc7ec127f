//! Labels that keyed limits need and that requests may lack.

use crate::ids::LimitId;
use crate::policy::Resource;
use rampmeter_protocol::labels::Labels;

/// Once this many requests lack a label, workers evidently do not send it.
const MANY: u32 = 10;

/// The keyed limits with labels that no request has carried yet. Empty once all were carried.
#[derive(Clone, Debug)]
pub(crate) struct KeyLabels(Vec<MissingLabels>);

#[derive(Clone, Debug)]
struct MissingLabels {
    limit: LimitId,
    /// Labels that no request has carried; never empty.
    labels: Vec<String>,
    /// Requests that met all conditions of the limit and lacked a label; at most [`MANY`].
    skipped: u32,
}

impl KeyLabels {
    pub(crate) fn new(resource: &Resource) -> Self {
        let missing = |limit| MissingLabels { limit, labels: resource[limit].spec().applies.key.clone(), skipped: 0 };
        KeyLabels(resource.keyed_limits().map(missing).collect())
    }

    /// The limits that have skipped requests, and the labels that all of these lacked.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (LimitId, &[String])> {
        self.0.iter().filter(|limit| limit.skipped > 0).map(|limit| (limit.limit, &*limit.labels))
    }

    /// The labels of this limit's key that no request has carried yet.
    pub(crate) fn missing_of(&self, limit: LimitId) -> &[String] {
        let known = self.0.iter().find(|known| known.limit == limit);
        known.map_or(&[], |known| &known.labels)
    }

    /// Notes the labels of a request. Returns the limits that have just skipped many requests.
    pub(crate) fn note(&mut self, resource: &Resource, labels: &Labels<'_>) -> Vec<LimitId> {
        self.0.retain_mut(|limit| {
            limit.labels.retain(|label| labels.get(label).is_none());
            !limit.labels.is_empty()
        });
        let mut found = Vec::new();
        for limit in self.0.iter_mut().filter(|limit| limit.skipped < MANY) {
            limit.skipped += u32::from(resource.conditions_hold(limit.limit, labels));
            if limit.skipped == MANY {
                found.push(limit.limit);
            }
        }
        found
    }
}
