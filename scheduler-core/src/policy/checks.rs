//! Validation of a resource's specification.

use super::applies::{MAX_KEY_LABELS, Pattern};
use super::spec::{
    ClassSpec, LEAST_FLOOR, LONGEST_RESERVATION, LONGEST_RIDE, Learn, LimitSpec, MAX_CLASSES, MAX_LIMITS, MAX_PERIOD,
    Margin, OnStoreLoss, ResourceSpec, SHORTEST_RESERVATION, SHORTEST_VALIDITY, SpecError, SpecField,
};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Span;
use std::ops::RangeInclusive;

/// A field, whether it is valid, and the message if it is not.
type Rule = (&'static str, bool, String);

/// # Errors
/// The first fault found, with its place.
pub(crate) fn check(spec: &ResourceSpec) -> Result<(), SpecError> {
    let (limits, classes) = (&spec.limits, &spec.classes_or_default());
    let default = spec.default_class.as_ref().unwrap_or(&classes[0].name);
    let ride = match spec.on_store_loss {
        OnStoreLoss::Hold => LONGEST_RIDE,
        OnStoreLoss::Ride(span) => span,
    };
    let rules = [
        ("limit", (1..=MAX_LIMITS).contains(&limits.len()), format!("a resource has 1 to {MAX_LIMITS} limits")),
        ("classes", classes.len() <= MAX_CLASSES, format!("a resource has at most {MAX_CLASSES} classes")),
        within("reservation", spec.reservation, SHORTEST_RESERVATION..=LONGEST_RESERVATION),
        within("validity", spec.validity, SHORTEST_VALIDITY..=MAX_PERIOD),
        within("ride_for", ride, SHORTEST_RESERVATION..=LONGEST_RIDE),
        ("default_class", classes.iter().any(|class| class.name == *default), format!("there is no class `{default}`")),
    ];
    keep(SpecField::Resource, rules)?;
    let mut limits = limits.iter().enumerate();
    limits.try_for_each(|(index, limit)| check_limit(index, limit, &spec.limits[..index]))?;
    let mut each_class = classes.iter().enumerate();
    each_class.try_for_each(|(index, class)| check_class(index, class, &classes[..index]))
}

fn within(field: &'static str, span: Span, range: RangeInclusive<Span>) -> Rule {
    let reason = format!("`{field}` is from {} to {}, not {span}", range.start(), range.end());
    (field, range.contains(&span), reason)
}

fn check_limit(index: usize, limit: &LimitSpec, before: &[LimitSpec]) -> Result<(), SpecError> {
    let LimitSpec { name, capacity, period, applies, .. } = limit;
    let floor = match limit.learn {
        Learn::Above(floor) => floor,
        Learn::Never => 1.0,
    };
    let margin = match limit.margin {
        Margin::Fixed(margin) => margin,
        Margin::Auto => Amount::ZERO,
    };
    let key = &applies.key;
    let named_twice = (1..key.len()).any(|second| key[..second].contains(&key[second]));
    let wrong = applies.matching.values().filter_map(Pattern::expression).find_map(Result::err);
    let wrong = wrong.map_or(String::new(), |error| error.to_string());
    let floors = format!("a floor is a share of the rate from {LEAST_FLOOR} to 1, not {floor}");
    let rules = [
        ("name", before.iter().all(|other| other.name != *name), format!("there are two limits `{name}`")),
        ("capacity", *capacity > Amount::ZERO, "a capacity is above 0".to_owned()),
        (
            "period",
            *period > Span::ZERO && *period <= MAX_PERIOD,
            "a period is above 0 and at most 366 days".to_owned(),
        ),
        ("floor", (LEAST_FLOOR..=1.0).contains(&floor), floors),
        ("key", key.len() <= MAX_KEY_LABELS, format!("a key is of at most {MAX_KEY_LABELS} labels, not {}", key.len())),
        ("key", !key.iter().any(String::is_empty), "a label has a name".to_owned()),
        ("key", !named_twice, "a label is named twice".to_owned()),
        ("margin", margin < *capacity, format!("a margin is below the capacity of {capacity}")),
        ("match", wrong.is_empty(), format!("not a regular expression: {wrong}")),
    ];
    keep(|field| SpecField::Limit(index, field), rules)
}

fn check_class(index: usize, class: &ClassSpec, before: &[ClassSpec]) -> Result<(), SpecError> {
    let ClassSpec { name, headroom, max_starvation } = class;
    let rules = [
        ("name", before.iter().all(|other| other.name != *name), format!("there are two classes `{name}`")),
        ("headroom", (0.0..1.0).contains(headroom), format!("a headroom is a share from 0 to below 1, not {headroom}")),
        ("max_starvation", *max_starvation != Some(Span::ZERO), "a starvation is longer than 0".to_owned()),
    ];
    keep(|field| SpecField::Class(index, field), rules)
}

fn keep<const N: usize>(place: impl Fn(&'static str) -> SpecField, rules: [Rule; N]) -> Result<(), SpecError> {
    match rules.into_iter().find(|(_, is_kept, _)| !is_kept) {
        Some((field, _, reason)) => Err(SpecError { place: place(field), reason }),
        None => Ok(()),
    }
}
