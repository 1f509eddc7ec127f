//! The figures of the demo, from the waits of calls and snapshots of the upstream.

use super::scenario::CLASSES;
use hdrhistogram::Histogram;
use rampmeter_protocol::time::Span;
use rampmeter_upstream::{PolicyStats, Stats, Utilisation};
use serde::{Serialize, Serializer};
use std::array::from_fn;
use std::sync::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Comparison {
    /// Workers on their own, which back off with jitter.
    pub(super) uncoordinated: Figures,
    /// Workers with permits.
    pub(super) coordinated: Figures,
}

/// The figures of one phase, counted by the upstream until its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Calls that arrived.
    pub(super) sent: u64,
    /// Calls that were admitted.
    pub(super) ok: u64,
    /// Calls that were answered 429.
    pub(super) rate_limited: u64,
    /// The share, from 0 to 1, of the most used limit's refill that calls spent, from the end of the first
    /// burst to the end of the phase. `None` if the burst lasted to the end.
    ///
    /// In the first burst, calls spend some limit faster than it refills. It ends after 200 ms in which they did
    /// not. Stock that is then left, such as headroom of urgent classes, does not count when it is spent.
    pub(super) utilisation: Option<f64>,
    /// The waits of calls in milliseconds, by class: from the wish to call until the successful call was sent.
    /// Calls that still wait at the end are left out. `None` if no call is left.
    #[serde(serialize_with = "by_class")]
    pub(super) wait_ms: [Option<Wait>; 3],
}

/// Percentiles of waits in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Wait {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

fn by_class<S: Serializer>(waits: &[Option<Wait>; 3], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(CLASSES.iter().map(|class| class.name).zip(waits))
}

/// The waits of calls by class, in microseconds with three digits; no phase is longer than an hour. Locked
/// for one entry or reading, never across an await.
pub(super) struct Waits(Mutex<[Histogram<u64>; 3]>);

impl Waits {
    pub(super) fn new() -> Self {
        Waits(Mutex::new(from_fn(|_| Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("valid bounds"))))
    }

    pub(super) fn add(&self, class: usize, wait: Span) {
        let mut histograms = self.0.lock().expect("no panic while the lock is held");
        histograms[class].saturating_record(wait.nanos() / 1000);
    }

    /// Returns the percentiles so far; `None` for a class without calls.
    fn percentiles(&self) -> [Option<Wait>; 3] {
        let histograms = self.0.lock().expect("no panic while the lock is held");
        histograms.each_ref().map(|histogram| {
            let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
            (!histogram.is_empty()).then(|| Wait { p50: at(0.5), p99: at(0.99) })
        })
    }
}

/// The latest snapshot of an upstream, and that at the end of its first burst, which spends the stock of full buckets.
pub(super) struct Observation {
    last: Stats,
    has_begun: bool,
    spent: Option<Stats>,
}

impl Observation {
    pub(super) fn new(start: Stats) -> Self {
        Observation { last: start, has_begun: false, spent: None }
    }

    /// Adds a snapshot. To show the burst, snapshots need a steady pace of a few per second.
    pub(super) fn add(&mut self, now: Stats) {
        let draws_on_stock = now.utilisation_since(&self.last).iter().any(|used| used.spent > used.offered);
        if self.has_begun && !draws_on_stock {
            self.spent.get_or_insert_with(|| now.clone());
        }
        self.has_begun |= draws_on_stock;
        self.last = now;
    }

    pub(super) fn figures(&self, waits: &Waits) -> Figures {
        let total = self.last.total;
        Figures {
            sent: total.sent(),
            ok: total.ok,
            rate_limited: total.rate_limited,
            utilisation: self.utilisation(),
            wait_ms: waits.percentiles(),
        }
    }

    /// Returns [`Figures::utilisation`]. The most used limit is the binding one.
    fn utilisation(&self) -> Option<f64> {
        let spent = self.spent.as_ref()?;
        let used = self.last.utilisation_since(spent).into_iter();
        let stocks = spent.policies.iter().zip(&self.last.policies);
        used.zip(stocks).filter_map(|(used, (then, now))| without_stock(used, then, now).ratio()).reduce(f64::max)
    }
}

/// Returns the utilisation without the spending of stock that was left after the burst.
fn without_stock(used: Utilisation, then: &PolicyStats, now: &PolicyStats) -> Utilisation {
    let spent = used.spent.saturating_sub(then.level.saturating_sub(now.level));
    // The cap is needed because levels are rounded.
    Utilisation { spent: spent.min(used.offered), ..used }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::scenario::{BULK, STANDARD};
    use super::*;
    use rampmeter_upstream::{Amount, Tally};
    use std::time::Duration;

    pub(in super::super) fn example() -> Comparison {
        let wait = |p50, p99| Some(Wait { p50, p99 });
        Comparison {
            uncoordinated: Figures {
                sent: 5000,
                ok: 1000,
                rate_limited: 4000,
                utilisation: None,
                wait_ms: [wait(812.5, 12_345.0), wait(0.0, 1.0), None],
            },
            coordinated: Figures {
                sent: 1100,
                ok: 1100,
                rate_limited: 0,
                utilisation: Some(0.9951),
                wait_ms: [wait(0.75, 2.5), wait(1.0, 4.0), wait(6000.0, 7000.0)],
            },
        }
    }

    #[test]
    fn the_json_format_stays() {
        let golden = concat!(
            r#"{"uncoordinated":{"sent":5000,"ok":1000,"rate_limited":4000,"utilisation":null,"#,
            r#""wait_ms":{"interactive":{"p50":812.5,"p99":12345.0},"standard":{"p50":0.0,"p99":1.0},"bulk":null}},"#,
            r#""coordinated":{"sent":1100,"ok":1100,"rate_limited":0,"utilisation":0.9951,"#,
            r#""wait_ms":{"interactive":{"p50":0.75,"p99":2.5},"standard":{"p50":1.0,"p99":4.0},"#,
            r#""bulk":{"p50":6000.0,"p99":7000.0}}}}"#,
        );
        assert_eq!(serde_json::to_string(&example()).unwrap(), golden);
    }

    fn check_waits(waits_ms: impl IntoIterator<Item = u64>, expected: Option<(f64, f64)>) {
        let waits = Waits::new();
        waits_ms.into_iter().for_each(|millis| waits.add(STANDARD, Span::from_millis(millis)));
        let found = waits.percentiles();
        let rounded = found[STANDARD].map(|wait| (wait.p50.round(), wait.p99.round()));
        assert_eq!((rounded, found[BULK]), (expected, None));
    }

    #[test]
    fn percentiles_are_of_the_class() {
        check_waits([], None);
        check_waits([0], Some((0.0, 0.0)));
        check_waits([7], Some((7.0, 7.0)));
        check_waits(1..=100, Some((50.0, 99.0)));
        check_waits((1..=99).map(|_| 2).chain([900]), Some((2.0, 2.0)));
    }

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
