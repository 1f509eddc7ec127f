//! The bills of remembered permits, each kept once.

use crate::bill::Bill;
use hashbrown::HashSet;
use std::sync::Arc;

/// Room for fewer bills than these is kept.
const LEAST_ROOM: usize = 1024;
/// Of so many places one is in use where there is too much room.
const SPARSE: usize = 8;

/// Bills in use. Calls of a fleet have few different costs: a permit that points at its bill takes a
/// third less memory than one that has a bill of its own.
#[derive(Debug, Default)]
pub(crate) struct Bills(HashSet<Arc<Bill>>);

impl Bills {
    /// The kept bill that equals `bill`.
    pub(crate) fn keep(&mut self, bill: Bill) -> Arc<Bill> {
        match self.0.get(&bill) {
            Some(kept) => Arc::clone(kept),
            None => {
                let bill = Arc::new(bill);
                self.0.insert(Arc::clone(&bill));
                bill
            }
        }
    }

    /// After a flood of keys, each with bills of its own, there is room that nobody needs.
    fn give_back_room(&mut self) {
        if self.0.capacity() > LEAST_ROOM && self.0.len() < self.0.capacity() / SPARSE {
            self.0.shrink_to(2 * self.0.len());
        }
    }

    /// Forgets `bill` if nobody else uses it.
    pub(crate) fn release(&mut self, bill: &Arc<Bill>) {
        let here_and_there = 2;
        if Arc::strong_count(bill) == here_and_there {
            self.0.remove(bill);
            self.give_back_room();
        }
    }
}
