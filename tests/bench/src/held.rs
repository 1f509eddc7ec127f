//! The memory that held requests take in their clients, the proxy and the scheduler. All three are
//! in this process.

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use rampmeter_proxy::Proxy;
use serde::Serialize;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::interval;

/// The requests to hold, if this process may open enough files. By default, a proxy holds as many.
const REQUESTS: usize = 10_000;
/// The files of one request: both ends of its connection are in this process.
const FILES: usize = 2;
/// Files that stay free for everything else that this process opens.
const SPARE: usize = 200;
/// The most requests that may start during the measurement.
const STARTED: usize = 10;
const REQUEST: &[u8] = b"GET /held HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// How long requests may take to arrive.
const ARRIVAL_TIMEOUT: Span = Span::from_secs(120);
/// The pause between two readings of the proxy's metrics.
const PAUSE: Duration = Duration::from_millis(50);

/// The memory that held requests take.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Held {
    pub(crate) requests: usize,
    /// The memory of this process in MiB while the requests are held.
    pub(crate) mebibytes: f64,
    /// The growth of this memory in MiB since before the first request.
    pub(crate) more_mebibytes: f64,
}

/// Sends requests to the proxy until all are held: its limit lets none start. Sends
/// fewer than `REQUESTS` if this process may not open enough files.
///
/// # Errors
/// If the requests do not arrive in time, or the system does not tell the memory.
pub(crate) async fn measure(proxy: &Proxy) -> anyhow::Result<Held> {
    let requests = REQUESTS.min(files_left().saturating_sub(SPARE) / FILES);
    anyhow::ensure!(requests > STARTED, "this process may open too few files to hold requests: `ulimit -n`");
    let before = resident()?;
    let mut streams = Vec::with_capacity(requests);
    for _ in 0..requests {
        let mut stream = TcpStream::connect(proxy.address()).await?;
        stream.write_all(REQUEST).await?;
        streams.push(stream);
    }
    let clock = Clock::start();
    let begun = clock.now();
    let mut readings = interval(PAUSE);
    while held(&proxy.metrics().render()) + STARTED < requests {
        anyhow::ensure!(clock.now() < begun + ARRIVAL_TIMEOUT, "the requests are not held in time");
        readings.tick().await;
    }
    let mebibytes = resident()?;
    Ok(Held { requests, mebibytes, more_mebibytes: mebibytes - before })
}

/// How many requests a proxy with these metrics holds.
fn held(metrics: &str) -> usize {
    let line = metrics.lines().find_map(|line| line.strip_prefix("rampmeter_proxy_held "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The memory of this process in MiB, as Linux tells it.
fn resident() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("this system does not tell the memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("there is no VmRSS")?;
    let kibibytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes / 1024.0)
}

/// How many more files this process may open, as far as the system tells.
fn files_left() -> usize {
    let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(allowed, _)| allowed);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    usize::try_from(allowed).unwrap_or(usize::MAX).saturating_sub(open)
}
