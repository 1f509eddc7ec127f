//! The methods of arrays.

use super::{argument, no_method, position};
use crate::machine::{Machine, Outcome};
use crate::value::{ArrayId, Value};
use std::cmp::Ordering;

/// `array.name(arguments)`
pub(crate) fn call(machine: &mut Machine, array: ArrayId, name: &str, arguments: &[Value]) -> Outcome {
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
        "unshift" | "shift" | "reverse" | "fill" | "sort" => changing(machine, array, elements, name, arguments),
        "map" | "filter" | "forEach" | "find" | "findIndex" | "some" | "every" | "flatMap" => {
            each(machine, array, &elements, name, &argument(arguments, 0))
        }
        "reduce" => reduce(machine, &elements, arguments),
        "includes" => Ok(Value::Boolean(index_of(&elements, arguments)?.is_some())),
        "indexOf" => Ok(index(index_of(&elements, arguments)?)),
        "at" => {
            let at = machine.number_of(&argument(arguments, 0))?;
            Ok(elements.get(position(at, elements.len())).cloned().unwrap_or(Value::Undefined))
        }
        "slice" => slice(machine, &elements, arguments),
        "concat" => concat(machine, elements, arguments),
        "flat" => flat(machine, elements),
        "join" => {
            let between = match arguments.first() {
                Some(between) => machine.text_of(between)?,
                None => ",".into(),
            };
            machine.join(&elements, &between).map(Value::Text)
        }
        "toString" => machine.join(&elements, ",").map(Value::Text),
        "keys" => {
            let keys = machine.keys(&Value::Array(array))?.iter().enumerate().map(|(index, _)| number(index)).collect();
            machine.array(keys)
        }
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

fn index_of(elements: &[Value], arguments: &[Value]) -> Outcome<Option<usize>> {
    let wanted = argument(arguments, 0);
    for (index, element) in elements.iter().enumerate() {
        if element.same(&wanted)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
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
            elements.fill(argument(arguments, 0));
            Value::Array(array)
        }
        "sort" => {
            elements = sorted(machine, elements, arguments.first())?;
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

/// Methods that call a function for each element.
fn each(machine: &mut Machine, array: ArrayId, elements: &[Value], name: &str, function: &Value) -> Outcome {
    let mut results = Vec::new();
    for (position, element) in elements.iter().enumerate() {
        machine.room(1)?;
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
        "flatMap" => flat(machine, results),
        "findIndex" => Ok(index(None)),
        "some" => Ok(Value::Boolean(false)),
        "every" => Ok(Value::Boolean(true)),
        _ => Ok(Value::Undefined),
    }
}

fn reduce(machine: &mut Machine, elements: &[Value], arguments: &[Value]) -> Outcome {
    let mut rest = elements.iter();
    let first = arguments.get(1).or_else(|| rest.next());
    let mut folded = first.cloned().unwrap_or(Value::Undefined);
    for element in rest {
        folded = machine.call(&argument(arguments, 0), vec![folded, element.clone()])?;
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

fn flat(machine: &mut Machine, elements: Vec<Value>) -> Outcome {
    let mut flattened = Vec::new();
    for element in elements {
        if let Value::Array(inner) = element {
            flattened.extend(machine.elements(inner)?);
        } else {
            flattened.push(element);
        }
    }
    machine.array(flattened)
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
    let mut sorted: Vec<Value> = Vec::new();
    for element in elements {
        let mut place = sorted.len();
        while place > 0 && is_before(machine, &element, &sorted[place - 1], compare)? {
            place -= 1;
        }
        sorted.insert(place, element);
    }
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
