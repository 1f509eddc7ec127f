//! `--proxy`: calls of a server, directly, through a proxy, and through nginx if it
//! is installed, in alternating rounds. Everything runs on this machine, so only ratios count.

use crate::held::{self, Held};
use crate::nginx::Nginx;
use crate::round::{Round, RoundTrips, median};
use crate::table::table;
use crate::thread::alone;
use futures::future::try_join_all;
use rampmeter_nats_server::{Binary, Options, Server};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use rampmeter_proxy::settings::{Asking, Bounds, Encryption, HeaderSettings, LabelsFn, Times};
use rampmeter_proxy::{Proxy, Settings};
use rampmeter_scheduler::commands::process::open_files::allow_many_files;
use rampmeter_scheduler::commands::process::signal::asked_to_stop;
use rampmeter_scheduler::config::{self, OriginSettings};
use rampmeter_scheduler::serve::{self, http::forwarded_labels};
use rampmeter_worker_sdk::Client;
use serde::Serialize;
use std::io::{Write, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The numbers of connections that are measured, each with one request under way.
const CONNECTIONS: [usize; 3] = [1, 32, 256];
/// The resources. The limit of the first is never reached. The second starts empty and refills by
/// 10 000 requests in 672 h: one in four minutes.
const RESOURCES: [(&str, &str, &str); 2] = [
    ("api", "full", "capacity = 1000000000\nperiod = \"1s\""),
    ("held", "empty", "capacity = 10000\nperiod = \"672h\""),
];
/// How long the proxy holds a request: longer than 672 h.
const LONGEST_WAIT: Span = Span::from_secs(31 * 86_400);
const REQUEST: &[u8] = b"GET /tiles HTTP/1.1\r\nhost: localhost\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
/// The end of every answer.
const END: &[u8] = b"ok\n";

/// How long and how often is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// The time for each path, in all its rounds.
    pub(crate) seconds: f64,
    /// The number of alternating rounds.
    pub(crate) rounds: u32,
}

/// The figures of one number of connections: medians over the rounds.
#[derive(Debug, Serialize)]
struct Compared {
    connections: usize,
    direct: ProxyFigures,
    proxy: ProxyFigures,
    #[serde(skip_serializing_if = "Option::is_none")]
    nginx: Option<ProxyFigures>,
}

/// The servers that are called.
#[derive(Clone, Copy)]
struct Paths {
    direct: SocketAddr,
    proxy: SocketAddr,
    nginx: Option<SocketAddr>,
}

#[derive(Debug, Serialize)]
struct ProxyFigures {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
}

/// What was measured so far. Tables are printed part by part; JSON is printed once, at the end.
struct Measurements {
    is_json: bool,
    compared: Vec<Compared>,
    held: Option<Held>,
}

/// Measures and prints. What was measured before a failure is printed, too.
///
/// # Errors
/// If there is no NATS server, or a call has no answer.
pub(crate) async fn run(rounds: Rounds, is_json: bool) -> anyhow::Result<()> {
    allow_many_files();
    let mut shown = Measurements { is_json, compared: Vec::new(), held: None };
    let measured = tokio::select! {
        measured = measure(rounds, &mut shown) => measured,
        signal = asked_to_stop() => Err(anyhow::anyhow!("{}: what was measured so far is shown", signal?)),
    };
    shown.end()?;
    measured
}

/// Measures one part after another.
async fn measure(rounds: Rounds, shown: &mut Measurements) -> anyhow::Result<()> {
    let mut server = Server::start(&Binary::find().await?, Options::default()).await?;
    let running = running::start(config::parse(Path::new("bench"), &configuration(server.url()))?).await?;
    running.ready().await;
    let upstream = upstream().await?;
    let nginx = Nginx::start(upstream).await?;
    let client = Client::connect(server.url()).await?;
    let [ample, full] = RESOURCES.map(|(resource, ..)| proxy(&client, upstream, resource));
    let (ample, full) = (ample.await?, full.await?);
    let paths = Paths { direct: upstream, proxy: ample.address(), nginx: nginx.as_ref().map(|nginx| nginx.address) };
    for connections in CONNECTIONS {
        shown.compared(compare(connections, paths, rounds).await?)?;
    }
    drop(nginx);
    shown.held(held::measure(&full).await?)?;
    ample.stop().await;
    full.stop().await;
    client.close().await;
    running.stop().await?;
    server.stop().await?;
    Ok(())
}

/// A proxy with the settings of `rampmeter proxy`, which holds requests for longer.
async fn proxy(client: &Client, upstream: SocketAddr, resource: &str) -> anyhow::Result<Proxy> {
    let origin = OriginSettings::default();
    let labels = LabelsFn::new(move |head, address| forwarded_labels(head, address, &origin));
    // Requests that are still held at the end are not waited for.
    let times = Times { max_wait: LONGEST_WAIT, drain: Span::from_millis(1), ..Times::default() };
    let settings = Settings {
        upstream: format!("http://{upstream}").parse()?,
        asking: Asking { labels, ..Asking::default() },
        headers: HeaderSettings { forwarded: true, ..HeaderSettings::default() },
        credential: None,
        times,
        bounds: Bounds::default(),
        encryption: Encryption::default(),
        spans: None,
        intercept: None,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    Ok(Proxy::start(listener, client.resource(resource)?, settings)?)
}

fn configuration(url: &str) -> String {
    let resources = RESOURCES.map(|(name, start, limit)| {
        let resource = format!("[[resource]]\nname = \"{name}\"\nstart = \"{start}\"\n");
        resource + &format!("[[resource.limit]]\nname = \"only\"\n{limit}\n")
    });
    format!("[nats]\nurl = \"{url}\"\n[http]\nlisten = \"\"\n{}", resources.concat())
}

async fn compare(connections: usize, paths: Paths, rounds: Rounds) -> anyhow::Result<Compared> {
    let length = Duration::from_secs_f64(rounds.seconds / f64::from(rounds.rounds));
    let (mut direct, mut proxy, mut nginx) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.rounds {
        direct.push(load(paths.direct, connections, length).await?);
        proxy.push(load(paths.proxy, connections, length).await?);
        if let Some(address) = paths.nginx {
            nginx.push(load(address, connections, length).await?);
        }
    }
    let nginx = (!nginx.is_empty()).then(|| ProxyFigures::of(&nginx));
    Ok(Compared { connections, direct: ProxyFigures::of(&direct), proxy: ProxyFigures::of(&proxy), nginx })
}

impl ProxyFigures {
    fn of(rounds: &[Round]) -> Self {
        let over = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
        ProxyFigures {
            per_second: over(|round| round.per_second),
            p50_us: over(|round| round.p50_us),
            p99_us: over(|round| round.p99_us),
        }
    }
}

/// Calls the server at `address` for `length`, on a thread of its own.
async fn load(address: SocketAddr, connections: usize, length: Duration) -> anyhow::Result<Round> {
    alone("load", move || async move {
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
        Ok(round_trips.round(length, 1))
    })
    .await
}

async fn call(stream: &mut TcpStream) -> anyhow::Result<()> {
    stream.write_all(REQUEST).await?;
    let (mut buffer, mut length) = ([0; 2048], 0);
    while !buffer[..length].ends_with(END) {
        let read = stream.read(&mut buffer[length..]).await?;
        anyhow::ensure!(read > 0, "no answer: {}", String::from_utf8_lossy(&buffer[..length]));
        length += read;
    }
    anyhow::ensure!(buffer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&buffer[..length]));
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

impl Measurements {
    fn compared(&mut self, compared: Compared) -> anyhow::Result<()> {
        if !self.is_json {
            write!(stdout(), "{}", compared.table())?;
        }
        self.compared.push(compared);
        Ok(())
    }

    fn held(&mut self, held: Held) -> anyhow::Result<()> {
        let Held { requests, mebibytes, more_mebibytes } = self.held.insert(held);
        match self.is_json {
            true => Ok(()),
            false => Ok(writeln!(
                stdout(),
                "{requests} held requests and their clients: {mebibytes:.0} MiB, {more_mebibytes:.0} more"
            )?),
        }
    }

    fn end(&self) -> anyhow::Result<()> {
        match self.is_json {
            true => crate::json(&serde_json::json!({ "proxy": self.compared, "held": self.held })),
            false => Ok(()),
        }
    }
}

impl Compared {
    fn table(&self) -> String {
        let head = ["path", "connections", "per second", "p50 µs", "p99 µs"];
        let nginx = self.nginx.as_ref().map(|figures| ("nginx", figures));
        let paths = [("direct", &self.direct), ("proxy", &self.proxy)].into_iter().chain(nginx);
        let rows = paths.map(|(path, figures)| {
            let numbers = [figures.per_second, figures.p50_us, figures.p99_us].map(|figure| format!("{figure:.0}"));
            let [per_second, p50, p99] = numbers;
            [path.to_owned(), self.connections.to_string(), per_second, p50, p99]
        });
        table(head.map(str::to_owned), rows)
    }
}
