//! Three real nats-servers that form a cluster.

use crate::patience::until;
use crate::repository;
use async_nats::ConnectOptions;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::{self, kv};
use rampmeter_nats_server::{Binary, Options, Server, StartError};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

/// The fewest nodes that go on without one of them.
pub const NODES: usize = 3;

/// Much longer than an answer takes. The default of 5 s would delay every lost request.
const REQUEST: Duration = Duration::from_millis(250);
/// The interval of pings, and the longest time to connect. A connection that hangs is given up
/// after three pings.
const HANGS: Duration = Duration::from_secs(1);
/// How often other ports are tried: a port that was free can be taken before the server has it.
const ATTEMPTS: usize = 3;

/// A cluster for one test, with empty stores. It ends when it is dropped.
///
/// Each [`node`](Cluster::node) can be killed, paused, resumed and restarted, on the same ports and
/// the same store.
#[derive(Debug)]
pub struct Cluster {
    nodes: [Server; NODES],
    seats: [Seat; NODES],
}

/// The parameters of one node.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Its name, which no other node has: `node-0` and so on.
    pub name: String,
    /// The address on which it listens for the other nodes.
    pub listen: SocketAddr,
    /// The addresses on which all nodes listen for each other, in order.
    pub routes: [SocketAddr; NODES],
}

impl Cluster {
    /// A cluster that writes to disk before it acknowledges, and can make buckets with three
    /// replicas.
    ///
    /// # Panics
    /// If it can't be started; the message has the end of a server's log.
    pub async fn start() -> Self {
        let options = |seat: &Seat| Options {
            configuration: Some(repository::root().join("deploy/nats/jetstream.conf")),
            arguments: seat.arguments(),
            ..Options::default()
        };
        let cluster = Self::start_with(options).await;
        cluster.until_ready().await;
        cluster
    }

    /// A cluster whose nodes get these options. Each of them serves clients; `JetStream` comes
    /// later.
    ///
    /// # Panics
    /// If it can't be started; the message has the end of a server's log.
    pub async fn start_with(options: impl Fn(&Seat) -> Options) -> Self {
        let binary = Binary::find().await.unwrap_or_else(|error| panic!("{error}"));
        for _ in 1..ATTEMPTS {
            if let Ok(cluster) = Self::try_start(&binary, &options).await {
                return cluster;
            }
        }
        Self::try_start(&binary, &options)
            .await
            .unwrap_or_else(|error| panic!("{error}\n{}", error.log().unwrap_or_default()))
    }

    async fn try_start(binary: &Binary, options: &impl Fn(&Seat) -> Options) -> Result<Self, StartError> {
        let seats = seats();
        let [a, b, c] = seats.each_ref().map(|seat| Server::start(binary, options(seat)));
        let (a, b, c) = tokio::try_join!(a, b, c)?;
        Ok(Cluster { nodes: [a, b, c], seats })
    }

    /// All nodes, by number.
    pub fn nodes(&self) -> &[Server; NODES] {
        &self.nodes
    }

    /// The parameters of each node, by number.
    pub fn seats(&self) -> &[Seat; NODES] {
        &self.seats
    }

    /// One node, for a fault.
    pub fn node(&mut self, number: usize) -> &mut Server {
        &mut self.nodes[number]
    }

    /// The addresses for clients, by number.
    pub fn urls(&self) -> [&str; NODES] {
        self.nodes.each_ref().map(Server::url)
    }

    /// A connection that moves to another node if its own is gone, or hangs for a few seconds.
    pub async fn connect(&self) -> async_nats::Client {
        let options = ConnectOptions::new().ping_interval(HANGS).connection_timeout(HANGS);
        options.connect(self.urls().as_slice()).await.unwrap()
    }

    /// The number of the node that leads the KV bucket `bucket`; all writes go through it.
    pub async fn leader_of(&self, bucket: &str) -> usize {
        self.leader_of_stream(&format!("KV_{bucket}")).await
    }

    /// The number of the node that leads this stream.
    pub async fn leader_of_stream(&self, stream: &str) -> usize {
        let jetstream = impatient(self.connect().await);
        let name = until("the stream has a leader", async || {
            let stream = jetstream.get_stream(stream).await.ok()?;
            stream.cached_info().cluster.as_ref()?.leader.clone()
        })
        .await;
        (0..NODES).find(|number| name_of(*number) == name).expect("a node of this cluster leads")
    }

    /// Returns when a bucket with a replica on every node can be made, and removes that bucket.
    pub async fn until_ready(&self) {
        let jetstream = impatient(self.connect().await);
        let config = kv::Config { bucket: "ready".to_owned(), num_replicas: NODES, ..kv::Config::default() };
        until("the cluster makes a bucket", async || jetstream.create_key_value(config.clone()).await.ok()).await;
        // An order whose answer was lost may have been carried out.
        let is_gone = async || {
            jetstream.delete_key_value("ready").await.ok();
            let found = jetstream.get_stream("KV_ready").await;
            found.is_err_and(|error| matches!(error.kind(), GetStreamErrorKind::JetStream(_))).then_some(())
        };
        until("the cluster deletes a bucket", is_gone).await;
    }
}

impl Seat {
    /// The seat as arguments of nats-server, for a node without a configuration file for it.
    pub fn arguments(&self) -> Vec<String> {
        let routes = self.routes.map(|route| format!("nats://{route}")).join(",");
        let listen = format!("nats://{}", self.listen);
        ["--name", &self.name, "--cluster_name", "test", "--cluster_listen", &listen, "--routes", &routes]
            .map(str::to_owned)
            .into()
    }
}

/// Ports that were free a moment ago. All are held until all are known, so no two are equal.
fn seats() -> [Seat; NODES] {
    let held = [(); NODES].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let routes = held.map(|listener| listener.local_addr().unwrap());
    std::array::from_fn(|number| Seat { name: name_of(number), listen: routes[number], routes })
}

fn name_of(number: usize) -> String {
    format!("node-{number}")
}

/// `JetStream` that gives a request up soon, to be repeated. A cluster loses requests while it
/// elects a leader.
pub(crate) fn impatient(client: async_nats::Client) -> jetstream::Context {
    let mut jetstream = jetstream::new(client);
    jetstream.set_timeout(REQUEST);
    jetstream
}
