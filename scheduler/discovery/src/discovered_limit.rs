//! Discovered limits and their evidence.

use rampmeter_policy::spec::{Algorithm, Alignment, Applies, Learn, LimitSpec, MAX_PERIOD, Pattern};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A limit is dropped after this many responses in a row without it, to calls charged to it.
const DENIALS: u32 = 8;
/// This many responses establish a limit; before, it is dropped if unrepeated for [`UNREPEATED`].
const ESTABLISHED: u32 = 20;
const UNREPEATED: Span = Span::from_secs(60);
/// A limit changes after this many responses in a row that state the same change.
const CONSISTENT: u32 = 3;

rampmeter_protocol::named! {
    /// The evidence by which a limit was discovered. Its name is in status and records.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Evidence {
        /// Headers that describe it.
        Headers = "headers",
        /// Rejected calls whose responses name no limit.
        Refusals = "refusals",
        /// Rejections and slow responses while calls were in flight.
        InFlight = "in-flight",
    }
}

/// A discovered limit as records have it, for a successor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredSnapshot {
    /// The name in the status. A configured limit of this name takes precedence.
    pub name: Name,
    /// The unit that it counts.
    pub unit: Name,
    /// The evidence for it.
    #[serde(rename = "origin")]
    pub evidence: Evidence,
    /// Whether it refills all the time.
    #[serde(rename = "gradual", skip_serializing_if = "std::ops::Not::not", default)]
    pub is_gradual: bool,
    /// Its capacity within its period; in records, in millionths.
    #[serde(with = "micros")]
    pub capacity: Amount,
    /// Its period.
    pub period: Span,
    /// The routes that it applies to; empty for all routes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub routes: Vec<String>,
    /// The labels of its key.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub key: Vec<String>,
    /// How long it has been known.
    pub age: Span,
}

mod micros {
    use super::Amount;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(amount: &Amount, serializer: S) -> Result<S::Ok, S::Error> {
        amount.micros().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        Amount::from_micros(u64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct DiscoveredLimit {
    pub(crate) spec: LimitSpec,
    pub(crate) evidence: Evidence,
    pub(crate) in_force: Amount,
    pub(crate) since: Time,
    /// The stock that was left on discovery, until the limit is in force.
    pub(crate) left: Option<Amount>,
    answers: u32,
    /// Responses in a row with headers about other limits only.
    pub(crate) denials: u32,
    last: Time,
    longer: u32,
    /// Another capacity, and how many responses in a row state it.
    other: (Amount, u32),
}

impl DiscoveredLimit {
    pub(crate) fn new(spec: LimitSpec, evidence: Evidence, left: Option<Amount>, now: Time) -> Self {
        let (in_force, since) = (spec.capacity, now);
        let (answers, last, other) = (1, now, (Amount::ZERO, 0));
        DiscoveredLimit { spec, evidence, in_force, since, left, answers, denials: 0, last, longer: 0, other }
    }

    /// Restores a limit that a predecessor discovered. `route` is the label with routes.
    pub(crate) fn restored(known: &DiscoveredSnapshot, route: Option<&str>, now: Time) -> Self {
        let capacity = if known.capacity > Amount::ZERO { known.capacity } else { Amount::SMALLEST };
        let period = known.period.max(Span::from_nanos(1));
        let routes = Some(known.routes.iter().cloned().collect::<BTreeSet<_>>()).filter(|routes| !routes.is_empty());
        let matching = routes.zip(route).map(|(routes, label)| (label.to_owned(), Pattern::OneOf(routes)));
        let applies = Applies { matching: matching.into_iter().collect(), key: known.key.clone(), group: None };
        let spec = LimitSpec {
            algorithm: algorithm(known.is_gradual),
            applies,
            ..LimitSpec::new(known.name.clone(), known.unit.clone(), capacity, period)
        };
        let since = now - known.age;
        DiscoveredLimit { answers: ESTABLISHED, since, ..DiscoveredLimit::new(spec, known.evidence, None, now) }
    }

    pub(crate) fn snapshot(&self, now: Time) -> DiscoveredSnapshot {
        DiscoveredSnapshot {
            name: self.spec.name.clone(),
            unit: self.spec.unit.clone(),
            evidence: self.evidence,
            is_gradual: self.spec.algorithm == Algorithm::TokenBucket,
            capacity: if self.evidence == Evidence::Headers { self.spec.capacity } else { self.in_force },
            period: self.spec.period,
            routes: self.routes().cloned().collect(),
            key: self.spec.applies.key.clone(),
            age: now.since(self.since),
        }
    }

    /// Returns the limit as a configuration states it, a steered rate in calls per second or one per longer period.
    pub(crate) fn as_configuration(&self) -> LimitSpec {
        let (capacity, period) = (self.in_force, self.spec.period);
        let learn = if self.spec.is_steered() { Learn::Never } else { self.spec.learn };
        let spec = LimitSpec { capacity, learn, ..self.spec.clone() };
        if self.evidence != Evidence::Refusals {
            return spec;
        }
        let rate = capacity.units() / period.secs();
        let (capacity, period) = match Amount::new(rate) {
            Ok(calls) if calls >= Amount::ONE => (calls, Span::from_secs(1)),
            Ok(_) | Err(_) => (Amount::ONE, Span::from_nanos((1e9 / rate) as u64).min(MAX_PERIOD)),
        };
        LimitSpec { capacity, period, ..spec }
    }

    pub(crate) fn routes(&self) -> impl Iterator<Item = &String> {
        let patterns = self.spec.applies.matching.values();
        patterns.filter_map(|pattern| if let Pattern::OneOf(routes) = pattern { Some(routes) } else { None }).flatten()
    }

    /// Extends the limit to calls of this route. Returns whether the route is new.
    pub(crate) fn add_route(&mut self, label: &str, route: &str) -> bool {
        let Some(Pattern::OneOf(routes)) = self.spec.applies.matching.get_mut(label) else { return false };
        routes.insert(route.to_owned())
    }

    pub(crate) fn confirm(&mut self, now: Time) {
        self.answers = self.answers.saturating_add(1);
        (self.denials, self.last) = (0, now);
    }

    /// Returns whether to drop the limit: [`DENIALS`] responses lack it, or none repeats it.
    pub(crate) fn is_doubtful(&self, now: Time) -> bool {
        let is_unrepeated = self.lapses().is_some_and(|lapse| lapse <= now);
        self.evidence == Evidence::Headers && (self.denials >= DENIALS || is_unrepeated)
    }

    /// Returns when the limit is dropped unless a response repeats it.
    pub(crate) fn lapses(&self) -> Option<Time> {
        let may_lapse = self.evidence == Evidence::Headers && self.answers < ESTABLISHED;
        may_lapse.then_some(self.last + UNREPEATED + Span::from_nanos(1))
    }

    /// Adopts a longer period after [`CONSISTENT`] responses in a row. Returns whether it does.
    pub(crate) fn lengthen(&mut self, shown: Span) -> bool {
        self.longer = if shown > self.spec.period { self.longer + 1 } else { 0 };
        let counts = self.longer >= CONSISTENT;
        if counts {
            (self.spec.period, self.longer) = (shown, 0);
        }
        counts
    }

    /// Adopts another capacity once [`CONSISTENT`] responses in a row state it. Returns whether it changes. The
    /// bucket follows a lower capacity of a limit without keys, as for a configured limit.
    pub(crate) fn resize(&mut self, stated: Amount) -> bool {
        let (other, answers) = self.other;
        let counts_itself = stated < self.spec.capacity && !self.spec.applies.is_keyed();
        let is_other = stated != self.spec.capacity && !counts_itself;
        let repeated = if other == stated { answers + 1 } else { 1 };
        self.other = (stated, if is_other { repeated } else { 0 });
        let counts = is_other && repeated >= CONSISTENT;
        if counts {
            (self.spec.capacity, self.in_force) = (stated, stated);
        }
        counts
    }
}

/// The algorithm of a limit discovered by headers. As nothing tells when the upstream's windows begin, these
/// begin with their first call: they count as sliding windows, and so are safe for every beginning.
pub(crate) fn algorithm(is_gradual: bool) -> Algorithm {
    if is_gradual { Algorithm::TokenBucket } else { Algorithm::FixedWindow(Alignment::FirstUse) }
}
