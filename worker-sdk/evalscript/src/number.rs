//! Numbers in JavaScript's notation.

use crate::error::Problem;

/// The most characters of a number at the beginning of a string.
const MAX_DIGITS: usize = 64;

/// How many bytes at the beginning of `text` are a number.
pub(crate) fn length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let exponent_sign = |index: usize| matches!(bytes[index - 1], b'e' | b'E') && !text.starts_with("0x");
    let belongs = |index: usize| match bytes[index] {
        b'+' | b'-' => index > 0 && exponent_sign(index),
        byte => byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_',
    };
    (0..bytes.len()).find(|&index| !belongs(index)).unwrap_or(bytes.len())
}

/// The value of a number in a script.
pub(crate) fn literal(text: &str) -> Option<f64> {
    let text = text.replace('_', "");
    // As in old scripts: `010` is octal.
    let is_octal = text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    if is_octal { integer(&text, 8) } else { prefixed(&text) }
}

/// A decimal number, or an integer whose prefix tells its radix.
fn prefixed(text: &str) -> Option<f64> {
    match text.get(..2) {
        Some("0x" | "0X") => integer(&text[2..], 16),
        Some("0b" | "0B") => integer(&text[2..], 2),
        Some("0o" | "0O") => integer(&text[2..], 8),
        Some(_) | None => decimal(text),
    }
}

fn integer(digits: &str, radix: u32) -> Option<f64> {
    u64::from_str_radix(digits, radix).ok().map(|number| number as f64)
}

/// The number that a whole string means; NaN if it means none.
pub(crate) fn of_text(text: &str) -> f64 {
    match text.trim() {
        "" => 0.0,
        "Infinity" | "+Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        trimmed => prefixed(trimmed).unwrap_or(f64::NAN),
    }
}

/// The number at the beginning of a string; NaN if there is none. A longer one has no result.
pub(crate) fn beginning(text: &str) -> Result<f64, Problem> {
    let text = text.trim_start();
    let belongs = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    let end = text.bytes().take(MAX_DIGITS + 1).take_while(|byte| belongs(*byte)).count();
    if end > MAX_DIGITS {
        return Err(Problem::unsupported(&format!("a number of more than {MAX_DIGITS} characters")));
    }
    let longest = (1..=end).rev().find_map(|end| decimal(text.get(..end)?));
    Ok(match text.trim_start_matches(['+', '-']).starts_with("Infinity") {
        true => of_text(&text[..text.find('y').map_or(0, |last| last + 1)]),
        false => longest.unwrap_or(f64::NAN),
    })
}

/// The whole number at the beginning of a string; NaN if there is none. If no radix is given, `0x`
/// tells it.
pub(crate) fn leading_integer(text: &str, radix: Option<u32>) -> f64 {
    let text = text.trim_start();
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = match (hexadecimal, radix) {
        (Some(digits), None | Some(16)) => (digits, 16),
        (_, radix) => (digits, radix.unwrap_or(10)),
    };
    let end = digits.find(|digit: char| !digit.is_digit(radix)).unwrap_or(digits.len());
    let digits = &digits[..end];
    // Step by step, a number with many digits would be rounded more than once.
    let number = match radix {
        _ if digits.is_empty() => f64::NAN,
        10 => digits.parse().unwrap_or(f64::NAN),
        _ => digits
            .chars()
            .filter_map(|digit| digit.to_digit(radix))
            .fold(0.0, |number, digit| number * f64::from(radix) + f64::from(digit)),
    };
    sign * number
}

/// `base ** exponent`. In IEEE 754, but not in JavaScript, a base of one makes any exponent one.
pub(crate) fn power(base: f64, exponent: f64) -> f64 {
    if base.abs() == 1.0 && !exponent.is_finite() { f64::NAN } else { base.powf(exponent) }
}

/// The nearest whole number; of two the higher one.
pub(crate) fn round(number: f64) -> f64 {
    let below = number.floor();
    if number - below >= 0.5 { below + 1.0 } else { below }
}

/// The number as JavaScript prints it, except for extremely large or small ones.
pub(crate) fn text(number: f64) -> String {
    match number {
        _ if number.is_nan() => "NaN".to_owned(),
        _ if number.is_infinite() => format!("{}Infinity", if number > 0.0 { "" } else { "-" }),
        _ if number == 0.0 => "0".to_owned(),
        _ if number.abs() >= 1e21 => format!("{number:e}").replace('e', "e+"),
        _ if number.abs() < 1e-6 => format!("{number:e}"),
        _ => number.to_string(),
    }
}

fn decimal(text: &str) -> Option<f64> {
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    text.parse().ok().filter(|_| numeric)
}
