//! Follows the store's clock, which cuts windows for all schedulers.
//!
//! A leader reads it when it takes over, and counts on by the monotonic clock. It reads it again when this machine's
//! wall and monotonic clocks have parted, as after a suspend or a step, and once a minute in case it was set.

use crate::permits::answers::loop_request::LoopRequest;
use rampmeter_protocol::clock::{Clock, wall_clock_origin};
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;
use rampmeter_store::Store;
use std::time::Duration;
use tokio::sync::mpsc;

/// How often this machine's clocks are compared.
const LOOK: Duration = Duration::from_millis(250);
/// How often the store's clock is read, even if this machine's clock shows no change.
const READ: Span = Span::from_secs(60);
/// Smaller differences are ignored: starts stay that far away from the ends of windows.
const SAME: Span = LATENESS;

#[derive(Clone, Copy, Debug)]
struct WallClocks {
    store: WallClockOrigin,
    own: WallClockOrigin,
    read: Time,
}

/// Reports the store's clock to the loop, first as `read` and then on each change. Returns when the loop has ended.
pub(crate) async fn watch(
    name: Name,
    store: Store,
    clock: Clock,
    orders: mpsc::WeakSender<LoopRequest>,
    read: WallClockOrigin,
) {
    let mut clocks = WallClocks { store: read, own: wall_clock_origin(clock.now()), read: clock.now() };
    let mut news = true;
    loop {
        if news {
            clocks.log_difference(&name);
            let Some(orders) = orders.upgrade() else { return };
            let order = LoopRequest::WallClock { origin: clocks.store, ahead_secs: clocks.ahead_secs() };
            if orders.send(order).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(LOOK).await;
        if orders.strong_count() == 0 {
            return;
        }
        let now = clock.now();
        news = clocks.are_due(now, wall_clock_origin(now))
            && match store.wall_clock_origin(clock).await {
                Ok(read) => clocks.take(now, read, wall_clock_origin(now)),
                Err(error) => {
                    tracing::debug!(resource = %name, %error, "the store's clock could not be read");
                    false
                }
            };
    }
}

impl WallClocks {
    /// Returns whether to read the store's clock at `now`. `own` is this machine's clock at the origin of time.
    fn are_due(&self, now: Time, own: WallClockOrigin) -> bool {
        differ(own, self.own) || now.since(self.read) >= READ
    }

    /// Sets the clocks read at `now`. Returns whether one has changed.
    fn take(&mut self, now: Time, store: WallClockOrigin, own: WallClockOrigin) -> bool {
        let (set, parted) = (differ(store, self.store), differ(own, self.own));
        *self = WallClocks {
            store: if set { store } else { self.store },
            own: if parted { own } else { self.own },
            read: now,
        };
        set || parted
    }

    fn ahead_secs(&self) -> f64 {
        self.own.nanos_ahead_of(self.store) as f64 / 1e9
    }

    fn log_difference(&self, name: &Name) {
        if differ(self.own, self.store) {
            let ahead = format!("{:+.3} s", self.ahead_secs());
            tracing::warn!(resource = %name, %ahead, "the clock of this machine differs from NATS's, which cuts windows");
        }
    }
}

fn differ(one: WallClockOrigin, other: WallClockOrigin) -> bool {
    one.nanos_ahead_of(other).unsigned_abs() > u128::from(SAME.nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::time::NANOS_PER_MILLI;

    #[test]
    fn the_store_is_asked_when_the_own_clock_was_set_and_once_a_minute() {
        let shows = |millis: u64| WallClockOrigin::from_unix_nanos(millis * NANOS_PER_MILLI);
        let at = |secs| Time::ORIGIN + Span::from_secs(secs);
        let mut clocks = WallClocks { store: shows(1_000), own: shows(4_000), read: at(0) };
        assert!((clocks.ahead_secs() - 3.0).abs() < 1e-9);
        for (secs, own, due) in
            [(1, 4_000, false), (1, 4_050, false), (1, 4_051, true), (1, 3_900, true), (60, 4_000, true)]
        {
            assert_eq!(clocks.are_due(at(secs), shows(own)), due, "{secs} s, {own} ms");
        }
        // Small differences are ignored, because windows would be cut again all the time.
        assert!(!clocks.take(at(60), shows(1_049), shows(4_000)));
        assert_eq!((clocks.store, clocks.read), (shows(1_000), at(60)));
        assert!(clocks.take(at(61), shows(1_060), shows(4_000)));
        assert_eq!(clocks.store, shows(1_060));
    }
}
