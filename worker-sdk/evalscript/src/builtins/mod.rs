//! Names that exist without a declaration.

pub(crate) mod arrays;
pub(crate) mod dates;
pub(crate) mod globals;
pub(crate) mod numbers;
pub(crate) mod strings;

use crate::error::Problem;
use crate::value::Value;
use std::rc::Rc;

/// The functions that are globals or members of one.
const NATIVES: [&str; 37] = [
    "Array",
    "Boolean",
    "Date",
    "Math",
    "Mosaicking",
    "Number",
    "Object",
    "SampleType",
    "String",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "Array.from",
    "Array.isArray",
    "Array.of",
    "Date.UTC",
    "Date.parse",
    "Math.abs",
    "Math.ceil",
    "Math.floor",
    "Math.log2",
    "Math.max",
    "Math.min",
    "Math.pow",
    "Math.round",
    "Math.sign",
    "Math.sqrt",
    "Math.trunc",
    "Number.isInteger",
    "Number.parseFloat",
    "Number.parseInt",
    "Object.assign",
    "Object.entries",
    "Object.freeze",
    "Object.keys",
    "Object.values",
];

/// The value of a global name.
pub(crate) fn global(name: &str) -> Option<Value> {
    match name {
        "NaN" => Some(Value::Number(f64::NAN)),
        "Infinity" => Some(Value::Number(f64::INFINITY)),
        _ if name.contains('.') => None,
        _ => native(name),
    }
}

/// A member of a global. The names of sample types and of mosaicking are their own values.
pub(crate) fn member(global: &str, name: &str) -> Option<Value> {
    match (global, name) {
        ("SampleType" | "Mosaicking", _) => Some(Value::Text(Rc::from(name))),
        ("Math", "PI") => Some(Value::Number(std::f64::consts::PI)),
        ("Math", "E") => Some(Value::Number(std::f64::consts::E)),
        ("Number", "MAX_SAFE_INTEGER") => Some(Value::Number(9_007_199_254_740_991.0)),
        _ => native(&format!("{global}.{name}")),
    }
}

fn native(name: &str) -> Option<Value> {
    NATIVES.iter().find(|native| **native == name).map(|native| Value::Native(native))
}

fn argument(arguments: &[Value], index: usize) -> Value {
    arguments.get(index).cloned().unwrap_or(Value::Undefined)
}

fn no_method(of: &str, name: &str) -> Problem {
    Problem::Unsupported(format!("the method `{name}` of {of}"))
}

/// A position within `length`; a negative one counts from the end.
fn position(number: f64, length: usize) -> usize {
    let from_end = if number < 0.0 { number + length as f64 } else { number };
    // A float that is not a number becomes zero.
    (from_end.max(0.0) as usize).min(length)
}
