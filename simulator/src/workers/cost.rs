//! The costs of calls.

use crate::rng::Rng;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::{Cost, REQUESTS};

/// The distribution of a call's cost in one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Draw {
    /// A constant amount.
    Always(Amount),
    /// Evenly distributed between two amounts.
    Between(Amount, Amount),
    /// One of these amounts, each equally likely. The list must not be empty.
    OneOf(Vec<Amount>),
    /// Exponentially distributed and cut off at a bound: mostly little, sometimes much.
    Exponential {
        /// The mean, as long as the bound is far above it.
        mean: Amount,
        /// The bound.
        most: Amount,
    },
}

impl Draw {
    fn draw(&self, dice: &mut Rng) -> Amount {
        match self {
            Draw::Always(amount) => *amount,
            Draw::Between(least, most) => of_micros(dice.number(least.micros(), most.micros().max(least.micros()))),
            Draw::OneOf(amounts) => amounts[dice.number(0, amounts.len() as u64 - 1) as usize],
            Draw::Exponential { mean, most } => of_micros(dice.exponential(mean.micros()).min(most.micros())),
        }
    }

    fn most(&self) -> Amount {
        match self {
            Draw::Always(amount) => *amount,
            Draw::Between(least, most) => *most.max(least),
            Draw::OneOf(amounts) => amounts.iter().max().copied().unwrap_or(Amount::ZERO),
            Draw::Exponential { most, .. } => *most,
        }
    }
}

fn of_micros(micros: u64) -> Amount {
    Amount::from_micros(micros).expect("no more than another amount")
}

impl From<Amount> for Draw {
    fn from(amount: Amount) -> Self {
        Draw::Always(amount)
    }
}

/// The cost of calls by unit; one request by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostModel(Vec<(String, Draw)>);

impl CostModel {
    /// Creates the cost of one request.
    #[must_use]
    pub const fn new() -> Self {
        CostModel(Vec::new())
    }

    /// Adds a cost in `unit`.
    #[must_use]
    pub fn with(mut self, unit: &str, draw: impl Into<Draw>) -> Self {
        self.0.push((unit.to_owned(), draw.into()));
        self
    }

    /// Draws the cost of one call. Units beyond those that a request may contain are left out.
    pub(crate) fn draw(&self, dice: &mut Rng) -> Cost<'static> {
        self.each(|draw| draw.draw(dice))
    }

    pub(crate) fn most(&self) -> Cost<'static> {
        self.each(Draw::most)
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.0.iter().all(|(_, draw)| matches!(draw, Draw::Always(_)))
    }

    fn each(&self, mut amount: impl FnMut(&Draw) -> Amount) -> Cost<'static> {
        let mut cost = Cost::new();
        for (unit, draw) in &self.0 {
            if cost.set(unit.clone(), amount(draw)).is_err() {
                break;
            }
        }
        cost
    }
}

/// Returns what a call takes of `unit`; one request by default.
#[must_use]
pub fn amount_of(cost: &Cost<'_>, unit: &str) -> Amount {
    let implied = if unit == REQUESTS { Amount::ONE } else { Amount::ZERO };
    cost.get(unit).unwrap_or(implied)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(units: u32) -> Amount {
        Amount::new(f64::from(units)).unwrap()
    }

    /// The least, the mean and the most of ten thousand draws.
    fn drawn(draw: &Draw) -> (f64, f64, f64) {
        let dice = &mut Rng::new(1);
        let drawn: Vec<f64> = (0..10_000).map(|_| draw.draw(dice).units()).collect();
        let bounds = drawn.iter().fold((f64::MAX, 0.0), |(least, most), x| (x.min(least), x.max(most)));
        (bounds.0, drawn.iter().sum::<f64>() / 1e4, bounds.1)
    }

    #[test]
    fn draws_lie_where_they_should() {
        #[rustfmt::skip]
        let table = [
            // draw,                                                        least, mean, most
            (Draw::Always(units(3)),                                          3.0,  3.0,  3.0),
            (Draw::Between(units(1), units(4)),                               1.0,  2.5,  4.0),
            (Draw::OneOf(vec![units(1), units(1), units(10)]),                1.0,  4.0, 10.0),
            (Draw::Exponential { mean: units(2), most: units(12) },           0.0,  2.0, 12.0),
        ];
        for (draw, least, mean, most) in table {
            let found = drawn(&draw);
            let near = |found: f64, right: f64| (found - right).abs() <= 0.05;
            assert!(near(found.0, least) && near(found.1, mean) && near(found.2, most), "{draw:?}: {found:?}");
            assert_eq!(draw.most().units(), most, "{draw:?}");
        }
    }
}
