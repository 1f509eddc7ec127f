//! Admits HTTP clients within bounds on number, time and size, optionally encrypted, without foreign web pages.
//!
//! The HTTP front and the proxy differ in their bounds, and in what happens when all places are taken ([`WhenFull`]).

mod browser;
pub mod path;
pub mod stated;
mod streams;
pub mod tls;
mod watched_files;

pub use browser::{BrowserGuard, Unwelcome};

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::collections::BTreeMap;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use streams::Streams;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::AbortHandle;

/// Pause after the system has failed to accept a connection, for example for lack of a file descriptor.
const PAUSE: Duration = Duration::from_millis(100);
/// How many clients are turned away with an answer at a time, and how long each may take. Others are just closed.
const TURNED_AWAY: (usize, Duration) = (64, Duration::from_secs(1));

/// How long an idle client may take to receive the end of its connection.
const FAREWELL: Duration = Duration::from_secs(1);

/// What happens to a client when every place is taken.
#[derive(Clone, Copy, Debug)]
pub enum WhenFull {
    /// It waits in the system's queue until a connection ends.
    Wait,
    /// It takes the place of the oldest connection that is owed no answer, so that slow and idle clients keep
    /// no other client out. If there is none, it gets this answer.
    Evict(&'static [u8]),
}

/// The connections of one listener. Dropping it closes them at once.
#[derive(Debug)]
pub struct Connections {
    places: usize,
    when_full: WhenFull,
    open: Arc<OpenConnections>,
    turned_away: Arc<Semaphore>,
}

/// Connections by number, the oldest first.
type OpenConnections = watch::Sender<BTreeMap<u64, Open>>;

#[derive(Debug)]
struct Open {
    connection: Connection,
    task: AbortHandle,
}

/// Removes a connection from the open ones, even if its task panics.
struct Place {
    number: u64,
    open: Arc<OpenConnections>,
}

/// One client's connection.
#[derive(Clone, Debug)]
pub struct Connection {
    address: IpAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    is_owed: AtomicBool,
    streams: Streams,
    leave: Notify,
    is_leaving: AtomicBool,
}

/// An owed answer, until this is dropped.
#[derive(Debug)]
pub struct PendingAnswer(Arc<State>);

impl Connections {
    /// Creates room for this many connections.
    #[must_use]
    pub fn new(places: usize, when_full: WhenFull) -> Self {
        let turned_away = Arc::new(Semaphore::new(TURNED_AWAY.0));
        Connections { places, when_full, open: Arc::default(), turned_away }
    }

    /// Accepts clients for ever. Each connection lasts as long as the future that `greet` returns for it.
    pub async fn let_in<F: Future<Output = ()> + Send + 'static>(
        &self,
        listener: &TcpListener,
        greet: impl Fn(TcpStream, Connection) -> F,
    ) {
        let mut failures: u64 = 0;
        for number in 0.. {
            if matches!(self.when_full, WhenFull::Wait) {
                self.until(|open| open.len() < self.places).await;
            }
            match listener.accept().await {
                Ok((stream, address)) => self.admit(number, stream, address, &greet),
                Err(error) => {
                    failures += 1;
                    // Clients can cause it for as long as they like: ten lines a second would fill a log.
                    if failures.is_power_of_two() {
                        tracing::warn!(%error, failures, "a connection could not be accepted");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Closes all present connections, once the answers owed on them are sent.
    pub async fn clear(&self) {
        let last = {
            let open = self.open.borrow();
            open.values().for_each(|open| open.connection.send_away());
            open.last_key_value().map(|(number, _)| *number)
        };
        self.until(|open| open.first_key_value().is_none_or(|(first, _)| Some(*first) > last)).await;
    }

    async fn until(&self, is_so: impl FnMut(&BTreeMap<u64, Open>) -> bool) {
        self.open.subscribe().wait_for(is_so).await.map(drop).expect("the sender is part of `self`");
    }

    fn admit<F: Future<Output = ()> + Send + 'static>(
        &self,
        number: u64,
        stream: TcpStream,
        address: SocketAddr,
        greet: impl Fn(TcpStream, Connection) -> F,
    ) {
        if let WhenFull::Evict(answer) = self.when_full
            && !self.has_room()
        {
            return self.turn_away(stream, answer);
        }
        stream.set_nodelay(true).ok();
        let connection = Connection { address: address.ip().to_canonical(), state: Arc::default() };
        let place = Place { number, open: self.open.clone() };
        let served = greet(stream, connection.clone());
        // The map is locked, so the task can't remove the connection before it is noted.
        self.open.send_modify(|open| {
            let task = tokio::spawn(async move {
                let _place = place;
                served.await;
            });
            open.insert(number, Open { connection, task: task.abort_handle() });
        });
    }

    /// Returns whether a place is free, if need be by telling the oldest connection that is owed no answer to close.
    fn has_room(&self) -> bool {
        let open = self.open.borrow();
        let mut idle = open.values().map(|open| &open.connection).filter(|connection| connection.is_idle());
        open.len() < self.places || idle.next().map(Connection::send_away).is_some()
    }

    fn turn_away(&self, mut stream: TcpStream, answer: &'static [u8]) {
        let Ok(turn) = self.turned_away.clone().try_acquire_owned() else { return };
        tokio::spawn(async move {
            let telling = async {
                // Clients read the answer after their request, and unread bytes would reset the connection.
                stream.peek(&mut [0]).await?;
                stream.write_all(answer).await?;
                stream.shutdown().await?;
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
            };
            tokio::time::timeout(TURNED_AWAY.1, telling).await.map(drop).ok();
            drop(turn);
        });
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        let tasks: Vec<AbortHandle> = self.open.borrow().values().map(|open| open.task.clone()).collect();
        tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.send_modify(|open| drop(open.remove(&self.number)));
    }
}

impl Connection {
    /// Returns the address of the client.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Notes that the client has begun a request. An answer is owed until the returned value is dropped.
    #[must_use]
    pub fn owe(&self) -> PendingAnswer {
        self.state.is_owed.store(true, Ordering::Relaxed);
        PendingAnswer(self.state.clone())
    }

    /// Serves the requests on `stream` until the client ends it or it has to close: at once, or after the answer
    /// that is owed. It also closes after `idle` without a request, whatever an HTTP/2 client does to keep it.
    pub async fn serve<S, B>(
        &self,
        http: &auto::Builder<TokioExecutor>,
        idle: Duration,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        service: S,
    ) where
        S: Service<Request<Incoming>, Response = Response<B>, Error: Send, Future: Send + 'static>,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        let counted = service_fn(|request| {
            let (stream, answered) = (self.state.streams.begin(), service.call(request));
            async move { answered.await.map(|response| response.map(|body| stream.until_end_of(body))) }
        });
        let mut served = pin!(http.serve_connection(TokioIo::new(stream), counted));
        tokio::select! {
            // The client may end its connection in any way.
            _ended = served.as_mut() => return,
            () = self.state.leave.notified() => {}
            () = self.state.streams.idle_for(idle) => {
                served.as_mut().graceful_shutdown();
                tokio::time::timeout(FAREWELL, served).await.ok();
                return;
            }
        }
        if self.state.is_owed.load(Ordering::Relaxed) {
            served.as_mut().graceful_shutdown();
            served.await.ok();
        }
    }

    /// Awaits `greeting`. Returns `None` if the connection has to close first.
    pub async fn unless_sent_away<T>(&self, greeting: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = greeting => Some(done),
            () = self.state.leave.notified() => None,
        }
    }

    fn is_idle(&self) -> bool {
        !self.state.is_owed.load(Ordering::Relaxed) && !self.state.is_leaving.load(Ordering::Relaxed)
    }

    fn send_away(&self) {
        self.state.is_leaving.store(true, Ordering::Relaxed);
        self.state.leave.notify_one();
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.0.is_owed.store(false, Ordering::Relaxed);
    }
}

/// Returns an HTTP server with bounds on the bytes and time of heads, and thus on how long a connection idles.
#[must_use]
pub fn http(read_head: Duration, max_head: usize) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(read_head).max_buf_size(max_head);
    http
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use hyper::body::Bytes;
    use hyper::service::service_fn;
    use std::convert::Infallible;
    use tokio::io::AsyncReadExt;

    const IDLE: Duration = Duration::from_millis(300);
    const FULL: &[u8] = b"full";

    /// Answers `/panic` by a panic, `/hang` never, and anything else at once.
    async fn answer(request: Request<Incoming>, connection: Connection) -> Result<Response<Full<Bytes>>, Infallible> {
        let _owed = connection.owe();
        match request.uri().path() {
            "/panic" => panic!("a request that panics"),
            "/hang" => std::future::pending().await,
            "/slow" => drop(tokio::time::timeout(4 * IDLE, std::future::pending::<()>()).await),
            _ => {}
        }
        Ok(Response::new(Full::default()))
    }

    async fn start(places: usize, when_full: WhenFull, idle: Duration) -> (SocketAddr, Arc<Connections>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::new(Connections::new(places, when_full)));
        let serving = connections.clone();
        tokio::spawn(async move {
            let greet = |stream, connection: Connection| async move {
                let owing = connection.clone();
                let service = service_fn(move |request| answer(request, owing.clone()));
                connection.serve(&http(Duration::from_secs(60), 16_384), idle, stream, service).await;
            };
            serving.let_in(&listener, greet).await;
        });
        (address, connections)
    }

    async fn ask(address: SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
        stream
    }

    /// The first bytes that come back; none at the end of the connection.
    async fn received(stream: &mut TcpStream) -> String {
        let mut piece = [0; 12];
        let read = stream.read(&mut piece).await.unwrap_or(0);
        String::from_utf8_lossy(&piece[..read]).into_owned()
    }

    /// Waits until so many connections are owed an answer.
    async fn until_owed(connections: &Connections, expected: usize) {
        let owed = || connections.open.borrow().values().filter(|open| !open.connection.is_idle()).count();
        while owed() != expected {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_client_waits_for_a_place_which_a_panic_frees_too() {
        let (address, _connections) = start(1, WhenFull::Wait, IDLE).await;
        let mut first = ask(address, "/").await;
        assert_eq!(received(&mut first).await, "HTTP/1.1 200");
        let mut second = ask(address, "/panic").await;
        let waits = tokio::time::timeout(Duration::from_millis(100), received(&mut second)).await;
        assert!(waits.is_err(), "the second has a place beyond the bound");
        drop(first);
        assert_eq!(received(&mut second).await, "");
        assert_eq!(received(&mut ask(address, "/").await).await, "HTTP/1.1 200");
    }

    #[tokio::test]
    async fn the_oldest_idle_connection_leaves_for_a_new_one() {
        let (address, connections) = start(2, WhenFull::Evict(FULL), Duration::from_secs(60)).await;
        let _first = ask(address, "/hang").await;
        until_owed(&connections, 1).await;
        let mut idle = ask(address, "/").await;
        assert_eq!(received(&mut idle).await, "HTTP/1.1 200");
        let _second = ask(address, "/hang").await;
        let mut rest = Vec::new();
        // Long before it would end by itself.
        let ends = idle.read_to_end(&mut rest);
        assert!(tokio::time::timeout(Duration::from_secs(20), ends).await.is_ok(), "the idle one stays");
        until_owed(&connections, 2).await;
    }

    #[tokio::test]
    async fn connections_are_cleared_after_the_answers_that_are_owed() {
        let (address, connections) = start(4, WhenFull::Wait, IDLE).await;
        let mut idle = ask(address, "/").await;
        assert_eq!(received(&mut idle).await, "HTTP/1.1 200");
        connections.clear().await;
        let mut rest = String::new();
        idle.read_to_string(&mut rest).await.unwrap();
        let _owed = ask(address, "/hang").await;
        until_owed(&connections, 1).await;
        assert!(tokio::time::timeout(Duration::from_millis(100), connections.clear()).await.is_err());
    }

    /// A client that answers pings, and so never seems gone.
    #[tokio::test]
    async fn an_http_2_connection_ends_once_it_has_no_stream_for_a_while() {
        let (address, _connections) = start(4, WhenFull::Wait, IDLE).await;
        for path in [None, Some("/"), Some("/slow")] {
            let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            let ended = tokio::spawn(connection);
            if let Some(path) = path {
                let request = Request::get(format!("http://a{path}")).body(Full::<Bytes>::default()).unwrap();
                assert_eq!(sender.send_request(request).await.unwrap().status(), 200, "{path}");
            }
            let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
            assert!(ended.is_ok_and(|ended| ended.unwrap().is_ok()), "{path:?}: it ends, and says so");
        }
    }
}
