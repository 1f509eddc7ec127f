//! The methods of strings.

use super::{argument, check_count, given, no_method, position};
use crate::error::Problem;
use crate::machine::{Machine, Outcome};
use crate::value::Value;
use std::rc::Rc;

/// `text.name(arguments)`
pub(crate) fn call(machine: &mut Machine, text: &Rc<str>, name: &str, arguments: &[Value]) -> Outcome {
    machine.work(text.len())?;
    check_units(text)?;
    check_count(name, arguments, understood_arguments(name))?;
    match name {
        "toUpperCase" => machine.text(&text.to_uppercase()),
        "toLowerCase" => machine.text(&text.to_lowercase()),
        "trim" => machine.text(text.trim()),
        "toString" => Ok(Value::Text(text.clone())),
        "split" => split(machine, text, arguments),
        "slice" | "substring" => {
            let length = text.chars().count();
            let (from, to) = match name {
                "slice" => range(machine, arguments, length)?,
                _ => unordered_range(machine, arguments, length)?,
            };
            let part: String = text.chars().skip(from).take(to.saturating_sub(from)).collect();
            machine.text(&part)
        }
        "charAt" => {
            let at = machine.number_of(&argument(arguments, 0))?;
            let letter = if at < 0.0 { None } else { text.chars().nth(at as usize) };
            machine.text(&String::from_iter(letter))
        }
        "repeat" => repeat(machine, text, arguments),
        "padStart" | "padEnd" => pad(machine, text, name, arguments),
        "concat" => {
            let mut whole = text.to_string();
            for argument in arguments {
                whole.push_str(&machine.text_of(argument)?);
                machine.room_for_text(whole.len())?;
            }
            Ok(Value::Text(whole.into()))
        }
        "includes" | "startsWith" | "endsWith" | "indexOf" | "replace" | "replaceAll" => {
            let part = machine.text_of(&argument(arguments, 0))?;
            search(machine, text, name, &part, arguments)
        }
        _ => Err(no_method("a string", name)),
    }
}

/// The start and the end of a slice.
pub(super) fn range(machine: &mut Machine, arguments: &[Value], length: usize) -> Outcome<(usize, usize)> {
    let from = match arguments.first() {
        Some(from) => position(machine.number_of(from)?, length),
        None => 0,
    };
    let to = match given(arguments, 1) {
        Some(to) => position(machine.number_of(to)?, length),
        None => length,
    };
    Ok((from, to))
}

/// The start and the end of a `substring`, of which none counts from the end.
fn unordered_range(machine: &mut Machine, arguments: &[Value], length: usize) -> Outcome<(usize, usize)> {
    let from = machine.number_of(&argument(arguments, 0))?.max(0.0) as usize;
    let to = match given(arguments, 1) {
        Some(to) => machine.number_of(to)?.max(0.0) as usize,
        None => length,
    };
    Ok((from.min(to).min(length), from.max(to).min(length)))
}

/// JavaScript counts characters beyond U+FFFF twice.
pub(crate) fn check_units(text: &str) -> Outcome<()> {
    let is_counted_twice = text.chars().any(|letter| letter > '\u{ffff}');
    if is_counted_twice { Err(Problem::unsupported("a part of a text with characters beyond U+FFFF")) } else { Ok(()) }
}

/// How many arguments of a method have a meaning here.
fn understood_arguments(name: &str) -> usize {
    match name {
        "slice" | "substring" | "padStart" | "padEnd" | "replace" | "replaceAll" => 2,
        "concat" => usize::MAX,
        _ => 1,
    }
}

fn split(machine: &mut Machine, text: &str, arguments: &[Value]) -> Outcome {
    let Some(between) = given(arguments, 0) else {
        let whole = machine.text(text)?;
        return machine.array(vec![whole]);
    };
    let between = machine.text_of(between)?;
    if between.is_empty() {
        let letters = machine.iterate(&Value::Text(Rc::from(text)))?;
        return machine.array(letters);
    }
    let parts: Outcome<Vec<Value>> = text.split(&*between).map(|part| machine.text(part)).collect();
    machine.array(parts?)
}

/// Repeats a text. It is charged before it is made, because a number of repeats is quickly written.
fn repeat(machine: &mut Machine, text: &str, arguments: &[Value]) -> Outcome {
    let times = machine.number_of(&argument(arguments, 0))?.max(0.0) as usize;
    machine.room_for_text(text.len().saturating_mul(times))?;
    Ok(Value::Text(text.repeat(times).into()))
}

fn pad(machine: &mut Machine, text: &str, name: &str, arguments: &[Value]) -> Outcome {
    let length = machine.number_of(&argument(arguments, 0))?.max(0.0) as usize;
    let with = match given(arguments, 1) {
        Some(with) => machine.text_of(with)?,
        None => Rc::from(" "),
    };
    let missing = length.saturating_sub(text.chars().count());
    machine.room_for_text(missing.saturating_mul(4))?;
    let padding: String = with.chars().cycle().take(missing).collect();
    machine.text(&if name == "padStart" { format!("{padding}{text}") } else { format!("{text}{padding}") })
}

fn search(machine: &mut Machine, text: &str, name: &str, part: &str, arguments: &[Value]) -> Outcome {
    Ok(match name {
        "includes" => Value::Boolean(text.contains(part)),
        "startsWith" => Value::Boolean(text.starts_with(part)),
        "endsWith" => Value::Boolean(text.ends_with(part)),
        "indexOf" => {
            let before = text.find(part).map(|at| text[..at].chars().count());
            Value::Number(before.map_or(-1.0, |at| at as f64))
        }
        _ => {
            let with = machine.text_of(&argument(arguments, 1))?;
            if with.contains('$') {
                return Err(Problem::unsupported("`$` in a replacement"));
            }
            let most = if name == "replace" { 1 } else { text.len() + 1 };
            let longest = text.matches(part).take(most).count().saturating_mul(with.len());
            machine.room_for_text(longest.saturating_add(text.len()))?;
            Value::Text(text.replacen(part, &with, most).into())
        }
    })
}
