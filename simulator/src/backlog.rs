//! Work that came by itself, and waits for a worker who is free.

use crate::dice::Dice;
use crate::fleet::{Arrivals, Fleet};
use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;
use std::ops::Range;

const SECOND: f64 = 1e9;

/// The work of one fleet.
#[derive(Debug)]
pub(crate) struct Backlog {
    pub(crate) workers: Range<usize>,
    /// When each piece came.
    pub(crate) waiting: VecDeque<Time>,
    arrivals: Arrivals,
    until: Time,
    /// How much is still to come; `None` for work without end.
    to_come: Option<u64>,
}

impl Backlog {
    pub(crate) fn new(fleet: &Fleet, workers: Range<usize>) -> Self {
        let to_come = fleet.calls.map(|calls| u64::from(calls) * workers.len() as u64);
        let (waiting, arrivals, until) = (VecDeque::new(), fleet.arrivals, fleet.until);
        Backlog { workers, waiting, arrivals, until, to_come }
    }

    /// Takes in what comes at `now`, and says when more does.
    pub(crate) fn arrive(&mut self, now: Time, dice: &mut Dice) -> Option<Time> {
        let pieces = match self.arrivals {
            Arrivals::Loop => 0,
            Arrivals::Poisson { .. } => 1,
            Arrivals::Bursts { calls, .. } => u64::from(calls),
        };
        let pieces = self.to_come.map_or(pieces, |left| pieces.min(left));
        self.to_come = self.to_come.map(|left| left - pieces);
        self.waiting.extend((0..pieces).map(|_| now));
        self.next(now, dice)
    }

    /// What a dead worker was at is to be done by another; who asks itself for work asks anew.
    pub(crate) fn take_back(&mut self, unfinished: Option<Time>) {
        if self.arrivals != Arrivals::Loop {
            unfinished.into_iter().for_each(|since| self.waiting.push_front(since));
        }
    }

    /// When work comes next, after `now`.
    pub(crate) fn next(&self, now: Time, dice: &mut Dice) -> Option<Time> {
        let gap = match self.arrivals {
            Arrivals::Loop => return None,
            Arrivals::Poisson { per_second } => Span::from_nanos(dice.exponential((SECOND / per_second) as u64)),
            Arrivals::Bursts { every, .. } => every,
        };
        Some(now + gap).filter(|next| *next < self.until && self.to_come != Some(0))
    }
}
