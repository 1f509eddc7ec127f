//! Replays of the history until the limit has run out.

use super::history::{Day, HOURS, History, is_weekend};
use super::trend::{Trend, confidence, points, trend};
use rampmeter_protocol::splitmix::SplitMix64;

/// The number of replays. A tenth of them is 30.
const REPLAYS: u64 = 300;
/// Bound on the days of a replay that are drawn from the history. Later days repeat the last of them.
const MOST_DAYS: usize = 366;
/// By how much the spread of replays is widened, since future days differ more than past days.
const WIDENED: f64 = 1.25;
/// The shares of replays that have run out by p10, p50 and p90.
const PARTS: [f64; 3] = [0.1, 0.5, 0.9];

/// The level of a limit, and when it is full again. Times are in hours since 1970.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LimitState {
    pub(crate) now: f64,
    pub(crate) left: f64,
    /// The level when full.
    pub(crate) full: f64,
    /// What refills per hour; zero for a window.
    pub(crate) refill: f64,
    /// The end of the window, or how far to look ahead if there is none.
    pub(crate) until: f64,
}

/// When a limit runs out, in hours from now. Times after [`LimitState::until`] are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Forecast {
    /// When one in ten replays has run out.
    pub(crate) p10: Option<f64>,
    pub(crate) p50: Option<f64>,
    pub(crate) p90: Option<f64>,
    /// The share of replays that run out in time, from 0 to 1.
    pub(crate) share: f64,
}

/// Returns when the limit runs out if use goes on as before, or `None` without history.
pub(crate) fn forecast(history: &History, state: &LimitState, seed: u64) -> Option<Forecast> {
    let days = history.days();
    if days.is_empty() {
        return None;
    }
    let trust = confidence(&points(&days));
    let mut ends: Vec<f64> = (0..REPLAYS)
        .map(|number| {
            let mut chance = SplitMix64::new(seed).fork(number);
            // Each replay knows another part of the history, as if other days had been seen.
            let mut known: Vec<&Day> = (0..days.len()).map(|_| &days[below(&mut chance, days.len())]).collect();
            known.sort_by_key(|day| day.number);
            let known: Vec<Day> = known.into_iter().cloned().collect();
            let trend = trend(&points(&known), trust);
            Replay { days: &known, trend, chance }.end(state).unwrap_or(f64::INFINITY)
        })
        .collect();
    ends.sort_by(f64::total_cmp);
    let share = ends.iter().filter(|end| end.is_finite()).count() as f64 / ends.len() as f64;
    let [p10, p50, p90] = PARTS.map(|part| ends[(part * (ends.len() - 1) as f64).round() as usize]);
    let widened = |end: f64| if p50.is_finite() { p50 + (end - p50) * WIDENED } else { end };
    let in_time = |end: f64| (state.now + end <= state.until).then_some(end.max(0.0));
    Some(Forecast { p10: in_time(widened(p10)), p50: in_time(p50), p90: in_time(widened(p90)), share })
}

struct Replay<'a> {
    days: &'a [Day],
    trend: Trend,
    chance: SplitMix64,
}

impl Replay<'_> {
    /// Returns the hours until the limit is used up, or `None` if some of it is left at the end.
    fn end(mut self, state: &LimitState) -> Option<f64> {
        let (mut now, mut left) = (state.now, state.left);
        let mut day = 0;
        let mut hours = [0.0; HOURS];
        let mut number = u64::MAX;
        while now < state.until && left > 0.0 {
            let hour = now.floor();
            let (today, of_day) = (hour as u64 / HOURS as u64, hour as u64 % HOURS as u64);
            if today != number && day < MOST_DAYS {
                (number, day) = (today, day + 1);
                hours = self.hours_of(today);
            }
            let part = (hour + 1.0).min(state.until) - now;
            let (used, came) = (hours[of_day as usize] * part, state.refill * part);
            let before = left;
            left = (left + came).min(state.full) - used;
            if left <= 0.0 {
                let net = before - left;
                return Some(now + part * before / net - state.now);
            }
            now += part;
        }
        (left <= 0.0).then_some(0.0)
    }

    /// Returns the hours of a future day, drawn from past days of the same kind if there are any.
    fn hours_of(&mut self, today: u64) -> [f64; HOURS] {
        let weekend = is_weekend(today);
        let alike = self.days.iter().filter(|day| is_weekend(day.number) == weekend).count();
        let day = match alike {
            0 => &self.days[below(&mut self.chance, self.days.len())],
            _ => {
                let place = below(&mut self.chance, alike);
                let mut alike = self.days.iter().filter(|day| is_weekend(day.number) == weekend);
                alike.nth(place).unwrap_or(&self.days[0])
            }
        };
        let factor = self.trend.factor(day.number, today);
        day.hours.map(|amount| amount * factor)
    }
}

fn below(chance: &mut SplitMix64, bound: usize) -> usize {
    (chance.draw() % bound.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first hour of a Monday.
    const MONDAY: u64 = 24 * 20_465;

    #[test]
    fn what_comes_back_and_what_is_reset_counts() {
        let history = History::new(MONDAY, vec![10.0; 7 * 24]);
        let now = (MONDAY + 7 * 24) as f64;
        let state = LimitState { now, left: 100.0, full: 1000.0, refill: 0.0, until: now + 48.0 };
        #[rustfmt::skip]
        let table = [
            ("it ends",                LimitState { ..state },                    Some(10.0), 1.0),
            ("a part of it comes back", LimitState { refill: 5.0, ..state },      Some(20.0), 1.0),
            ("all of it comes back",   LimitState { refill: 10.0, ..state },      None,       0.0),
            ("the reset comes first",  LimitState { until: now + 9.0, ..state },  None,       0.0),
            ("nothing is left",        LimitState { left: -3.0, ..state },        Some(0.0),  1.0),
        ];
        for (what, state, p50, share) in table {
            let found = forecast(&history, &state, 7).unwrap();
            assert_eq!((found.p50, found.share), (p50, share), "{what}: {found:?}");
        }
        assert_eq!(forecast(&History::default(), &state, 7), None);
    }

    #[test]
    fn weekends_are_like_weekends() {
        let hours = (0..14 * 24).map(|hour| if is_weekend((MONDAY + hour) / 24) { 0.0 } else { 1.0 });
        let history = History::new(MONDAY, hours.collect());
        // Friday noon: twelve hours of Friday, nothing at the weekend, and six hours of Monday.
        let now = (MONDAY + (14 + 4) * 24 + 12) as f64;
        let state = LimitState { now, left: 18.0, full: 100.0, refill: 0.0, until: now + 200.0 };
        assert_eq!(forecast(&history, &state, 7).unwrap().p50, Some(12.0 + 48.0 + 6.0));
    }
}
