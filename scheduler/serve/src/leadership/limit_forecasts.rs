//! Forecasts when the limits of a resource run out, from their use.

use crate::forecast::{History, LimitState, forecast};
use jiff::civil::Date;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::forecast::LimitForecast;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::LimitStatus;
use rampmeter_store::{HOURS, StoredDayUsage};

const MILLIS_PER_HOUR: f64 = 3_600_000.0;
/// The seed of all replays, so that the same state gives the same forecast.
const SEED: u64 = 1;
const EPOCH: Date = jiff::civil::date(1970, 1, 1);

/// Forecasts each limit whose use is known by the hour. `days` have no gap; `now` is in hours since 1970.
pub(crate) fn limit_forecasts(limits: &[LimitStatus], days: &[(Date, StoredDayUsage)], now: f64) -> Vec<LimitForecast> {
    let of_limit = |limit: &LimitStatus| {
        let is_bucket = limit.shadow.is_none() && limit.key.is_none();
        let history = history(&limit.name, days, now).filter(|_| is_bucket)?;
        let found = forecast(&history, &state(limit, now), SEED)?;
        let ms = |hours: Option<f64>| hours.map(|hours| hours * MILLIS_PER_HOUR);
        Some(LimitForecast {
            limit: limit.name.clone(),
            p10_ms: ms(found.p10),
            p50_ms: ms(found.p50),
            p90_ms: ms(found.p90),
            share: found.share,
            resets_ms: limit.resets_ms,
            history_hours: history.len() as u64,
        })
    };
    limits.iter().filter_map(of_limit).collect()
}

/// Returns the state of a limit. One without windows refills within its period, which the forecast covers.
fn state(limit: &LimitStatus, now: f64) -> LimitState {
    let period = limit.period_ms / MILLIS_PER_HOUR;
    let full = limit.capacity - limit.margin;
    let (refill, until) = match limit.resets_ms {
        Some(resets) => (0.0, resets / MILLIS_PER_HOUR),
        // A quota that is never reset does not come back.
        None if limit.algorithm == "quota" => (0.0, period),
        None => (limit.capacity / period, period),
    };
    LimitState { now, left: limit.level, full, refill, until: now + until }
}

/// Returns the use of each whole hour since the limit was first used, or `None` if it never was.
fn history(limit: &Name, days: &[(Date, StoredDayUsage)], now: f64) -> Option<History> {
    let (first, _) = days.first()?;
    let begins = u64::try_from((*first - EPOCH).get_days()).ok()? * HOURS as u64;
    let hours = days.iter().flat_map(|(_, day)| day.hours(limit).copied().unwrap_or([0; HOURS]));
    let complete = (now.floor() as u64).checked_sub(begins)?;
    let hours: Vec<i64> = hours.take(usize::try_from(complete).ok()?).collect();
    let unused = hours.iter().position(|micros| *micros != 0)?;
    let amounts = hours[unused..].iter().map(|micros| *micros as f64 / Amount::ONE.micros() as f64);
    Some(History::new(begins + unused as u64, amounts.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::ToSpan;
    use rampmeter_scheduler_core::views::Use;

    fn limit(name: &str, algorithm: &str, level: f64, resets_ms: Option<f64>) -> LimitStatus {
        let text = format!(
            r#"{{"name": "{name}", "unit": "requests", "algorithm": "{algorithm}", "capacity": 1000.0, "period_ms": 864e5,
                "margin": 0.0, "level": {level}, "next_free_ms": 0.0, "keys": 1, "frozen_ms": 0.0}}"#
        );
        LimitStatus { resets_ms, ..serde_json::from_str(&text).unwrap() }
    }

    #[test]
    fn a_limit_is_told_by_its_own_hours() {
        let (first, per_hour) = (jiff::civil::date(2026, 1, 5), 10_000_000);
        let used = Use { clients: Vec::new(), limits: vec![(Name::new("per-day").unwrap(), per_hour)] };
        let mut days = Vec::new();
        for number in 0..8 {
            let mut day = StoredDayUsage::default();
            (0..HOURS).for_each(|hour| day.count(hour, &used));
            days.push((first.checked_add(number.days()).unwrap(), day));
        }
        let begins = f64::from((first - EPOCH).get_days()) * 24.0;
        let now = begins + 7.0 * 24.0 + 3.5;
        let quota = limit("per-day", "quota", 50.0, Some(20.0 * MILLIS_PER_HOUR));
        let bucket = limit("per-day", "token-bucket", 50.0, None);
        let forecasts = limit_forecasts(&[quota, bucket, limit("unknown", "quota", 50.0, None)], &days, now);
        let seen: Vec<_> =
            forecasts.iter().map(|one| (one.p50_ms, one.share, one.resets_ms, one.history_hours)).collect();
        let (hours, five) = (7 * 24 + 3, Some(5.0 * MILLIS_PER_HOUR));
        assert_eq!(seen, [(five, 1.0, Some(20.0 * MILLIS_PER_HOUR), hours), (None, 0.0, None, hours)]);
        assert!(limit_forecasts(&[limit("per-day", "quota", 50.0, None)], &days, begins).is_empty(), "no hour is over");
    }
}
