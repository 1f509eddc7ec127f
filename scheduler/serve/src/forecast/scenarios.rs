//! Measures forecasts: months of six shapes, each forecast at its middle.

#![expect(clippy::print_stdout, reason = "figures, shown with --nocapture")]

use super::{History, LimitState, forecast};
use rampmeter_protocol::splitmix::SplitMix64;

/// Months of each shape.
const MONTHS: u64 = 200;
/// The length of the period, in days.
const PERIOD: usize = 30;
const HOURS: usize = 24;
/// The first hour: a Monday.
const FIRST: u64 = 24 * 20_465;

/// The share of hours with ten times the use, in the shape of that name.
const BURSTS: f64 = 1.0 / 30.0;

#[derive(Clone, Copy, Debug)]
enum Shape {
    Steady,
    OfficeHours,
    Growth,
    Decline,
    Bursts,
    TwoWeeks,
}

/// Bars: mean error in percent of the period, and the shares of months within 5 % and between p10 and p90.
type Bars = (f64, f64, f64);

const TABLE: [(Shape, Bars); 6] = [
    (Shape::Steady, (1.5, 0.97, 0.80)),
    (Shape::OfficeHours, (2.6, 0.86, 0.78)),
    (Shape::Growth, (3.3, 0.78, 0.78)),
    (Shape::Decline, (4.0, 0.70, 0.80)),
    (Shape::Bursts, (4.0, 0.70, 0.78)),
    (Shape::TwoWeeks, (3.5, 0.75, 0.72)),
];

impl Shape {
    fn days_before(self) -> usize {
        if matches!(self, Shape::TwoWeeks) { 0 } else { 20 }
    }

    /// Returns the mean use in an hour of a day.
    fn usual(self, day: usize, hour: usize) -> f64 {
        let office = if day % 7 >= 5 { 0.15 } else { 1.0 } * if (7..18).contains(&hour) { 2.0 } else { 0.2 };
        match self {
            Shape::Steady | Shape::Bursts => 1.0,
            Shape::OfficeHours | Shape::TwoWeeks => office,
            Shape::Growth => office * (1.0 + 0.03 * day as f64),
            Shape::Decline => office * (1.0 - 0.012 * day as f64),
        }
    }

    /// Returns the random spread of days, and of the hours in a day.
    fn spread(self) -> (f64, f64) {
        match self {
            Shape::Steady => (0.1, 0.3),
            Shape::OfficeHours | Shape::Growth | Shape::Decline | Shape::TwoWeeks => (0.1, 0.4),
            Shape::Bursts => (0.2, 0.4),
        }
    }

    /// Returns the use of each hour until the end of the period.
    fn hours(self, chance: &mut SplitMix64) -> Vec<f64> {
        let (of_days, of_hours) = self.spread();
        let mut hours = Vec::new();
        for day in 0..self.days_before() + PERIOD {
            let level = (normal(chance) * of_days).exp();
            hours.extend((0..HOURS).map(|hour| {
                let burst = if matches!(self, Shape::Bursts) && uniform(chance) < BURSTS { 10.0 } else { 1.0 };
                burst * level * self.usual(day, hour) * (normal(chance) * of_hours).exp()
            }));
        }
        hours
    }
}

fn uniform(chance: &mut SplitMix64) -> f64 {
    (chance.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Draws an approximately normal number, from twelve uniform ones.
fn normal(chance: &mut SplitMix64) -> f64 {
    (0..12).map(|_| uniform(chance)).sum::<f64>() - 6.0
}

/// Returns the error of p50 as a share of the period, and whether the end lies between p10 and p90.
fn month(shape: Shape, chance: &mut SplitMix64, seed: u64) -> (f64, bool) {
    let (hours, begins) = (shape.hours(chance), shape.days_before() * HOURS);
    // The limit ends at a chance hour of the last third of the period.
    let end = begins + PERIOD * HOURS * 2 / 3 + (chance.draw() % (PERIOD * HOURS / 4) as u64) as usize;
    let middle = begins + PERIOD * HOURS / 2;
    let left = hours[middle..end].iter().sum();
    let capacity = hours[begins..end].iter().sum();
    let now = (FIRST + middle as u64) as f64;
    let state = LimitState { now, left, full: capacity, refill: 0.0, until: now + (PERIOD * HOURS * 2) as f64 };
    let told = forecast(&History::new(FIRST, hours[..middle].to_vec()), &state, seed).unwrap();
    let (period, actual) = ((PERIOD * HOURS) as f64, (end - middle) as f64);
    let after = |end: Option<f64>| end.unwrap_or(f64::INFINITY);
    let inside = after(told.p10) <= actual + 1.0 && actual - 1.0 <= after(told.p90);
    ((after(told.p50) - actual).abs() / period, inside)
}

#[test]
fn at_the_middle_of_the_period_the_end_is_known_within_a_twentieth() {
    let (mut inside_of_all, mut failed) = (0.0, Vec::new());
    println!("| shape | mean error | within 5 % | between p10 and p90 |\n|---|---|---|---|");
    for (number, (shape, (error, within, between))) in TABLE.into_iter().enumerate() {
        let mut chance = SplitMix64::new(1).fork(number as u64);
        let months: Vec<(f64, bool)> = (0..MONTHS).map(|seed| month(shape, &mut chance, seed)).collect();
        let share =
            |is: &dyn Fn(&(f64, bool)) -> bool| months.iter().filter(|month| is(month)).count() as f64 / MONTHS as f64;
        let mean = 100.0 * months.iter().map(|(off, _)| off).sum::<f64>() / MONTHS as f64;
        let (near, inside) = (share(&|(off, _)| *off <= 0.05), share(&|(_, inside)| *inside));
        println!("| {shape:?} | {mean:.1} % | {:.0} % | {:.0} % |", 100.0 * near, 100.0 * inside);
        inside_of_all += inside / TABLE.len() as f64;
        if mean > error || near < within || inside < between {
            failed.push(shape);
        }
    }
    println!("| all | | | {:.1} % |", 100.0 * inside_of_all);
    assert!(failed.is_empty(), "{failed:?}");
    assert!(inside_of_all >= 0.8, "{inside_of_all}");
}
