//! What is wrong with a specification.

use crate::applies::{Applies, MAX_KEY_LABELS};
use crate::spec::{
    ClassSpec, LEAST_FLOOR, LONGEST_RESERVATION, LONGEST_RIDE, Learn, LimitSpec, MAX_CLASSES, MAX_LIMITS, MAX_PERIOD,
    Margin, OnStoreLoss, Place, ResourceSpec, SHORTEST_RESERVATION, SHORTEST_VALIDITY, SpecError,
};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Span;
use std::ops::RangeInclusive;

pub(crate) fn check_times(spec: &ResourceSpec) -> Result<(), SpecError> {
    let within = |field, span: Span, range: RangeInclusive<Span>| {
        let reason = format!("`{field}` is from {} to {}, not {span}", range.start(), range.end());
        if range.contains(&span) { Ok(()) } else { Err(fault(Place::Resource(field), reason)) }
    };
    within("reservation", spec.reservation, SHORTEST_RESERVATION..=LONGEST_RESERVATION)?;
    within("validity", spec.validity, SHORTEST_VALIDITY..=MAX_PERIOD)?;
    match spec.on_store_loss {
        OnStoreLoss::Hold => Ok(()),
        OnStoreLoss::Ride(span) => within("ride_for", span, SHORTEST_RESERVATION..=LONGEST_RIDE),
    }
}

pub(crate) fn check_limits(limits: &[LimitSpec]) -> Result<(), SpecError> {
    if !(1..=MAX_LIMITS).contains(&limits.len()) {
        return Err(fault(Place::Resource("limit"), format!("a resource has 1 to {MAX_LIMITS} limits")));
    }
    limits.iter().enumerate().try_for_each(|(index, limit)| {
        let twice = limits[..index].iter().any(|other| other.name == limit.name);
        check_limit(index, limit, twice)
    })
}

fn check_limit(index: usize, limit: &LimitSpec, twice: bool) -> Result<(), SpecError> {
    let at = |field| Place::Limit(index, field);
    if twice {
        return Err(fault(at("name"), format!("there are two limits `{}`", limit.name)));
    }
    if limit.capacity == Amount::ZERO {
        return Err(fault(at("capacity"), "a capacity is above 0".to_owned()));
    }
    if limit.period == Span::ZERO || limit.period > MAX_PERIOD {
        return Err(fault(at("period"), "a period is above 0 and at most 366 days".to_owned()));
    }
    check_floor(index, limit.learn)?;
    check_key(index, &limit.applies)?;
    match limit.margin {
        Margin::Fixed(margin) if margin >= limit.capacity => {
            Err(fault(at("margin"), format!("a margin is below the capacity of {}", limit.capacity)))
        }
        Margin::Fixed(_) | Margin::Auto => Ok(()),
    }
}

fn check_key(index: usize, applies: &Applies) -> Result<(), SpecError> {
    let Applies { key, .. } = applies;
    let wrong = match () {
        () if key.len() > MAX_KEY_LABELS => format!("a key is of at most {MAX_KEY_LABELS} labels, not {}", key.len()),
        () if key.iter().any(String::is_empty) => "a label has a name".to_owned(),
        () if (1..key.len()).any(|second| key[..second].contains(&key[second])) => "a label is named twice".to_owned(),
        () => return Ok(()),
    };
    Err(fault(Place::Limit(index, "key"), wrong))
}

fn check_floor(index: usize, learn: Learn) -> Result<(), SpecError> {
    match learn {
        Learn::Above(floor) if !(LEAST_FLOOR..=1.0).contains(&floor) => {
            let reason = format!("a floor is a share of the rate from {LEAST_FLOOR} to 1, not {floor}");
            Err(fault(Place::Limit(index, "floor"), reason))
        }
        Learn::Above(_) | Learn::Never => Ok(()),
    }
}

pub(crate) fn check_classes(classes: &[ClassSpec]) -> Result<(), SpecError> {
    if classes.len() > MAX_CLASSES {
        return Err(fault(Place::Resource("classes"), format!("a resource has at most {MAX_CLASSES} classes")));
    }
    classes.iter().enumerate().try_for_each(|(index, class)| {
        let twice = classes[..index].iter().any(|other| other.name == class.name);
        check_class(index, class, twice)
    })
}

fn check_class(index: usize, class: &ClassSpec, twice: bool) -> Result<(), SpecError> {
    let at = |field| Place::Class(index, field);
    if twice {
        return Err(fault(at("name"), format!("there are two classes `{}`", class.name)));
    }
    if !(0.0..1.0).contains(&class.headroom) {
        return Err(fault(at("headroom"), format!("a headroom is a share from 0 to below 1, not {}", class.headroom)));
    }
    if class.max_starvation == Some(Span::ZERO) {
        return Err(fault(at("max_starvation"), "a starvation is longer than 0".to_owned()));
    }
    Ok(())
}

pub(crate) fn fault(place: Place, reason: String) -> SpecError {
    SpecError { place, reason }
}
