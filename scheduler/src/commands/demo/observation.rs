//! What the upstream has seen of a phase.

use rampmeter_upstream::{Stats, Tally, Utilisation};

/// Snapshots of one upstream, and among them the one at which its first burst was spent.
pub(super) struct Observation {
    last: Stats,
    burst: Burst,
}

/// The stock of full buckets, which is spent faster than it flows in.
enum Burst {
    Ahead,
    Running,
    Spent(Box<Stats>),
}

impl Observation {
    /// Of an upstream that has seen nothing.
    pub(super) fn new(start: Stats) -> Self {
        Observation { last: start, burst: Burst::Ahead }
    }

    /// Takes the next snapshot. Those that show the burst come at a steady pace of a few per second.
    pub(super) fn add(&mut self, now: Stats) {
        let draws_on_stock = now.utilisation_since(&self.last).iter().any(|used| used.spent > used.offered);
        match (&self.burst, draws_on_stock) {
            (Burst::Ahead, true) => self.burst = Burst::Running,
            (Burst::Running, false) => self.burst = Burst::Spent(Box::new(now.clone())),
            (Burst::Ahead, false) | (Burst::Running, true) | (Burst::Spent(_), _) => {}
        }
        self.last = now;
    }

    /// All calls so far.
    pub(super) fn total(&self) -> Tally {
        self.last.total
    }

    /// As [`Figures::utilisation`](super::Figures::utilisation) says. The limit that is used most is the one that binds.
    pub(super) fn utilisation(&self) -> Option<f64> {
        let Burst::Spent(spent) = &self.burst else { return None };
        let used = self.last.utilisation_since(spent);
        used.iter().filter_map(Utilisation::ratio).reduce(f64::max).map(|ratio| ratio.min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_upstream::{Amount, PolicyStats};
    use std::time::Duration;

    /// Snapshots a second apart of an upstream with 10 and 20 per second.
    fn check(spent: &[[u32; 2]], expected: Option<f64>) {
        let mut snapshots = (0..).zip(spent).map(|(second, spent)| Stats {
            uptime: Duration::from_secs(second),
            total: Tally::default(),
            policies: ["a=10/1s", "b=20/1s"].iter().zip(spent).map(policy).collect(),
            classes: Default::default(),
        });
        let mut observation = Observation::new(snapshots.next().unwrap());
        snapshots.for_each(|snapshot| observation.add(snapshot));
        assert_eq!(observation.utilisation(), expected, "{spent:?}");
    }

    fn policy((text, spent): (&&str, &u32)) -> PolicyStats {
        PolicyStats { policy: text.parse().unwrap(), spent: Amount::whole(*spent), level: Amount::ZERO }
    }

    #[test]
    fn use_counts_from_the_end_of_the_burst() {
        check(&[[0, 0]], None);
        check(&[[0, 0], [5, 5], [10, 10]], None);
        check(&[[0, 0], [30, 30], [60, 60]], None);
        check(&[[0, 0], [5, 5], [30, 30], [40, 40], [45, 55], [50, 70]], Some(0.75));
        check(&[[0, 0], [5, 25], [15, 46], [25, 60], [35, 80]], Some(1.0));
        check(&[[0, 0], [11, 0], [21, 0], [33, 0]], Some(1.0));
    }
}
