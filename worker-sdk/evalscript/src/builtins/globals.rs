//! Global functions.

use super::argument;
use crate::error::Problem;
use crate::machine::{Machine, Outcome};
use crate::number;
use crate::value::Value;

/// Calls a global function or a member of a global.
pub(crate) fn call(machine: &mut Machine, name: &str, arguments: &[Value]) -> Outcome {
    let first = argument(arguments, 0);
    match name {
        "String" if arguments.is_empty() => machine.text(""),
        "String" => machine.text_of(&first).map(Value::Text),
        "Boolean" => Ok(Value::Boolean(first.is_true())),
        "Number" if arguments.is_empty() => Ok(Value::Number(0.0)),
        "Number" => machine.number_of(&first).map(Value::Number),
        "parseFloat" | "Number.parseFloat" => number::beginning(&machine.text_of(&first)?).map(Value::Number),
        "parseInt" | "Number.parseInt" => parse_int(machine, arguments),
        "isNaN" => Ok(Value::Boolean(machine.number_of(&first)?.is_nan())),
        "isFinite" => Ok(Value::Boolean(machine.number_of(&first)?.is_finite())),
        "Number.isInteger" => Ok(Value::Boolean(matches!(first, Value::Number(number) if number.fract() == 0.0))),
        "Array.isArray" => Ok(Value::Boolean(matches!(first, Value::Array(_)))),
        "Array" | "Array.of" | "Array.from" => array(machine, name, arguments),
        "Date.UTC" => super::dates::parts(machine, arguments).map(Value::Number),
        "Date.parse" => super::dates::parsed(&machine.text_of(&first)?).map(Value::Number),
        _ if name.starts_with("Object") => object(machine, name, arguments),
        _ if name.starts_with("Math") => math(machine, name, arguments),
        _ => Err(Problem::unsupported(&format!("calling `{name}`"))),
    }
}

fn parse_int(machine: &mut Machine, arguments: &[Value]) -> Outcome {
    let text = machine.text_of(&argument(arguments, 0))?;
    machine.work(text.len())?;
    let radix = match machine.number_of(&argument(arguments, 1))?.trunc() {
        radix if radix == 0.0 || !radix.is_finite() => None,
        radix if (2.0..=36.0).contains(&radix) => Some(radix as u32),
        _ => return Ok(Value::Number(f64::NAN)),
    };
    Ok(Value::Number(number::leading_integer(&text, radix)))
}

fn array(machine: &mut Machine, name: &str, arguments: &[Value]) -> Outcome {
    let elements = match (name, arguments) {
        ("Array", [Value::Number(length)]) if *length < 0.0 || length.fract() != 0.0 => {
            return Err(Problem::thrown("the length of an array is no whole number"));
        }
        ("Array", [Value::Number(length)]) => {
            let elements = undefined_elements(machine, *length)?;
            return machine.sparse_array(elements);
        }
        ("Array.from", [source, ..]) => elements(machine, source)?,
        _ => arguments.to_vec(),
    };
    let array = machine.array(elements)?;
    match (name, arguments, &array) {
        ("Array.from", [_, function, ..], Value::Array(id)) => {
            super::arrays::call(machine, *id, "map", std::slice::from_ref(function))
        }
        _ => Ok(array),
    }
}

/// The elements of an array or string, or the `length` of an object as undefined elements.
fn elements(machine: &mut Machine, source: &Value) -> Outcome<Vec<Value>> {
    let Value::Object(object) = source else { return machine.iterate(source) };
    let length = machine.property(*object, "length")?.unwrap_or(Value::Undefined);
    let length = machine.number_of(&length)?;
    if machine.properties(*object)?.iter().any(|(key, _)| **key != *"length") {
        return Err(Problem::unsupported("an array from an object with elements"));
    }
    undefined_elements(machine, length)
}

/// Undefined elements. They are charged before they are made, because a length is quickly written.
fn undefined_elements(machine: &mut Machine, length: f64) -> Outcome<Vec<Value>> {
    let length = length.max(0.0) as usize;
    machine.room(length)?;
    Ok(vec![Value::Undefined; length])
}

fn object(machine: &mut Machine, name: &str, arguments: &[Value]) -> Outcome {
    let first = argument(arguments, 0);
    match name {
        "Object.freeze" => {
            machine.freeze(&first);
            Ok(first)
        }
        "Object.keys" => {
            let keys = machine.keys(&first)?;
            machine.array(keys)
        }
        "Object.assign" => {
            let Value::Object(target) = first else { return Err(Problem::unsupported("assigning to no object")) };
            for other in &arguments[1..] {
                machine.copy_properties(target, other)?;
            }
            Ok(first)
        }
        "Object.values" | "Object.entries" => {
            let Value::Object(id) = first else { return Err(Problem::unsupported("the properties of no object")) };
            let mut parts = Vec::new();
            for (key, value) in machine.properties(id)? {
                parts.push(if name.ends_with("values") {
                    value
                } else {
                    machine.array(vec![Value::Text(key), value])?
                });
            }
            machine.array(parts)
        }
        _ => Err(Problem::unsupported(&format!("calling `{name}`"))),
    }
}

fn math(machine: &mut Machine, name: &str, arguments: &[Value]) -> Outcome {
    let mut numbers = Vec::new();
    for argument in arguments {
        numbers.push(machine.number_of(argument)?);
    }
    let first = numbers.first().copied().unwrap_or(f64::NAN);
    Ok(Value::Number(match name {
        "Math.abs" => first.abs(),
        "Math.ceil" => first.ceil(),
        "Math.floor" => first.floor(),
        "Math.round" => number::round(first),
        "Math.trunc" => first.trunc(),
        "Math.sign" => {
            if first == 0.0 {
                0.0
            } else {
                first.signum()
            }
        }
        "Math.sqrt" => first.sqrt(),
        "Math.log2" => first.log2(),
        "Math.pow" => number::power(first, numbers.get(1).copied().unwrap_or(f64::NAN)),
        "Math.max" | "Math.min" if numbers.iter().any(|number| number.is_nan()) => f64::NAN,
        "Math.max" => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "Math.min" => numbers.iter().copied().fold(f64::INFINITY, f64::min),
        _ => return Err(Problem::unsupported(&format!("calling `{name}`"))),
    }))
}
