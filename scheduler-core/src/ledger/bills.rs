//! The bills of remembered permits, each kept once.

use crate::policy::Bill;
use hashbrown::HashSet;
use std::sync::Arc;

/// Room for fewer bills than these is kept.
const LEAST_ROOM: usize = 1024;
/// Of so many places one is in use where there is too much room.
const SPARSE: usize = 8;

/// Bills in use. Calls of a fleet have few different costs: a permit that points at its bill takes a
/// third less memory than one that has a bill of its own.
#[derive(Debug, Default)]
pub(crate) struct Bills {
    kept: HashSet<Arc<Bill>>,
    /// The one that was asked for last, which most often is the next one's as well.
    last: Option<Arc<Bill>>,
}

impl Bills {
    /// The kept bill that equals `bill`.
    pub(crate) fn keep(&mut self, bill: Bill) -> Arc<Bill> {
        if let Some(last) = self.last.as_ref().filter(|last| ***last == bill) {
            return Arc::clone(last);
        }
        let kept = match self.kept.get(&bill) {
            Some(kept) => Arc::clone(kept),
            None => {
                let bill = Arc::new(bill);
                self.kept.insert(Arc::clone(&bill));
                bill
            }
        };
        self.last = Some(Arc::clone(&kept));
        kept
    }

    /// After a flood of keys, each with bills of its own, there is room that nobody needs.
    fn give_back_room(&mut self) {
        if self.kept.capacity() > LEAST_ROOM && self.kept.len() < self.kept.capacity() / SPARSE {
            self.kept.shrink_to(2 * self.kept.len());
        }
    }

    /// Forgets `bill` if nobody else uses it.
    pub(crate) fn release(&mut self, bill: &Arc<Bill>) {
        let is_last = self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, bill));
        let here_and_there = 2 + usize::from(is_last);
        if Arc::strong_count(bill) == here_and_there {
            self.last.take_if(|_| is_last);
            self.kept.remove(bill);
            self.give_back_room();
        }
    }
}
