//! Serves lanes in turn, by bytes.
//!
//! Surplus round robin (Adiseshu, Parulkar, Varghese: A Reliable and Scalable Striping Protocol, SIGCOMM 1996):
//! a lane that overdraws its quantum with a large message pays in later rounds. Lanes may contain lanes.

use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// The bytes that a lane may take in one round: about a hundred small requests.
const QUANTUM: isize = 16 << 10;

pub(crate) trait UserQueue: Default {
    type Message;

    /// Removes the next message, and returns it with its size in bytes.
    fn pop(&mut self) -> Option<(Self::Message, usize)>;
}

/// Lanes by key. No lane is empty.
#[derive(Debug)]
pub(crate) struct RoundRobin<K, L> {
    shares: HashMap<K, Share<L>>,
    order: VecDeque<K>,
}

#[derive(Debug)]
struct Share<L> {
    lane: L,
    bytes: usize,
    /// The bytes that the lane may still serve in this round.
    surplus: isize,
}

impl<K, L> Default for RoundRobin<K, L> {
    fn default() -> Self {
        RoundRobin { shares: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash, L: UserQueue> RoundRobin<K, L> {
    pub(crate) fn bytes(&self, key: K) -> usize {
        self.shares.get(&key).map_or(0, |share| share.bytes)
    }

    pub(crate) fn get(&self, key: K) -> Option<&L> {
        self.shares.get(&key).map(|share| &share.lane)
    }

    /// Returns the lane for a message of `bytes` bytes, which the caller adds. A new lane is last in the round.
    pub(crate) fn add(&mut self, key: K, bytes: usize) -> &mut L {
        let share = self.shares.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            Share { lane: L::default(), bytes: 0, surplus: QUANTUM }
        });
        share.bytes += bytes;
        &mut share.lane
    }
}

impl<K: Copy + Eq + Hash, L: UserQueue> UserQueue for RoundRobin<K, L> {
    type Message = L::Message;

    fn pop(&mut self) -> Option<(L::Message, usize)> {
        loop {
            let key = *self.order.front()?;
            let share = self.shares.get_mut(&key)?;
            if share.surplus > 0 {
                let popped = share.lane.pop()?;
                share.surplus -= popped.1 as isize;
                share.bytes -= popped.1;
                if share.bytes == 0 {
                    self.shares.remove(&key);
                    self.order.pop_front();
                }
                return Some(popped);
            }
            share.surplus += QUANTUM;
            self.order.rotate_left(1);
        }
    }
}
