//! The methods of arrays.

use super::{argument, check_count, given, no_method, position};
use crate::error::Problem;
use crate::machine::{Machine, Outcome};
use crate::value::{ArrayId, Value};
use std::cmp::Ordering;

/// Methods that treat an empty element like one that is undefined.
const BLIND_TO_EMPTY: [&str; 11] =
    ["at", "entries", "fill", "find", "findIndex", "includes", "join", "keys", "pop", "push", "values"];

/// `array.name(arguments)`
pub(crate) fn call(machine: &mut Machine, array: ArrayId, name: &str, arguments: &[Value]) -> Outcome {
    check_count(name, arguments, understood_arguments(name))?;
    if !BLIND_TO_EMPTY.contains(&name) {
        machine.check_dense(array)?;
    }
    match name {
        "push" => push(machine, array, arguments),
        "pop" => Ok(machine.elements_mut(array)?.pop().unwrap_or(Value::Undefined)),
        _ => {
            let elements = machine.elements(array)?;
            copied(machine, array, elements, name, arguments)
        }
    }
}

fn push(machine: &mut Machine, array: ArrayId, arguments: &[Value]) -> Outcome {
    for argument in arguments {
        machine.push(array, argument.clone())?;
    }
    Ok(number(machine.elements_mut(array)?.len()))
}

/// Methods that work on a copy of the elements, because a called function may change the array.
fn copied(machine: &mut Machine, array: ArrayId, elements: Vec<Value>, name: &str, arguments: &[Value]) -> Outcome {
    match name {
        "unshift" | "shift" | "reverse" | "fill" | "splice" | "sort" => {
            changing(machine, array, elements, name, arguments)
        }
        "map" | "filter" | "forEach" | "find" | "findIndex" | "some" | "every" | "flatMap" => {
            each(machine, array, elements.len(), name, &argument(arguments, 0))
        }
        "reduce" => reduce(machine, array, &elements, arguments),
        "includes" => Ok(Value::Boolean(includes(&elements, &argument(arguments, 0)))),
        "indexOf" => Ok(index(elements.iter().position(|element| element.same(&argument(arguments, 0))))),
        "at" => {
            let at = machine.number_of(&argument(arguments, 0))?.trunc();
            let from_end = if at < 0.0 { at + elements.len() as f64 } else { at };
            let element = if from_end < 0.0 { None } else { elements.get(from_end as usize) };
            Ok(element.cloned().unwrap_or(Value::Undefined))
        }
        "slice" => slice(machine, &elements, arguments),
        "concat" => concat(machine, elements, arguments),
        "flat" => {
            let depth = match given(arguments, 0) {
                Some(depth) => machine.number_of(depth)?,
                None => 1.0,
            };
            flat(machine, elements, depth)
        }
        "join" => {
            let between = match given(arguments, 0) {
                Some(between) => machine.text_of(between)?,
                None => ",".into(),
            };
            machine.join(&elements, &between).map(Value::Text)
        }
        "toString" => machine.join(&elements, ",").map(Value::Text),
        "keys" => machine.array((0..elements.len()).map(number).collect()),
        "values" => machine.array(elements),
        "entries" => entries(machine, elements),
        _ => Err(no_method("an array", name)),
    }
}

fn number(index: usize) -> Value {
    Value::Number(index as f64)
}

fn index(found: Option<usize>) -> Value {
    found.map_or(Value::Number(-1.0), number)
}

/// Unlike `===`, this finds NaN.
fn includes(elements: &[Value], wanted: &Value) -> bool {
    let is_nan = |value: &Value| matches!(value, Value::Number(number) if number.is_nan());
    elements.iter().any(|element| element.same(wanted) || is_nan(element) && is_nan(wanted))
}

/// How many arguments of a method have a meaning here.
fn understood_arguments(name: &str) -> usize {
    match name {
        "push" | "unshift" | "concat" | "splice" => usize::MAX,
        "fill" => 3,
        "slice" | "reduce" => 2,
        _ => 1,
    }
}

/// Methods that change the array.
fn changing(
    machine: &mut Machine,
    array: ArrayId,
    mut elements: Vec<Value>,
    name: &str,
    arguments: &[Value],
) -> Outcome {
    let taken = match name {
        "shift" if elements.is_empty() => return Ok(Value::Undefined),
        "shift" => return Ok(machine.elements_mut(array)?.remove(0)),
        "unshift" => {
            machine.room(arguments.len())?;
            elements.splice(0..0, arguments.iter().cloned());
            number(elements.len())
        }
        "fill" => {
            let (from, to) = super::strings::range(machine, arguments.get(1..).unwrap_or_default(), elements.len())?;
            elements.get_mut(from..to).unwrap_or_default().fill(argument(arguments, 0));
            if to - from.min(to) == elements.len() {
                machine.mark_dense(array);
            }
            Value::Array(array)
        }
        "splice" => {
            let (from, count) = cut(machine, arguments, elements.len())?;
            let added = arguments.get(2..).unwrap_or_default();
            machine.room(added.len())?;
            let taken = elements.splice(from..from + count, added.iter().cloned()).collect();
            machine.array(taken)?
        }
        "sort" => {
            elements = sorted(machine, elements, given(arguments, 0))?;
            Value::Array(array)
        }
        _ => {
            elements.reverse();
            Value::Array(array)
        }
    };
    *machine.elements_mut(array)? = elements;
    Ok(taken)
}

/// Where `splice` begins, and how many elements it takes.
fn cut(machine: &mut Machine, arguments: &[Value], length: usize) -> Outcome<(usize, usize)> {
    let from = position(machine.number_of(&argument(arguments, 0))?, length);
    let count = match arguments {
        [] => 0,
        [_] => length - from,
        [_, count, ..] => (machine.number_of(count)?.max(0.0) as usize).min(length - from),
    };
    Ok((from, count))
}

/// Methods that call a function for each of the first `count` elements, as they then are.
fn each(machine: &mut Machine, array: ArrayId, count: usize, name: &str, function: &Value) -> Outcome {
    let mut results = Vec::new();
    for position in 0..count {
        machine.room(1)?;
        let Some(element) = machine.elements_mut(array)?.get(position).cloned() else {
            return Err(Problem::unsupported(&format!("`{name}` of an array that becomes shorter")));
        };
        let result = machine.call(function, vec![element.clone(), number(position), Value::Array(array)])?;
        match name {
            "map" | "flatMap" => results.push(result),
            "filter" if result.is_true() => results.push(element.clone()),
            "find" if result.is_true() => return Ok(element.clone()),
            "findIndex" if result.is_true() => return Ok(number(position)),
            "some" if result.is_true() => return Ok(Value::Boolean(true)),
            "every" if !result.is_true() => return Ok(Value::Boolean(false)),
            _ => {}
        }
    }
    match name {
        "map" | "filter" => machine.array(results),
        "flatMap" => flat(machine, results, 1.0),
        "findIndex" => Ok(index(None)),
        "some" => Ok(Value::Boolean(false)),
        "every" => Ok(Value::Boolean(true)),
        _ => Ok(Value::Undefined),
    }
}

fn reduce(machine: &mut Machine, array: ArrayId, elements: &[Value], arguments: &[Value]) -> Outcome {
    let mut rest = elements.iter().enumerate();
    let first = arguments.get(1).or_else(|| rest.next().map(|(_, first)| first));
    let Some(mut folded) = first.cloned() else {
        return Err(Problem::thrown("`reduce` of an empty array has no result"));
    };
    for (position, element) in rest {
        let given = vec![folded, element.clone(), number(position), Value::Array(array)];
        folded = machine.call(&argument(arguments, 0), given)?;
    }
    Ok(folded)
}

fn slice(machine: &mut Machine, elements: &[Value], arguments: &[Value]) -> Outcome {
    let (from, to) = super::strings::range(machine, arguments, elements.len())?;
    machine.array(elements.get(from..to).unwrap_or_default().to_vec())
}

fn concat(machine: &mut Machine, mut elements: Vec<Value>, arguments: &[Value]) -> Outcome {
    for argument in arguments {
        if let Value::Array(other) = argument {
            elements.extend(machine.elements(*other)?);
        } else {
            elements.push(argument.clone());
        }
    }
    machine.array(elements)
}

fn flat(machine: &mut Machine, elements: Vec<Value>, depth: f64) -> Outcome {
    let mut flattened = elements;
    let mut left = depth;
    while left >= 1.0 && flattened.iter().any(|element| matches!(element, Value::Array(_))) {
        flattened = flat_once(machine, flattened)?;
        left -= 1.0;
    }
    machine.array(flattened)
}

fn flat_once(machine: &mut Machine, elements: Vec<Value>) -> Outcome<Vec<Value>> {
    let mut flattened = Vec::new();
    for element in elements {
        if let Value::Array(inner) = element {
            machine.check_dense(inner)?;
            flattened.extend(machine.elements(inner)?);
        } else {
            machine.work(1)?;
            flattened.push(element);
        }
    }
    Ok(flattened)
}

fn entries(machine: &mut Machine, elements: Vec<Value>) -> Outcome {
    let mut pairs = Vec::new();
    for (position, element) in elements.into_iter().enumerate() {
        pairs.push(machine.array(vec![number(position), element])?);
    }
    machine.array(pairs)
}

/// Sorts by insertion, because a comparison can fail. Without a function, elements are compared as
/// text.
fn sorted(machine: &mut Machine, elements: Vec<Value>, compare: Option<&Value>) -> Outcome<Vec<Value>> {
    let (undefined, elements): (Vec<_>, Vec<_>) =
        elements.into_iter().partition(|element| matches!(element, Value::Undefined));
    let mut sorted: Vec<Value> = Vec::new();
    for element in elements {
        let mut place = sorted.len();
        while place > 0 && is_before(machine, &element, &sorted[place - 1], compare)? {
            // JavaScript leaves open how such a comparison sorts values that differ.
            let is_contradiction = is_before(machine, &sorted[place - 1], &element, compare)?;
            if is_contradiction && !element.same(&sorted[place - 1]) {
                return Err(Problem::unsupported("an order that contradicts itself"));
            }
            place -= 1;
        }
        sorted.insert(place, element);
    }
    sorted.extend(undefined); // They come last, and no function sees them.
    Ok(sorted)
}

fn is_before(machine: &mut Machine, one: &Value, other: &Value, compare: Option<&Value>) -> Outcome<bool> {
    machine.work(1)?;
    match compare {
        Some(function) => {
            let ordering = machine.call(function, vec![one.clone(), other.clone()])?;
            Ok(machine.number_of(&ordering)? < 0.0)
        }
        None => Ok(machine.text_of(one)?.cmp(&machine.text_of(other)?) == Ordering::Less),
    }
}
