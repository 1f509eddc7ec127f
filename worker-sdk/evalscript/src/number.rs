//! Numbers in JavaScript's notation.

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
    let radix = match text.get(..2) {
        Some("0x" | "0X") => 16,
        Some("0b" | "0B") => 2,
        Some("0o" | "0O") => 8,
        Some(_) | None => return decimal(&text),
    };
    u64::from_str_radix(&text[2..], radix).ok().map(|number| number as f64)
}

/// The number that a whole string means; NaN if it means none.
pub(crate) fn of_text(text: &str) -> f64 {
    match text.trim() {
        "" => 0.0,
        "Infinity" => f64::INFINITY,
        trimmed => literal(trimmed).unwrap_or(f64::NAN),
    }
}

/// The number at the beginning of a string; NaN if there is none.
pub(crate) fn beginning(text: &str) -> f64 {
    let text = text.trim_start();
    let end = text.char_indices().find(|&(index, c)| !(c.is_ascii_digit() || c == '.' || index == 0 && c == '-'));
    decimal(&text[..end.map_or(text.len(), |(index, _)| index)]).unwrap_or(f64::NAN)
}

/// The number as JavaScript prints it, except for extremely large or small ones.
pub(crate) fn text(number: f64) -> String {
    match number {
        _ if number.is_nan() => "NaN".to_owned(),
        _ if number.is_infinite() => format!("{}Infinity", if number > 0.0 { "" } else { "-" }),
        _ if number == 0.0 => "0".to_owned(),
        _ if number.abs() >= 1e21 || number.abs() < 1e-6 => format!("{number:e}"),
        _ => number.to_string(),
    }
}

fn decimal(text: &str) -> Option<f64> {
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    text.parse().ok().filter(|_| numeric)
}
