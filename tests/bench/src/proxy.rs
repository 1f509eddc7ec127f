//! `--proxy`: calls of a server, directly, through a proxy, and through nginx if it is installed, in
//! alternating rounds. Everything runs on this machine, so only ratios count. Also the memory of
//! requests that the proxy holds, together with their clients and the scheduler.

use crate::figures::{Figures, HEAD, RoundTrips, line};
use crate::load::alone;
use crate::nginx::Nginx;
use anyhow::{Context, ensure};
use futures::future::try_join_all;
use nix::sys::resource::{Resource, getrlimit};
use rampmeter_config::{self as config, OriginSettings};
use rampmeter_front::forwarded_labels;
use rampmeter_nats_server::{Binary, Options, Server};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use rampmeter_proxy::credential::Credentials;
use rampmeter_proxy::settings::{Asking, Bounds, Encryption, Function, HeaderSettings, LabelsFn, Pages, Times};
use rampmeter_proxy::{Proxy, Settings};
use rampmeter_scheduler::running;
use rampmeter_worker_sdk::Client;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{interval, timeout};

/// The numbers of connections that are measured, each with one request under way.
const CONNECTIONS: [usize; 3] = [1, 32, 256];
/// Two resources. The limit of `api` is never reached. `held` starts empty and refills by 10 000
/// requests in 672 h: one in four minutes.
const RESOURCES: &str = r#"
[[resource]]
name = "api"
start = "full"
limit = [{ name = "only", capacity = 1000000000, period = "1s" }]
[[resource]]
name = "held"
start = "empty"
limit = [{ name = "only", capacity = 10000, period = "672h" }]
"#;
/// How long the proxy holds a request: longer than 672 h.
const LONGEST_WAIT: Span = Span::from_secs(31 * 86_400);
const REQUEST: &[u8] = b"GET /tiles HTTP/1.1\r\nhost: localhost\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
/// The end of every answer.
const END: &[u8] = b"ok\n";

/// The requests to hold, if this process may open enough files. By default, a proxy holds as many.
const HELD: usize = 10_000;
/// The files of one held request: both ends of its connection are in this process.
const FILES: usize = 2;
/// Files that stay free for everything else that this process opens.
const SPARE: usize = 200;
/// The most requests that may start while requests are held.
const STARTED: usize = 10;
/// How long requests may take to arrive.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(120);
/// The pause between two readings of the proxy's metrics.
const PAUSE: Duration = Duration::from_millis(50);

/// What was measured so far.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Measurements {
    proxy: Vec<Compared>,
    held: Option<Held>,
}

/// The figures of one number of connections: medians over the rounds of each path.
#[derive(Debug, Serialize)]
struct Compared {
    connections: usize,
    #[serde(flatten)]
    paths: BTreeMap<&'static str, Figures>,
}

/// The memory that held requests take.
#[derive(Debug, Serialize)]
struct Held {
    requests: usize,
    /// The memory of this process in MiB while the requests are held.
    mebibytes: f64,
    /// The growth of this memory in MiB since before the first request.
    more_mebibytes: f64,
}

impl Measurements {
    /// Measures one part after another, with `rounds` rounds of this length for each path.
    ///
    /// # Errors
    /// If there is no NATS server, or a call has no answer.
    pub(crate) async fn measure(&mut self, rounds: u32, length: Duration) -> anyhow::Result<()> {
        let mut server = Server::start(&Binary::find().await?, Options::default()).await?;
        let text = format!("[nats]\nurl = \"{}\"\n[http]\nlisten = \"\"\n{RESOURCES}", server.url());
        let running = running::start(config::parse(Path::new("bench"), &text)?).await?;
        running.ready().await;
        let upstream = upstream().await?;
        let nginx = Nginx::start(upstream).await?;
        let client = Client::connect(server.url()).await?;
        let ample = proxy(&client, upstream, "api").await?;
        let full = proxy(&client, upstream, "held").await?;
        let mut paths = vec![("direct", upstream), ("proxy", ample.address())];
        paths.extend(nginx.as_ref().map(|nginx| ("nginx", nginx.address)));
        for connections in CONNECTIONS {
            self.proxy.push(compare(connections, &paths, rounds, length).await?);
        }
        drop(nginx);
        self.held = Some(hold(&full).await?);
        ample.stop().await;
        full.stop().await;
        client.close().await;
        drop(client);
        running.stop().await?;
        Ok(server.stop().await?)
    }

    /// The figures for people.
    pub(crate) fn table(&self) -> String {
        let mut lines = vec![line(["path", "connections"].into_iter().chain(HEAD))];
        for Compared { connections, paths } in &self.proxy {
            let row = |(path, figures): (&&str, &Figures)| {
                line([(*path).to_owned(), connections.to_string()].into_iter().chain(figures.cells()))
            };
            lines.extend(paths.iter().map(row));
        }
        lines.extend(self.held.as_ref().map(|Held { requests, mebibytes, more_mebibytes }| {
            format!("{requests} held requests and their clients: {mebibytes:.0} MiB, {more_mebibytes:.0} more")
        }));
        lines.join("\n")
    }
}

/// A proxy with the settings of `rampmeter proxy`, which holds requests for longer.
async fn proxy(client: &Client, upstream: SocketAddr, resource: &str) -> anyhow::Result<Proxy> {
    let origin = OriginSettings::default();
    let labels: LabelsFn = Function(Arc::new(move |head, address| forwarded_labels(head, address, &origin)));
    let settings = Settings {
        upstream: format!("http://{upstream}").parse()?,
        asking: Asking { labels: Some(labels), ..Asking::default() },
        headers: HeaderSettings { forwarded: true, ..HeaderSettings::default() },
        credentials: Credentials::default(),
        // Requests that are still held at the end are not waited for.
        times: Times { max_wait: LONGEST_WAIT, drain: Span::from_millis(1), ..Times::default() },
        bounds: Bounds::default(),
        encryption: Encryption::default(),
        pages: Pages::default(),
        spans: None,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    Ok(Proxy::start(listener, client.resource(resource)?, settings)?)
}

/// Loads the servers at these addresses in turn.
async fn compare(
    connections: usize,
    paths: &[(&'static str, SocketAddr)],
    rounds: u32,
    length: Duration,
) -> anyhow::Result<Compared> {
    let mut figures: BTreeMap<_, Vec<Figures>> = BTreeMap::new();
    for _ in 0..rounds {
        for (path, address) in paths {
            figures.entry(*path).or_default().push(load(*address, connections, length).await?);
        }
    }
    let paths = figures.into_iter().map(|(path, rounds)| (path, Figures::medians(&rounds))).collect();
    Ok(Compared { connections, paths })
}

/// Calls the server at `address` for `length`, on a thread of its own.
async fn load(address: SocketAddr, connections: usize, length: Duration) -> anyhow::Result<Figures> {
    alone(move || async move {
        let clock = Clock::start();
        let end = clock.now() + Span::from(length);
        let calls = (0..connections).map(|_| async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let mut spans = Vec::new();
            while clock.now() < end {
                let sent = clock.now();
                call(&mut stream).await?;
                spans.push(clock.now().since(sent));
            }
            anyhow::Ok(spans)
        });
        let mut round_trips = RoundTrips::new();
        try_join_all(calls).await?.iter().flatten().for_each(|span| round_trips.note(*span));
        Ok(round_trips.figures(length, 1))
    })
    .await
}

async fn call(stream: &mut TcpStream) -> anyhow::Result<()> {
    stream.write_all(REQUEST).await?;
    let (mut buffer, mut length) = ([0; 2048], 0);
    while !buffer[..length].ends_with(END) {
        let read = stream.read(&mut buffer[length..]).await?;
        ensure!(read > 0, "no answer: {}", String::from_utf8_lossy(&buffer[..length]));
        length += read;
    }
    ensure!(buffer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&buffer[..length]));
    Ok(())
}

/// A server that answers each request at once, with as little work as can be.
async fn upstream() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    Ok(address)
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut length) = ([0; 4096], 0);
    loop {
        let read = stream.read(&mut buffer[length..]).await?;
        if read == 0 {
            return Ok(());
        }
        length += read;
        if buffer[..length].ends_with(b"\r\n\r\n") {
            length = 0;
            stream.write_all(ANSWER).await?;
        }
    }
}

/// Sends requests until the proxy holds all: its limit lets none start. Sends fewer than [`HELD`] if
/// this process may not open enough files.
async fn hold(proxy: &Proxy) -> anyhow::Result<Held> {
    let requests = HELD.min(files_left().saturating_sub(SPARE) / FILES);
    ensure!(requests > STARTED, "this process may open too few files to hold requests: `ulimit -n`");
    let before = resident()?;
    let mut streams = Vec::with_capacity(requests);
    for _ in 0..requests {
        let mut stream = TcpStream::connect(proxy.address()).await?;
        stream.write_all(REQUEST).await?;
        streams.push(stream);
    }
    let all_held = async {
        let mut readings = interval(PAUSE);
        while held(&proxy.metrics().render()) + STARTED < requests {
            readings.tick().await;
        }
    };
    timeout(ARRIVAL_TIMEOUT, all_held).await.context("the requests are not held in time")?;
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
