//! Checks that calls in flight never hold more of a limit than its capacity.

use super::room::Room;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a call holds from the first time until before the second.
pub(super) type Holding = (Time, Time, Amount);

/// Returns by how many millionths holdings, in order, first exceed the room, and when.
pub(super) fn excess(room: Room, holdings: impl Iterator<Item = Holding>) -> Option<(i128, Time)> {
    let (mut held, mut ends) = (0, BinaryHeap::new());
    for (from, until, amount) in holdings.filter(|(from, until, _)| from < until) {
        while let Some(Reverse((_, amount))) = ends.peek().copied().filter(|Reverse((until, _))| *until <= from) {
            ends.pop();
            held -= amount;
        }
        let amount = i128::from(amount.micros());
        held += amount;
        ends.push(Reverse((until, amount)));
        if let Some(excess) = room.excess(held, ends.len()) {
            return Some((excess, from));
        }
    }
    None
}
