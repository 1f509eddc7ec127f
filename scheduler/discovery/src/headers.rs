//! Derives a limit from the headers of a response.
//!
//! A window is as long as the longest stated time until its end. For a bucket that refills all the time, headers state
//! when it is full: its period follows from that and the missing amount. Both are rounded to usual ones.

use crate::discovered_limit::algorithm;
use rampmeter_policy::observation::{Reading, Scope};
use rampmeter_policy::spec::{Applies, LimitSpec, MAX_PERIOD, Pattern};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

/// The periods that people choose, in seconds.
const USUAL_SECS: [u64; 19] =
    [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 18_000, 43_200, 86_400, 604_800];
/// A reset of at least this many grains is precise.
const PRECISE_GRAINS: u64 = 100;
/// A reset of fewer grains does not reveal the period of a bucket that refills all the time.
const MIN_GRAINS: u64 = 10;
/// How far a usual period may be from one that follows from a precise reset, in percent.
const PRECISELY: u64 = 3;
/// How far a usual period may be from one that follows from a coarse reset, in percent.
const COARSELY: u64 = 40;
const UNNAMED: &str = "learned-limit";

/// Returns the limit that a reading of a call with this route and label and these keys describes, if it says enough.
pub(crate) fn described_limit(reading: &Reading, route: Option<(&str, &str)>, keys: &[String]) -> Option<LimitSpec> {
    let capacity = reading.capacity.filter(|capacity| *capacity >= Amount::ONE)?;
    let unit = if let Scope::Unit(unit) = &reading.scope { unit } else { REQUESTS };
    let route = route.filter(|_| matches!(reading.scope, Scope::Limit(_) | Scope::Policy(_)));
    let matching = route.map(|(label, route)| (label.to_owned(), Pattern::OneOf([route.to_owned()].into())));
    let key = if reading.described.is_keyed == Some(false) { Vec::new() } else { keys.to_vec() };
    Some(LimitSpec {
        algorithm: algorithm(reading.described.is_gradual),
        applies: Applies { matching: matching.into_iter().collect(), key, group: None },
        ..LimitSpec::new(name_of(reading)?, Name::new(unit).ok()?, capacity, period(reading)?)
    })
}

pub(crate) fn name_of(reading: &Reading) -> Option<Name> {
    let of_scope = match &reading.scope {
        Scope::Limit(name) | Scope::Policy(name) | Scope::Unit(name) => name,
        Scope::Unnamed | Scope::Narrow => UNNAMED,
    };
    Name::new(reading.described.name.as_deref().unwrap_or(of_scope)).ok()
}

pub(crate) fn period(reading: &Reading) -> Option<Span> {
    if let Some(stated) = reading.described.period {
        return Some(stated).filter(|stated| *stated > Span::ZERO && *stated <= MAX_PERIOD);
    }
    let (reset, grain) = (reading.reset?, reading.reset_grain.nanos().max(1));
    let grains = reset.nanos() / grain;
    let shown = match reading.described.is_gradual {
        false => u128::from(reset.nanos()),
        true if grains < MIN_GRAINS => return None,
        true => {
            let missing = reading.capacity?.saturating_sub(reading.remaining).micros();
            (u128::from(reset.nanos()) * u128::from(reading.capacity?.micros())).checked_div(u128::from(missing))?
        }
    };
    let shown = Span::from_nanos(u64::try_from(shown).ok()?.max(grain));
    let rounded = usual(shown, if grains >= PRECISE_GRAINS { PRECISELY } else { COARSELY });
    Some(rounded).filter(|period| *period <= MAX_PERIOD)
}

/// Returns the nearest usual period, if it differs by at most `percent`; otherwise `shown`.
fn usual(shown: Span, percent: u64) -> Span {
    let distance = |usual: &Span| {
        let (less, more) = (shown.nanos().min(usual.nanos()), shown.nanos().max(usual.nanos()));
        u128::from(more) * 100 / u128::from(less.max(1))
    };
    let nearest = USUAL_SECS.map(Span::from_secs).into_iter().min_by_key(distance);
    nearest.filter(|usual| distance(usual) <= u128::from(100 + percent)).unwrap_or(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::observation::Described;

    #[test]
    fn periods_are_those_that_people_choose() {
        #[rustfmt::skip]
        let table = [
            // gradual, capacity, left, reset, grain in ms; the period in ms
            (false, 5000, 4999,     3_599_400,  1000,   Some(3_600_000)),
            (false, 100,  60,       57_000,     1000,   Some(60_000)),
            (false, 5,    4,        4_990,      1,      Some(5_000)),
            (false, 5,    4,        7_777,      1,      Some(7_777)),
            (true,  500,  499,      120,        1,      Some(60_000)),
            (true,  50,   40,       12_500,     1000,   Some(60_000)),
            (true,  50,   49,       2_000,      1000,   None),
            (true,  1000, 950,      1_000,      1,      Some(20_000)),
            (true,  1000, 1000,     0,          1,      None),
        ];
        for (is_gradual, capacity, left, reset, grain, expected) in table {
            let amount = |units: u64| Amount::from_micros(units * 1_000_000).unwrap();
            let reading = Reading {
                capacity: Some(amount(capacity)),
                reset: Some(Span::from_millis(reset)),
                reset_grain: Span::from_millis(grain),
                described: Described { is_gradual, ..Described::default() },
                ..Reading::new(Scope::Unnamed, amount(left))
            };
            assert_eq!(period(&reading), expected.map(Span::from_millis), "{reading:?}");
        }
    }
}
