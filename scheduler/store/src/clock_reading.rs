//! The time of a record, for readers that may have another clock.

use nix::time::{ClockId, clock_gettime};
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::time::Span;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The largest difference between the clocks of two machines.
const CLOCK_SKEW: Span = Span::from_millis(100);

/// An instant by wall time, and by the machine's boot clock, which is never set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// Milliseconds since 1970, rounded up.
    pub unix_ms: u64,
    /// Time since the machine was started, sleep included, rounded up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub boot: Option<BootTime>,
}

/// Time since a machine was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootTime {
    /// The id of this boot.
    pub id: String,
    /// Milliseconds since the boot.
    pub ms: u64,
}

impl ClockReading {
    /// Reads the present instant.
    #[must_use]
    pub fn now() -> Self {
        ClockReading { unix_ms: unix_ms() + 1, boot: BootTime::now() }
    }

    /// Returns the time that has certainly passed from this instant to `now`. Within one boot of a machine its boot
    /// clock counts. Otherwise the shorter of two times counts: by the wall clocks, less their possible difference,
    /// and `store`, by the store's clock, or zero without it. A clock that was set never makes the result too long.
    #[must_use]
    pub fn certainly_past(&self, now: &ClockReading, store: Option<Span>) -> Span {
        if let (Some(then), Some(now)) = (&self.boot, &now.boot)
            && then.id == now.id
        {
            return Span::from_millis(now.ms.saturating_sub(1).saturating_sub(then.ms));
        }
        let wall = Span::from_millis(now.unix_ms.saturating_sub(1).saturating_sub(self.unix_ms));
        store.map_or(Span::ZERO, |store| wall.saturating_sub(CLOCK_SKEW).min(store))
    }
}

impl BootTime {
    /// Reads the present time, if the system provides it.
    fn now() -> Option<Self> {
        static ID: OnceLock<Option<String>> = OnceLock::new();
        let read = || Some(std::fs::read_to_string(BOOT_ID).ok()?.trim().to_owned());
        let id = ID.get_or_init(read).clone()?;
        Some(BootTime { id, ms: boot_ms()? + 1 })
    }
}

/// Returns the milliseconds since the machine was started, sleep included.
#[must_use]
pub fn boot_ms() -> Option<u64> {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    u64::try_from(time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    fn moment(unix_ms: u64, boot: Option<(&str, u64)>) -> ClockReading {
        ClockReading { unix_ms, boot: boot.map(|(id, ms)| BootTime { id: id.to_owned(), ms }) }
    }

    /// Checks that `certain` milliseconds have passed between two moments, if `store` milliseconds
    /// have passed on the store's clock.
    fn check(then: ClockReading, now: ClockReading, store: Option<u64>, certain: u64) {
        let past = then.certainly_past(&now, store.map(Span::from_millis));
        assert_eq!(past, Span::from_millis(certain), "{then:?} {now:?} {store:?}");
    }

    #[test]
    fn no_clock_that_is_set_makes_more_time_pass() {
        let here = |ms| Some(("here", ms));
        let there = Some(("there", 77));
        // On one machine the boot clock counts, whatever the wall clock shows.
        check(moment(DAY, here(500)), moment(DAY + 1001, here(1501)), None, 1000);
        check(moment(DAY, here(500)), moment(9 * DAY, here(1501)), Some(8 * DAY), 1000);
        check(moment(DAY, here(500)), moment(0, here(1501)), None, 1000);
        // On another machine the shorter of wall clock and store counts, less the skew of clocks.
        check(moment(DAY, here(500)), moment(DAY + 5001, there), Some(5000), 4900);
        check(moment(DAY, here(500)), moment(DAY + 5001, there), Some(3000), 3000);
        check(moment(DAY, here(500)), moment(9 * DAY, there), Some(5000), 5000);
        check(moment(DAY, here(500)), moment(0, there), Some(5000), 0);
        check(moment(DAY, here(500)), moment(DAY + 5001, there), None, 0);
        check(moment(DAY, None), moment(DAY + 5001, None), Some(5000), 4900);
    }
}
