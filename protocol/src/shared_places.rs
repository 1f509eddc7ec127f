//! Places shared by several holders, none of which may take them all.

use std::collections::HashMap;
use std::hash::Hash;

/// The places of each holder, whose share follows the free ones, like the dynamic thresholds of Choudhury and Hahne
/// (IEEE/ACM Transactions on Networking 6(2), 1998): one may take most, but some always stay free for others.
///
/// ```
/// use rampmeter_protocol::shared_places::SharedPlaces;
///
/// let mut places = SharedPlaces::default();
/// let taken = (0..9).take_while(|taken| {
///     let may_take = places.may_take(&"greedy", 2, 9 - taken);
///     places.take("greedy");
///     may_take
/// });
/// assert_eq!(taken.count(), 6);
/// assert!(places.may_take(&"other", 2, 3));
/// ```
#[derive(Clone, Debug)]
pub struct SharedPlaces<H>(HashMap<H, usize>);

impl<H> Default for SharedPlaces<H> {
    fn default() -> Self {
        SharedPlaces(HashMap::new())
    }
}

impl<H: Eq + Hash> SharedPlaces<H> {
    /// Returns whether `holder` has fewer than `times` × `free` places and may take one.
    #[must_use]
    pub fn may_take(&self, holder: &H, times: usize, free: usize) -> bool {
        self.held_by(holder) < free.saturating_mul(times)
    }

    /// Returns the number of places of `holder`.
    #[must_use]
    pub fn held_by(&self, holder: &H) -> usize {
        self.0.get(holder).copied().unwrap_or(0)
    }

    /// Gives `holder` one more place.
    pub fn take(&mut self, holder: H) {
        *self.0.entry(holder).or_default() += 1;
    }

    /// Takes a place back.
    ///
    /// # Panics
    /// If the holder has none.
    pub fn give_back(&mut self, holder: &H) {
        let count = self.0.get_mut(holder).expect("a holder gives back what it has");
        *count -= 1;
        if *count == 0 {
            self.0.remove(holder);
        }
    }
}
