//! Numbers in the notations of headers.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::bounds::{MAX_AMOUNT, MAX_MILLIS};
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::time::Span;

/// The units in which Go and the APIs that follow it write durations, in milliseconds.
const UNITS: [(&str, f64); 8] =
    [("ns", 1e-6), ("us", 1e-3), ("µs", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 60e3), ("h", 3_600e3), ("d", 86_400e3)];

/// A number that is not negative: digits, perhaps with a fraction.
pub(crate) fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain)
}

/// The first number of a list, such as `100, 100;w=60`: what follows the comma explains it.
pub(crate) fn first_number(text: &str) -> Option<f64> {
    number(text.split([',', ';']).next()?.trim())
}

/// The rest of a bucket, rounded down to a millionth and capped at the largest amount.
pub(crate) fn left(units: f64) -> Option<Amount> {
    let units = units.min(MAX_AMOUNT as f64);
    let rounded_down = |above: Amount| Amount::from_micros(above.micros().saturating_sub(1));
    Amount::new(units).or_else(|_| Amount::round_up(units).and_then(rounded_down)).ok()
}

/// A cost, rounded up to a millionth.
pub(crate) fn spent(units: f64) -> Option<Amount> {
    Amount::round_up(units).ok()
}

/// A span, rounded up to a nanosecond and capped at what a message can carry.
pub(crate) fn span(millis: f64) -> Option<Span> {
    Millis::new(millis.min(MAX_MILLIS)).ok().map(Millis::span)
}

/// `6m0s`, `120ms`, `1h2m`, `1.5s`: numbers with their units, added up.
pub(crate) fn duration(text: &str) -> Option<Span> {
    let (mut rest, mut millis) = (text, 0.0);
    while !rest.is_empty() {
        let unit = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let after = rest[unit..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |digits| unit + digits);
        let (_, in_millis) = UNITS.iter().find(|(name, _)| *name == &rest[unit..after])?;
        millis += number(&rest[..unit])? * in_millis;
        rest = &rest[after..];
    }
    span(millis).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_digits_and_no_more_than_a_point() {
        for (text, value) in [("0", 0.0), ("42", 42.0), ("0.25", 0.25), ("1.", 1.0), (".5", 0.5), ("007", 7.0)] {
            assert_eq!(number(text), Some(value), "{text}");
        }
        for wrong in ["", ".", "-1", "+1", "1e3", "1,5", "inf", "NaN", "0x10", "1 2", "1.2.3", "١"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
        assert_eq!(first_number("100, 100;w=60, 1000;w=3600"), Some(100.0));
    }

    #[test]
    fn durations_add_up() {
        let table = [
            ("120ms", 120_000_000),
            ("6m0s", 360_000_000_000),
            ("1h2m", 3_720_000_000_000),
            ("1.5s", 1_500_000_000),
            ("2d", 172_800_000_000_000),
            ("59.961s", 59_961_000_000),
            ("250µs", 250_000),
            ("0s", 0),
        ];
        for (text, nanos) in table {
            assert_eq!(duration(text), Some(Span::from_nanos(nanos)), "{text}");
        }
        for wrong in ["", "6", "s", "6m0", "6 m", "-1s", "1y", "1s1", "6m,0s", "µ"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_rest_is_rounded_down_and_the_cost_up() {
        assert_eq!(left(1.0 / 3.0).unwrap().micros(), 333_333);
        assert_eq!(spent(1.0 / 3.0).unwrap().micros(), 333_334);
        assert_eq!(left(2.3).unwrap().micros(), 2_300_000);
        assert_eq!(left(1e300).unwrap().units(), MAX_AMOUNT as f64);
        assert_eq!(spent(1e300), None);
    }
}
