//! Names that exist without a declaration.

pub(crate) mod arrays;
pub(crate) mod dates;
pub(crate) mod globals;
pub(crate) mod inherited;
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

/// Globals of JavaScript that are not here. Whether a service has them is not known.
const OTHER_GLOBALS: [&str; 34] = [
    "ArrayBuffer",
    "BigInt",
    "DataView",
    "Error",
    "Float32Array",
    "Float64Array",
    "Function",
    "Int16Array",
    "Int32Array",
    "Int8Array",
    "Intl",
    "JSON",
    "Map",
    "Promise",
    "Proxy",
    "RangeError",
    "Reflect",
    "RegExp",
    "Set",
    "Symbol",
    "TypeError",
    "Uint16Array",
    "Uint32Array",
    "Uint8Array",
    "WeakMap",
    "WeakSet",
    "arguments",
    "console",
    "decodeURIComponent",
    "encodeURIComponent",
    "eval",
    "global",
    "globalThis",
    "window",
];

/// Whether JavaScript has this global, and this engine has not.
pub(crate) fn is_standard(name: &str) -> bool {
    OTHER_GLOBALS.contains(&name)
}

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

/// An argument that is not left to its default.
fn given(arguments: &[Value], index: usize) -> Option<&Value> {
    arguments.get(index).filter(|argument| !matches!(argument, Value::Undefined))
}

fn no_method(of: &str, name: &str) -> Problem {
    Problem::Unsupported(format!("the method `{name}` of {of}"))
}

/// Refuses a call with more arguments than this engine gives a meaning.
fn check_count(name: &str, arguments: &[Value], most: usize) -> Result<(), Problem> {
    if arguments.len() <= most {
        return Ok(());
    }
    Err(Problem::Unsupported(format!("argument {} of `{name}`", most + 1)))
}

/// A position within `length`; a negative one counts from the end.
fn position(number: f64, length: usize) -> usize {
    let number = number.trunc();
    let from_end = if number < 0.0 { number + length as f64 } else { number };
    // A float that is not a number becomes zero.
    (from_end.max(0.0) as usize).min(length)
}
