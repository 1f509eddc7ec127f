//! Formats durations, numbers and names for people.

/// From here on a time is shown as never: the scheduler's clock ends after 584 years.
const NEVER_MS: f64 = 500.0 * 365.0 * 86_400_000.0;
/// From here on numbers are shown in thousands, millions, or more.
const LARGE: f64 = 10_000.0;

/// Formats a duration in milliseconds like `250 ms`, `7.4 h` or `31 d`.
pub(in crate::commands) fn duration(millis: f64) -> String {
    if millis >= NEVER_MS {
        return "never".to_owned();
    }
    let units = [("ms", 1.0, 1e3), ("s", 1e3, 60.0), ("min", 60e3, 60.0), ("h", 3_600e3, 48.0)];
    let fitting = units.into_iter().find(|(_, unit, most)| rounded(millis / unit) < *most);
    let (name, unit) = fitting.map_or(("d", 86_400e3), |(name, unit, _)| (name, unit));
    format!("{} {name}", rounded(millis / unit))
}

/// Formats like `in 7.4 h`, or `never`.
pub(in crate::commands) fn in_duration(millis: f64) -> String {
    if millis >= NEVER_MS { "never".to_owned() } else { format!("in {}", duration(millis)) }
}

/// Rounds to one decimal below ten, and to a whole number otherwise.
fn rounded(value: f64) -> f64 {
    if value.abs() < 9.95 { (value * 10.0).round() / 10.0 } else { value.round() }
}

/// Formats an amount or a level like `90.92`, `400 k` or `1.25 M`.
pub(in crate::commands) fn amount(value: f64) -> String {
    let scales = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    if value.abs() < LARGE {
        return hundredths(value).to_string();
    }
    let fitting = scales.into_iter().find(|(_, scale)| (value / scale).abs() < 999.5).unwrap_or(("G", 1e9));
    let (name, scale) = fitting;
    format!("{} {name}", three_digits(value / scale))
}

/// Rounds down, so that no report shows more than there is. Avoids a negative zero.
fn hundredths(value: f64) -> f64 {
    (value * 100.0 + 1e-6).floor() / 100.0 + 0.0
}

fn three_digits(value: f64) -> f64 {
    let scale = if value.abs() < 10.0 {
        100.0
    } else if value.abs() < 100.0 {
        10.0
    } else {
        1.0
    };
    (value * scale).round() / scale
}

/// Formats a number with thousands separated, like `400 000`.
pub(in crate::commands) fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or("")).collect();
    groups.join(" ")
}

/// Breaks a text into lines of at most `columns` columns. A longer word has its own line.
pub(in crate::commands) fn wrapped(text: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Escapes the control characters in a worker's text, which a terminal would interpret.
pub(in crate::commands) fn escaped(text: &str) -> String {
    text.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_that_fits() {
        #[rustfmt::skip]
        let table = [
            (0.0, "0 ms"), (0.04, "0 ms"), (0.4, "0.4 ms"), (250.0, "250 ms"), (999.6, "1 s"), (1_000.0, "1 s"),
            (7_440.0, "7.4 s"), (59_600.0, "1 min"), (90_000.0, "1.5 min"), (7.4 * 3_600e3, "7.4 h"),
            (24.0 * 3_600e3, "24 h"), (48.0 * 3_600e3, "2 d"), (31.0 * 86_400e3, "31 d"), (366.0 * 86_400e3, "366 d"),
            (1.8e13, "never"),
        ];
        for (millis, text) in table {
            assert_eq!(duration(millis), text, "{millis}");
        }
        assert_eq!((in_duration(250.0), in_duration(1.8e13)), ("in 250 ms".to_owned(), "never".to_owned()));
    }

    #[test]
    fn amounts_are_short_and_never_more_than_there_is() {
        #[rustfmt::skip]
        let table = [
            (0.0, "0"), (-0.001, "-0.01"), (3.999, "3.99"), (90.92, "90.92"), (-2.5, "-2.5"), (1_440.0, "1440"),
            (400_000.0, "400 k"), (12_345.0, "12.3 k"), (999_700.0, "1 M"), (1e9, "1 G"), (-40_000.0, "-40 k"),
        ];
        for (value, text) in table {
            assert_eq!(amount(value), text, "{value}");
        }
    }
}
