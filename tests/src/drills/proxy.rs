//! A network between one client and a nats-server that can be slow, cut, or deaf in one direction.

use crate::patience::let_pass;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

const BUFFER: usize = 1 << 16;

/// The state of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Bytes go through.
    Open,
    /// Bytes take this long.
    Slow(Duration),
    /// Bytes wait until the line is open again, as TCP does in a partition that heals. All of them
    /// arrive then.
    Held,
    /// Bytes are lost, and the connection stays open. It ends when the line is open again, because
    /// its content would make no sense any more.
    Lost,
}

/// Both directions of a network, from the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    /// From the client to the server.
    out: Line,
    /// From the server to the client.
    back: Line,
    /// Connections that are older than this are closed.
    generation: u64,
    /// Whether new connections are accepted.
    connects: bool,
}

/// A proxy on a free port of this machine. Dropping it ends all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    network: watch::Sender<Network>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// A proxy in front of the server at `port`.
    pub async fn start(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let all_open = Network { out: Line::Open, back: Line::Open, generation: 0, connects: true };
        let (network, seen) = watch::channel(all_open);
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, (Ipv4Addr::LOCALHOST, port).into(), seen));
        Proxy { address, network, _accepting: accepting }
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Sets both directions; `out` is from the client to the server.
    pub fn set(&self, out: Line, back: Line) {
        self.network.send_modify(|network| {
            let connection_is_broken = network.out == Line::Lost || network.back == Line::Lost;
            *network = Network { out, back, connects: true, generation: network.generation };
            network.generation += u64::from(connection_is_broken);
        });
    }

    /// Opens both directions.
    pub fn heal(&self) {
        self.set(Line::Open, Line::Open);
    }

    /// Closes all connections, and accepts no new one until it is healed.
    pub fn cut(&self) {
        self.network.send_modify(|network| {
            network.generation += 1;
            network.connects = false;
        });
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, network: watch::Receiver<Network>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let now = *network.borrow();
        if now.connects {
            connections.spawn(connect(client, server, network.clone(), now.generation));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Ends when one direction ends, or its generation is over.
async fn connect(client: TcpStream, server: SocketAddr, mut network: watch::Receiver<Network>, generation: u64) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    for connection in [&client, &server] {
        connection.set_nodelay(true).ok();
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let out = carry(from_client, to_server, network.clone(), |network| network.out);
    let back = carry(from_server, to_client, network.clone(), |network| network.back);
    tokio::select! {
        () = out => {}
        () = back => {}
        _ = network.wait_for(|network| network.generation > generation) => {}
    }
}

/// Carries bytes until either side closes. A held or lossy line does not pass a close either.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: watch::Receiver<Network>,
    line: fn(&Network) -> Line,
) {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await.unwrap_or(0);
        let held = |network: &Network| line(network) == Line::Held;
        if network.wait_for(|network| !held(network)).await.is_err() {
            return;
        }
        let now = line(&network.borrow());
        match now {
            Line::Lost if length > 0 => continue,
            Line::Lost => return std::future::pending().await,
            Line::Slow(delay) => let_pass(delay, "the line is slow").await,
            Line::Open | Line::Held => {}
        }
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
