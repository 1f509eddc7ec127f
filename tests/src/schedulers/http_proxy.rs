//! A proxy that holds requests, with a scheduler and a NATS server of its own.

use crate::patience::until;
use crate::{nats, scheduler};
use rampmeter_nats_server::Server;
use rampmeter_protocol::time::Span;
use rampmeter_proxy::credential::Credentials;
use rampmeter_proxy::settings::{Asking, Bounds, Encryption, HeaderSettings, Pages, Times};
use rampmeter_proxy::{Proxy, Settings};
use rampmeter_scheduler::running::Running;
use rampmeter_worker_sdk::Client;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A resource called `api` that grants at once whatever a test asks for.
pub const AMPLE: &str =
    "[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"ample\"\ncapacity = 1000000\nperiod = \"1s\"\n";

/// A proxy in this process.
pub struct HttpProxy {
    /// The scheduler's NATS server.
    pub nats: Server,
    /// The scheduler.
    pub running: Running,
    /// The proxy.
    pub proxy: Proxy,
}

/// Settings with times that tests can wait for.
pub fn settings(upstream: &str) -> Settings {
    let times = Times {
        max_wait: Span::from_secs(20),
        connect: Span::from_secs(5),
        first_byte: Span::from_secs(20),
        drain: Span::from_secs(20),
        ..Times::default()
    };
    Settings {
        upstream: upstream.trim_end_matches('/').parse().unwrap(),
        asking: Asking::default(),
        headers: HeaderSettings { forwarded: true, tell_wait: true, ..HeaderSettings::default() },
        credentials: Credentials::default(),
        times,
        bounds: Bounds::default(),
        encryption: Encryption::default(),
        // The names in the Host of requests that tests write by hand.
        pages: Pages { hosts: ["a", "me", "me.example"].map(str::to_owned).to_vec(), ..Pages::default() },
        spans: None,
    }
}

impl HttpProxy {
    /// A proxy in front of `upstream`, for the resource `api` of `resources`.
    pub async fn start(resources: &str, upstream: &str) -> Self {
        Self::start_with(resources, settings(upstream)).await
    }

    /// The same with these settings.
    pub async fn start_with(resources: &str, settings: Settings) -> Self {
        let nats = nats::start().await;
        let running = scheduler::start(&nats, resources).await;
        let proxy = another(&nats, settings).await;
        HttpProxy { nats, running, proxy }
    }

    /// The URL of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.proxy.address())
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.proxy.address()
    }

    /// Waits until the proxy's metrics have this line.
    pub async fn until_metric(&self, line: &str) {
        let metrics = self.proxy.metrics();
        until(line, async || metrics.render().lines().any(|found| found == line).then_some(())).await;
    }
}

/// A proxy for the schedulers at `nats`.
pub async fn another(nats: &Server, settings: Settings) -> Proxy {
    let client = Client::connect(nats.url()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Proxy::start(listener, client.resource("api").unwrap(), settings).unwrap()
}

/// All that comes back for these bytes on a connection of their own, until it ends or `enough` says
/// so.
pub async fn raw(address: SocketAddr, bytes: &[u8], enough: impl Fn(&str) -> bool) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The other end may hang up before it has read everything.
    stream.write_all(bytes).await.ok();
    let (mut found, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => break,
            Ok(read) => found.extend_from_slice(&piece[..read]),
        }
        if enough(&String::from_utf8_lossy(&found)) {
            break;
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}
