//! The upstream's snapshots of a phase.

use rampmeter_upstream::{PolicyStats, Stats, Tally, Utilisation};

/// The latest snapshot of an upstream, and the one at the end of its first burst.
pub(super) struct Observation {
    last: Stats,
    burst: Burst,
}

/// The first burst: calls spend the stock of full buckets faster than it refills.
enum Burst {
    Ahead,
    Running,
    Spent(Box<Stats>),
}

impl Observation {
    /// An observation of an upstream without calls.
    pub(super) fn new(start: Stats) -> Self {
        Observation { last: start, burst: Burst::Ahead }
    }

    /// Adds the next snapshot. To show the burst, snapshots need a steady pace of a few per second.
    pub(super) fn add(&mut self, now: Stats) {
        let draws_on_stock = now.utilisation_since(&self.last).iter().any(|used| used.spent > used.offered);
        match (&self.burst, draws_on_stock) {
            (Burst::Ahead, true) => self.burst = Burst::Running,
            (Burst::Running, false) => self.burst = Burst::Spent(Box::new(now.clone())),
            (Burst::Ahead, false) | (Burst::Running, true) | (Burst::Spent(_), _) => {}
        }
        self.last = now;
    }

    /// The counts of all calls so far.
    pub(super) fn total(&self) -> Tally {
        self.last.total
    }

    /// The value of [`Figures::utilisation`](super::Figures::utilisation). The most used limit is
    /// the binding one.
    pub(super) fn utilisation(&self) -> Option<f64> {
        let Burst::Spent(spent) = &self.burst else { return None };
        let used = self.last.utilisation_since(spent).into_iter();
        let stocks = spent.policies.iter().zip(&self.last.policies);
        used.zip(stocks).filter_map(|(used, (then, now))| without_stock(used, then, now).ratio()).reduce(f64::max)
    }
}

/// The utilisation without the spending of stock that was left after the burst.
fn without_stock(used: Utilisation, then: &PolicyStats, now: &PolicyStats) -> Utilisation {
    let spent = used.spent.saturating_sub(then.level.saturating_sub(now.level));
    // The cap is needed because levels are rounded.
    Utilisation { spent: spent.min(used.offered), ..used }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_upstream::Amount;
    use std::time::Duration;

    /// What a snapshot shows of one policy.
    struct Seen {
        spent: u32,
        level: u32,
    }

    /// Snapshots a second apart of an upstream with 10 and 20 per second.
    fn check(snapshots: &[[Seen; 2]], expected: Option<f64>) {
        let mut snapshots = (0..).zip(snapshots).map(|(second, seen)| Stats {
            uptime: Duration::from_secs(second),
            total: Tally::default(),
            policies: ["a=10/1s", "b=20/1s"].iter().zip(seen).map(policy).collect(),
            classes: Default::default(),
        });
        let mut observation = Observation::new(snapshots.next().unwrap());
        snapshots.for_each(|snapshot| observation.add(snapshot));
        assert_eq!(observation.utilisation(), expected);
    }

    fn policy((text, seen): (&&str, &Seen)) -> PolicyStats {
        let (spent, level) = (Amount::whole(seen.spent), Amount::whole(seen.level));
        PolicyStats { policy: text.parse().unwrap(), spent, level }
    }

    /// A snapshot of two policies that have no stock.
    fn spent(a: u32, b: u32) -> [Seen; 2] {
        [a, b].map(|spent| Seen { spent, level: 0 })
    }

    #[test]
    fn use_counts_from_the_end_of_the_burst() {
        check(&[spent(0, 0)], None);
        check(&[spent(0, 0), spent(5, 5), spent(10, 10)], None);
        check(&[spent(0, 0), spent(30, 30), spent(60, 60)], None);
        check(&[spent(0, 0), spent(5, 5), spent(30, 30), spent(40, 40), spent(45, 55), spent(50, 70)], Some(0.75));
        check(&[spent(0, 0), spent(5, 25), spent(15, 45), spent(25, 60), spent(35, 80)], Some(1.0));
    }

    #[test]
    fn stock_that_the_burst_left_does_not_count() {
        let seen = |spent, level| [Seen { spent, level }, Seen { spent: 0, level: 20 }];
        check(&[seen(0, 10), seen(11, 9), seen(20, 9), seen(31, 6)], Some(0.8));
        check(&[seen(0, 10), seen(11, 9), seen(20, 9), seen(27, 9)], Some(0.7));
    }
}
