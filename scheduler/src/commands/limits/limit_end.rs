//! Describes when a limit runs out.

use crate::commands::output::human::{duration, in_duration};
use rampmeter_protocol::forecast::LimitForecast;

/// Returns a sentence on a limit that may run out before its reset.
pub(in crate::commands) fn ends(forecast: &LimitForecast) -> Option<String> {
    let likely = match (forecast.p10_ms, forecast.p50_ms, forecast.p90_ms) {
        (_, Some(likely), late) => {
            let (early, late) = (forecast.p10_ms.unwrap_or(likely), late.map_or("its reset".to_owned(), duration));
            format!("it probably ends {}, between {} and {late}", in_duration(likely), duration(early))
        }
        (Some(early), None, _) => format!("it may end {} at the earliest", in_duration(early)),
        (None, None, _) => return None,
    };
    Some(format!("`{}`: at the present pace {likely}", forecast.limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::name::Name;

    #[test]
    fn a_forecast_is_a_sentence_if_the_limit_may_end() {
        let (hour, limit) = (3_600_000.0, Name::new("per-month").unwrap());
        let forecast = |p10_ms, p50_ms, p90_ms| LimitForecast {
            limit: limit.clone(),
            p10_ms,
            p50_ms,
            p90_ms,
            share: 0.5,
            resets_ms: Some(100.0 * hour),
            history_hours: 1,
        };
        #[rustfmt::skip]
        let table = [
            (forecast(Some(2.0 * hour), Some(5.0 * hour), Some(9.0 * hour)), Some("it probably ends in 5 h, between 2 h and 9 h")),
            (forecast(Some(2.0 * hour), Some(5.0 * hour), None),             Some("it probably ends in 5 h, between 2 h and its reset")),
            (forecast(Some(2.0 * hour), None, None),                         Some("it may end in 2 h at the earliest")),
            (forecast(None, None, None),                                     None),
        ];
        for (forecast, expected) in table {
            let expected = expected.map(|expected| format!("`per-month`: at the present pace {expected}"));
            assert_eq!(ends(&forecast), expected, "{forecast:?}");
        }
        let later = forecast(Some(hour), Some(3.0 * hour), None).after(2.0 * hour);
        assert_eq!((later.p10_ms, later.p50_ms, later.resets_ms), (Some(0.0), Some(hour), Some(98.0 * hour)));
    }
}
