//! Work that arrives independently of the workers and waits for a free one.

use crate::rng::Rng;
use crate::workers::fleet::{Arrivals, Fleet};
use crate::workers::price::Prices;
use crate::workers::worker::WantedCall;
use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;
use std::ops::Range;

const SECOND: f64 = 1e9;

#[derive(Debug)]
pub(crate) struct Backlog {
    pub(crate) workers: Range<usize>,
    pub(crate) waiting: VecDeque<WantedCall>,
    fleet: usize,
    dice: Rng,
    arrivals: Arrivals,
    until: Time,
    /// Arrivals left; `None` for endless work.
    to_come: Option<u64>,
}

impl Backlog {
    pub(crate) fn new(number: usize, fleet: &Fleet, workers: Range<usize>, dice: Rng) -> Self {
        let to_come = fleet.calls.map(|calls| u64::from(calls) * workers.len() as u64);
        let (waiting, arrivals, until) = (VecDeque::new(), fleet.arrivals, fleet.until);
        Backlog { workers, waiting, fleet: number, dice, arrivals, until, to_come }
    }

    /// Returns when the first work of a fleet that begins at `from` arrives.
    pub(crate) fn first(&mut self, from: Time) -> Option<Time> {
        match self.arrivals {
            Arrivals::Bursts { .. } => Some(from),
            Arrivals::Loop | Arrivals::Poisson { .. } => self.next(from),
        }
    }

    /// Adds the work that arrives at `now`, and returns the time of the next arrival.
    pub(crate) fn arrive(&mut self, now: Time, prices: &Prices<'_>) -> Option<Time> {
        let pieces = match self.arrivals {
            Arrivals::Loop => 0,
            Arrivals::Poisson { .. } => 1,
            Arrivals::Bursts { calls, .. } => u64::from(calls),
        };
        let pieces = self.to_come.map_or(pieces, |left| pieces.min(left));
        self.to_come = self.to_come.map(|left| left - pieces);
        for _ in 0..pieces {
            let price = prices.draw(self.fleet, now, &mut self.dice);
            self.waiting.push_back(WantedCall::new(now, price));
        }
        self.next(now)
    }

    /// Puts the work of a dead worker back. In a [`Arrivals::Loop`] the worker asks again instead.
    pub(crate) fn take_back(&mut self, unfinished: Option<WantedCall>) {
        if self.arrivals != Arrivals::Loop {
            unfinished.into_iter().for_each(|wanted| self.waiting.push_front(wanted));
        }
    }

    fn next(&mut self, now: Time) -> Option<Time> {
        let gap = match self.arrivals {
            Arrivals::Loop => return None,
            Arrivals::Poisson { per_second } => Span::from_nanos(self.dice.exponential((SECOND / per_second) as u64)),
            Arrivals::Bursts { every, .. } => every,
        };
        Some(now + gap).filter(|next| *next < self.until && self.to_come != Some(0))
    }
}
