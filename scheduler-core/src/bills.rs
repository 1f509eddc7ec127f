//! The bills of remembered permits, each kept once.

use crate::bill::Bill;
use hashbrown::HashSet;
use std::sync::Arc;

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

    /// Forgets `bill` if nobody else uses it.
    pub(crate) fn release(&mut self, bill: &Arc<Bill>) {
        let here_and_there = 2;
        if Arc::strong_count(bill) == here_and_there {
            self.0.remove(bill);
        }
    }
}
