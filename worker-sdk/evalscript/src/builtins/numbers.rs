//! The methods of numbers.

use super::{argument, no_method};
use crate::error::Problem;
use crate::machine::{Machine, Outcome};
use crate::number;
use crate::value::Value;

/// The most decimals that JavaScript takes.
const MAX_DECIMALS: f64 = 100.0;

/// `number.name(arguments)`
pub(crate) fn call(machine: &mut Machine, value: f64, name: &str, arguments: &[Value]) -> Outcome {
    match name {
        "toString" if arguments.is_empty() => machine.text(&number::text(value)),
        "toFixed" => {
            let decimals = machine.number_of(&argument(arguments, 0))?.trunc();
            // No number means no decimals.
            if !decimals.is_nan() && !(0.0..=MAX_DECIMALS).contains(&decimals) {
                return Err(Problem::unsupported(&format!("`toFixed` with {decimals} decimals")));
            }
            let decimals = decimals as usize;
            // JavaScript rounds what lies in the middle up, and Rust does not.
            let is_in_the_middle = (value * 10_f64.powi(decimals as i32)).fract().abs() == 0.5;
            if is_in_the_middle || value.abs() >= 1e21 {
                return Err(Problem::unsupported(&format!("`toFixed` of {value}")));
            }
            let unsigned_zero = value + 0.0;
            machine.text(&format!("{unsigned_zero:.decimals$}"))
        }
        _ => Err(no_method("a number", name)),
    }
}
