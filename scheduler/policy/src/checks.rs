//! Validation of a resource's specification.

use super::applies::{MAX_KEY_LABELS, Pattern};
use super::spec::{
    ClassSpec, Learn, LimitSpec, MAX_BOUND, MAX_CLASSES, MAX_HORIZON, MAX_LIMITS, MAX_PERIOD, MAX_RESERVATION,
    MIN_FLOOR, MIN_RESERVATION, MIN_VALIDITY, Margin, ResourceSpec, SpecError, SpecField,
};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use std::ops::RangeInclusive;

/// A field, whether it is valid, and the message if it is not.
type Rule = (&'static str, bool, String);

/// Returns all faults of a specification: of the resource, of its limits, then of its classes.
pub(crate) fn faults(spec: &ResourceSpec) -> Vec<SpecError> {
    let (limits, classes) = (&spec.limits, &spec.classes_or_default());
    let default = spec.default_class.as_ref().unwrap_or(&classes[0].name);
    let per_account = limits.iter().filter(|limit| limit.per_account).count();
    let count = limits.len() - per_account + per_account * spec.accounts.len();
    let has_limits = spec.has_limits() && count <= MAX_LIMITS;
    let rules = [
        ("limits", has_limits, format!("a resource has 1 to {MAX_LIMITS} limits, those of each account counted")),
        ("classes", classes.len() <= MAX_CLASSES, format!("a resource has at most {MAX_CLASSES} classes")),
        within("horizon", spec.horizon, Span::ZERO..=MAX_HORIZON),
        bound("max_waiting", spec.bounds.max_waiting),
        bound("max_permits", spec.bounds.max_permits),
        bound("max_keys", spec.bounds.max_keys),
        within("reservation", spec.reservation, MIN_RESERVATION..=MAX_RESERVATION),
        within("validity", spec.validity, MIN_VALIDITY..=MAX_PERIOD),
        within("max_ahead", spec.max_ahead.unwrap_or(MAX_PERIOD), Span::ZERO..=MAX_PERIOD),
        ("default_class", classes.iter().any(|class| class.name == *default), no_class(default, classes)),
    ];
    let mut faults = broken(SpecField::Resource, rules);
    faults.extend(broken(SpecField::Resource, key_rules("discover_key", &spec.discover_key)));
    faults.extend((0..limits.len()).flat_map(|index| limit_faults(index, &limits[index], &limits[..index])));
    faults.extend(super::accounts::faults(spec));
    faults.extend((0..classes.len()).flat_map(|index| class_faults(index, &classes[index], &classes[..index])));
    faults
}

fn no_class(name: &Name, classes: &[ClassSpec]) -> String {
    let known: Vec<String> = classes.iter().map(|class| format!("`{}`", class.name)).collect();
    format!("there is no class `{name}`; there are {}", known.join(", "))
}

fn within(field: &'static str, span: Span, range: RangeInclusive<Span>) -> Rule {
    let reason = format!("`{field}` is from {} to {}, not {span}", range.start(), range.end());
    (field, range.contains(&span), reason)
}

/// Checks a bound: with 0, it would shut out all clients.
fn bound(field: &'static str, bound: usize) -> Rule {
    (field, (1..=MAX_BOUND).contains(&bound), format!("a bound is from 1 to {MAX_BOUND}"))
}

fn limit_faults(index: usize, limit: &LimitSpec, before: &[LimitSpec]) -> Vec<SpecError> {
    let LimitSpec { name, capacity, period, applies, .. } = limit;
    let floor = if let Learn::Above(floor) = limit.learn { floor } else { 1.0 };
    let margin = if let Margin::Fixed(margin) = limit.margin { margin } else { Amount::ZERO };
    let is_period = *period > Span::ZERO && *period <= MAX_PERIOD;
    let mut expressions = applies.matching.values().filter_map(Pattern::expression);
    let wrong = expressions.find_map(Result::err).map_or(String::new(), |error| error.to_string());
    let floors = format!("a floor is a share of the rate from {MIN_FLOOR} to 1, not {floor}");
    let rules = [
        ("name", before.iter().all(|other| other.name != *name), format!("there are two limits `{name}`")),
        ("capacity", *capacity > Amount::ZERO, "a capacity is above 0".to_owned()),
        ("period", is_period, "a period is above 0 and at most 366 days".to_owned()),
        ("floor", (MIN_FLOOR..=1.0).contains(&floor), floors),
        (
            "margin",
            *capacity == Amount::ZERO || margin < *capacity,
            format!("a margin is below the capacity of {capacity}"),
        ),
        ("match", wrong.is_empty(), format!("not a regular expression: {wrong}")),
    ];
    let rules = rules.into_iter().chain(key_rules("key", &applies.key));
    broken(|field| SpecField::Limit(index, field), rules)
}

/// Returns the rules for the labels of a key, in the configuration of a limit or of discovery.
fn key_rules(field: &'static str, key: &[String]) -> [Rule; 3] {
    let named_twice = (1..key.len()).any(|second| key[..second].contains(&key[second]));
    [
        (field, key.len() <= MAX_KEY_LABELS, format!("a key is of at most {MAX_KEY_LABELS} labels, not {}", key.len())),
        (field, !key.iter().any(String::is_empty), "a label has a name".to_owned()),
        (field, !named_twice, "a label is named twice".to_owned()),
    ]
}

fn class_faults(index: usize, class: &ClassSpec, before: &[ClassSpec]) -> Vec<SpecError> {
    let ClassSpec { name, headroom, max_starvation } = class;
    let rules = [
        ("name", before.iter().all(|other| other.name != *name), format!("there are two classes `{name}`")),
        ("headroom", (0.0..1.0).contains(headroom), format!("a headroom is a share from 0 to below 1, not {headroom}")),
        ("max_starvation", *max_starvation != Some(Span::ZERO), "a starvation is longer than 0".to_owned()),
    ];
    broken(|field| SpecField::Class(index, field), rules)
}

fn broken(field_of: impl Fn(&'static str) -> SpecField, rules: impl IntoIterator<Item = Rule>) -> Vec<SpecError> {
    let broken = rules.into_iter().filter(|(_, is_kept, _)| !is_kept);
    broken.map(|(field, _, reason)| SpecError { field: field_of(field), reason }).collect()
}
