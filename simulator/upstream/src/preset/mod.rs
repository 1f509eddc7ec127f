//! Presets of upstreams: their limits and the form of their responses.

pub(super) mod dialect;
pub(super) mod file;
pub(super) mod form;
pub(super) mod retry_after;
pub(super) mod template;

use crate::{Amount, Arrival, Cost, Dialect, Policy, RetryAfter, Rule, Unit, parsed::parsed, refusal::Refusal};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    num::{NonZeroU64, NonZeroUsize},
};

/// A known upstream: its limits and the form of its responses.
///
/// ```
/// use rampmeter_upstream::{Dialect, Preset};
///
/// let github = Preset::named("github")?;
/// assert_eq!(github.dialect, Dialect::Github);
/// assert_eq!(github.rules[0].policy.to_string(), "requests=5000/PT1H;first-use");
/// # Ok::<(), rampmeter_upstream::PresetError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The limits. A call needs room in each that counts it.
    #[serde(default, rename = "limit")]
    pub rules: Vec<Rule>,
    /// The form of its responses.
    #[serde(deserialize_with = "parsed")]
    pub dialect: Dialect,
    /// Bound on calls in flight. A call counts until its caller disconnects, or just before its
    /// response is sent, so that a client may call again once it has read the response.
    pub concurrency: Option<NonZeroUsize>,
    /// How a limit without its own refusal rejects calls.
    #[serde(default)]
    pub(crate) refusal: Refusal,
    /// How the bound on calls in flight rejects calls; by default as limits do.
    pub(crate) busy: Option<Refusal>,
    /// Amounts that the upstream itself computes.
    #[serde(default, rename = "charge")]
    pub(crate) charges: BTreeMap<Unit, Pricing>,
    pub(crate) invalid: Option<InvalidCalls>,
    /// Headers about the limit with the least left, besides those of the dialect.
    #[serde(default, deserialize_with = "template::headers")]
    pub(crate) headers: BTreeMap<String, String>,
    /// One response in this many has no header about limits.
    pub(crate) silent_every: Option<NonZeroU64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "`label`, `amounts` and `other`, or `sum`")]
pub(crate) enum Pricing {
    /// By the value of a label, whatever the call states.
    ByLabel { label: String, amounts: BTreeMap<String, u32>, other: u32 },
    /// The sum of other units, unless the call states the amount itself.
    Sum { sum: Vec<Unit> },
}

/// Calls with certain response statuses, too many of which close the upstream to all calls.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvalidCalls {
    #[serde(rename = "limit", deserialize_with = "parsed")]
    pub(crate) policy: Policy,
    pub(crate) statuses: Vec<u16>,
    pub(crate) refusal: Refusal,
}

impl Preset {
    /// Creates a preset with limits of all calls, in the dialect of Sentinel Hub.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Sets the form in which rejections state the wait.
    #[must_use]
    pub fn with_retry_after(self, form: RetryAfter) -> Self {
        Self { refusal: Refusal { retry_after: Some(form), ..self.refusal }, ..self }
    }

    /// Returns how rejections state a wait, unless the rejecting limit has its own form.
    #[must_use]
    pub fn retry_after(&self) -> RetryAfter {
        self.refusal.retry_after.unwrap_or(self.dialect.retry_after())
    }

    pub(crate) fn units(&self) -> impl Iterator<Item = &Unit> {
        let summed = self.charges.values().flat_map(|charge| match charge {
            Pricing::ByLabel { .. } => &[],
            Pricing::Sum { sum } => &sum[..],
        });
        self.rules.iter().map(|rule| rule.policy.unit()).chain(summed)
    }

    /// Returns the cost of a call, with the amounts that the upstream computes.
    pub(crate) fn cost(&self, arrival: &Arrival<'_>) -> Cost {
        self.charges.iter().fold(arrival.cost.clone(), |cost, (unit, charge)| match charge {
            Pricing::ByLabel { label, amounts, other } => {
                let amount = (arrival.label)(label).and_then(|value| amounts.get(&value).copied());
                cost.with(unit.clone(), Amount::whole(amount.unwrap_or(*other)))
            }
            Pricing::Sum { .. } if cost.of(unit) > Amount::ZERO => cost,
            Pricing::Sum { sum: units } => {
                let sum = units.iter().fold(Amount::ZERO, |sum, unit| sum.saturating_add(cost.of(unit)));
                cost.with(unit.clone(), sum)
            }
        })
    }
}
