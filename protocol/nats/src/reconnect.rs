//! How a connection notices a dead server and reconnects.

use crate::entropy::entropy;
use async_nats::ConnectOptions;
use std::time::Duration;

/// Interval of pings. The client gives a server up after two; its default takes two minutes.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// Longest pause between attempts to reconnect, before jitter.
const MAX_RECONNECT_DELAY_MS: u64 = 250;

/// Makes a connection notice dead servers within seconds and reconnect within a quarter second.
#[must_use]
pub fn reconnecting_soon(options: ConnectOptions) -> ConnectOptions {
    options.ping_interval(PING_INTERVAL).reconnect_delay_callback(delay)
}

/// A random delay below a bound that doubles with each attempt: whole fleets reconnect at once.
fn delay(attempts: usize) -> Duration {
    let most = MAX_RECONNECT_DELAY_MS.min(1 << attempts.min(16));
    Duration::from_millis(entropy() % (most + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `MAX_RECONNECT_DELAY_MS`: 250 ms.
    #[test]
    fn delays_grow_up_to_a_quarter_of_a_second() {
        let longest = |attempts| (0..1000).map(|_| delay(attempts).as_millis()).max().unwrap();
        assert!(longest(1) <= 2);
        for attempts in [8, 16, usize::MAX] {
            assert!((200..=250).contains(&longest(attempts)), "after {attempts} attempts");
        }
    }
}
