//! The bills of remembered permits, each kept once.

use crate::policy::Bill;
use hashbrown::HashSet;
use std::sync::Arc;

/// Room for this many bills is always kept.
const MIN_ROOM: usize = 1024;
/// There is too much room if less than one part in this many is in use.
const SPARSE: usize = 8;

/// Bills in use. Calls have few different costs, so shared bills save a third of a permit's memory.
#[derive(Debug, Default)]
pub(crate) struct Bills {
    kept: HashSet<Arc<Bill>>,
    /// The bill that was asked for last, which is often asked for next.
    last: Option<Arc<Bill>>,
}

impl Bills {
    /// The kept bill that equals `bill`.
    pub(crate) fn keep(&mut self, bill: Bill) -> Arc<Bill> {
        if let Some(last) = self.last.as_ref().filter(|last| ***last == bill) {
            return Arc::clone(last);
        }
        let kept = self.kept.get(&bill).cloned().unwrap_or_else(|| {
            let bill = Arc::new(bill);
            self.kept.insert(Arc::clone(&bill));
            bill
        });
        self.last = Some(Arc::clone(&kept));
        kept
    }

    /// Shrinks the set when a flood of keys, each with bills of its own, has left it sparse.
    fn give_back_room(&mut self) {
        if self.kept.capacity() > MIN_ROOM && self.kept.len() < self.kept.capacity() / SPARSE {
            self.kept.shrink_to(2 * self.kept.len());
        }
    }

    /// Forgets `bill` once no permit uses it.
    pub(crate) fn release(&mut self, bill: &Arc<Bill>) {
        let is_last = self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, bill));
        let own_references = 2 + usize::from(is_last);
        assert!(Arc::strong_count(bill) >= own_references, "a bill that a permit uses is kept");
        if Arc::strong_count(bill) == own_references {
            self.last.take_if(|_| is_last);
            assert!(self.kept.remove(bill), "a bill in use is kept");
            self.give_back_room();
        }
    }
}
