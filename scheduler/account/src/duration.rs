//! Durations in the notations of ISO 8601 and of people, as in contracts and configurations.

use jiff::SignedDuration;
use rampmeter_protocol::time::Span;

/// Parses ISO 8601 (`PT1M`) or the friendly form (`60s`, `1h 30m`).
///
/// # Errors
/// What is allowed, if the text is neither, or the duration is negative or too long.
pub fn parse(text: &str) -> Result<Span, String> {
    let right = "a duration is written as ISO 8601 (\"PT1M\") or like \"60s\"";
    let duration: SignedDuration = text.parse().map_err(|_| format!("{right}, not {text:?}; a day is \"24h\""))?;
    let nanos = u64::try_from(duration.as_nanos())
        .map_err(|_| format!("{right}, and is neither negative nor above 584 years"))?;
    Ok(Span::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing() {
        let table =
            [("PT1M", 60_000), ("PT744H", 744 * 3_600_000), ("60s", 60_000), ("1h 30m", 5_400_000), ("60ms", 60)];
        for (text, millis) in table {
            assert_eq!(parse(text), Ok(Span::from_millis(millis)), "{text}");
        }
        for wrong in ["", "60", "P1M", "-5s", "soon"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
