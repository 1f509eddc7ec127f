//! The methods of numbers.

use super::{argument, no_method};
use crate::machine::{Machine, Outcome};
use crate::number;
use crate::value::Value;

/// The most decimals, which is more than a float has.
const MAX_DECIMALS: f64 = 100.0;

/// `number.name(arguments)`
pub(crate) fn call(machine: &mut Machine, value: f64, name: &str, arguments: &[Value]) -> Outcome {
    match name {
        "toString" if arguments.is_empty() => machine.text(&number::text(value)),
        "toFixed" => {
            let decimals = machine.number_of(&argument(arguments, 0))?.clamp(0.0, MAX_DECIMALS) as usize;
            machine.text(&format!("{value:.decimals$}"))
        }
        _ => Err(no_method("a number", name)),
    }
}
