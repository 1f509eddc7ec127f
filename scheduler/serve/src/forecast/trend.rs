//! The growth or decline of use from day to day.

use super::history::{Day, is_weekend};
use std::cmp::Ordering;

/// With fewer days, a trend cannot be distinguished from chance.
const MIN_DAYS: usize = 14;
/// The trend never takes a day below this share of its usual use.
const LEAST: f64 = 0.25;
/// Trends less certain than this are ignored, in standard deviations of the sign test.
const UNSURE: f64 = 1.5;
/// Trends more certain than this count fully.
const SURE: f64 = 3.0;

/// A line through the daily totals, relative to the mean of their kind of day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trend {
    middle: f64,
    /// Change per day, as a share of a usual day.
    slope: f64,
}

/// The number of a day, and its relative total.
type Point = (f64, f64);

impl Trend {
    /// Returns the factor by which use changes from one day to another.
    pub(crate) fn factor(self, from: u64, to: u64) -> f64 {
        self.at(to) / self.at(from)
    }

    fn at(self, day: u64) -> f64 {
        (1.0 + self.slope * (day as f64 - self.middle)).max(LEAST)
    }
}

/// Returns one point per day: its number, and its total relative to the mean of its kind.
pub(crate) fn points(days: &[Day]) -> Vec<Point> {
    let mean = |weekend: bool| {
        let totals: Vec<f64> = days.iter().filter(|day| is_weekend(day.number) == weekend).map(Day::total).collect();
        totals.iter().sum::<f64>() / totals.len().max(1) as f64
    };
    let means = [mean(false), mean(true)];
    let relative = |day: &Day| {
        let mean = means[usize::from(is_weekend(day.number))];
        (day.number as f64, if mean > 0.0 { day.total() / mean } else { 1.0 })
    };
    days.iter().map(relative).collect()
}

/// Returns the confidence in the trend of `points`, from 0 to 1, by the sign test of Mann and Kendall.
pub(crate) fn confidence(points: &[Point]) -> f64 {
    let count = points.len() as f64;
    if points.len() < MIN_DAYS {
        return 0.0;
    }
    let sign = |((_, first), (_, second)): (Point, Point)| match second.total_cmp(&first) {
        Ordering::Less => -1.0,
        Ordering::Equal => 0.0,
        Ordering::Greater => 1.0,
    };
    let signs: f64 = pairs(points).map(sign).sum();
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    ((signs.abs() / deviation - UNSURE) / (SURE - UNSURE)).clamp(0.0, 1.0)
}

/// Fits the line of Theil and Sen, whose slope is the median of all slopes between two days, so that a
/// few outliers do not move it. `confidence` scales the slope.
pub(crate) fn trend(points: &[Point], confidence: f64) -> Trend {
    let middle = median(points.iter().map(|(day, _)| *day).collect());
    let slope = |((first, before), (second, after)): (Point, Point)| (after - before) / (second - first);
    let slopes = pairs(points).filter(|((first, _), (second, _))| first < second).map(slope).collect();
    Trend { middle, slope: if confidence > 0.0 { median(slopes) * confidence } else { 0.0 } }
}

fn pairs(points: &[Point]) -> impl Iterator<Item = (Point, Point)> {
    points.iter().enumerate().flat_map(|(index, first)| points[index + 1..].iter().map(|second| (*first, *second)))
}

/// Returns zero if there is no value.
fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    *median
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(total: impl Fn(u64) -> f64) -> Vec<Day> {
        (20_000..20_028).map(|number| Day { number, hours: [total(number - 20_000) / 24.0; 24] }).collect()
    }

    #[test]
    fn a_trend_is_found_among_wild_days_and_none_in_an_even_history() {
        let growing = points(&line(|day| if day % 9 == 4 { 900.0 } else { 100.0 + 3.0 * day as f64 }));
        let trend_of = trend(&growing, confidence(&growing));
        let factor = trend_of.factor(20_014, 20_028);
        assert!((1.15..1.45).contains(&factor), "{factor} {trend_of:?}");
        let even = points(&line(|_| 5.0));
        assert_eq!((confidence(&even), trend(&even, confidence(&even)).factor(20_000, 20_100)), (0.0, 1.0));
        let falling = Trend { middle: 20_000.0, slope: -0.5 };
        assert_eq!(falling.factor(20_000, 20_100), LEAST);
    }
}
