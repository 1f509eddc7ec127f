//! Connections: how many, how slow, and how they end.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as RouterState};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tower_service::Service;

/// The most bytes of a request's line and headers: what proxies pass on by default.
const MAX_HEAD: usize = 16 * 1024;
/// How long a client may take for its headers, which is also how long a connection may lie idle. A
/// slower client is slow on purpose, or gone.
const READ_HEAD: Duration = Duration::from_secs(10);
/// How long answers may take to leave when the process stops.
const LEAVE: Duration = Duration::from_secs(1);
/// Connections beyond those that wait for permits: a request for health gets one of them. Fewer
/// would let a burst of new connections close them all.
const KEPT_FOR_HEALTH: usize = 64;
/// The pause after the system has refused a connection, for example because no file is left.
const PAUSE: Duration = Duration::from_millis(100);
/// How many clients are turned away with an answer at a time, and how long each may take to read
/// it. Further connections are closed without an answer.
const TURNED_AWAY: (usize, Duration) = (64, Duration::from_secs(1));
/// The answer to a client that finds every place taken by clients with an open request.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Lets clients in. When all places are taken, the oldest connection without an open request has to
/// leave: slow and idle clients keep no other client out.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLimiter {
    places: usize,
    /// The places of requests of the front.
    front_places: Arc<Semaphore>,
    /// Connections by number, the oldest first. The lock guards the map, for one look through it.
    open: Arc<Mutex<BTreeMap<u64, Open>>>,
    turned_away: Arc<Semaphore>,
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    task: JoinHandle<()>,
}

/// One client's connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    address: IpAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    is_owed: AtomicBool,
    /// Notified when the connection has to close.
    leave: Notify,
    is_leaving: AtomicBool,
}

/// An answer that is owed until this is dropped.
pub(super) struct PendingAnswer(Arc<State>);

impl ConnectionLimiter {
    pub(super) fn new(places: usize) -> Self {
        ConnectionLimiter {
            places: places + KEPT_FOR_HEALTH,
            front_places: Arc::new(Semaphore::new(places)),
            open: Arc::default(),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY.0)),
        }
    }

    /// Lets clients in for ever.
    pub(super) async fn open(self, listener: TcpListener, router: Router) {
        for number in 0.. {
            match listener.accept().await {
                Ok((stream, address)) => self.admit(number, stream, address, &router),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Closes all connections, after the answers that are owed on them.
    pub(super) async fn clear(&self) {
        let open = std::mem::take(&mut *self.lock());
        open.values().for_each(|open| open.connection.send_away());
        let leaving = open.into_values().map(|open| open.task);
        tokio::time::timeout(LEAVE, futures::future::join_all(leaving)).await.ok();
    }

    fn admit(&self, number: u64, stream: TcpStream, address: SocketAddr, router: &Router) {
        let mut open = self.lock();
        if open.len() >= self.places && !make_room(&open) {
            self.turn_away(stream);
            return;
        }
        stream.set_nodelay(true).ok();
        let connection = Connection { address: address.ip().to_canonical(), state: Arc::default() };
        let (connection_limiter, router, served) = (self.clone(), router.clone(), connection.clone());
        // The lock is held, so the task can't remove the connection before it is noted.
        let task = tokio::spawn(async move {
            served.serve(stream, router).await;
            connection_limiter.lock().remove(&number);
        });
        open.insert(number, Open { connection, task });
    }

    fn turn_away(&self, mut stream: TcpStream) {
        let Ok(place) = self.turned_away.clone().try_acquire_owned() else { return };
        tokio::spawn(async move {
            let telling = async {
                // A client reads an answer only after its request. Bytes that stay unread would
                // reset the connection, so all are read.
                stream.peek(&mut [0]).await?;
                stream.write_all(FULL).await?;
                stream.shutdown().await?;
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
            };
            tokio::time::timeout(TURNED_AWAY.1, telling).await.map(drop).ok();
            drop(place);
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a request of the front, which may wait, in one of the places for them.
pub(super) async fn in_a_place(
    RouterState(connection_limiter): RouterState<ConnectionLimiter>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(_place) = connection_limiter.front_places.try_acquire() else {
        let headers = [(header::RETRY_AFTER, "1"), (header::CONNECTION, "close")];
        let reason = "as many requests wait as `max_connections` in [http] allows\n";
        return (StatusCode::SERVICE_UNAVAILABLE, headers, reason).into_response();
    };
    next.run(request).await
}

/// Closes the oldest connection that is owed no answer. Returns whether there was one.
fn make_room(open: &BTreeMap<u64, Open>) -> bool {
    let idle = open.values().map(|open| &open.connection).find(|connection| connection.is_idle());
    idle.map(Connection::send_away).is_some()
}

impl Connection {
    /// The address of the client.
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// Notes that the client has begun a request. An answer is owed until the returned value is
    /// dropped.
    pub(super) fn owe(&self) -> PendingAnswer {
        self.state.is_owed.store(true, Ordering::Relaxed);
        PendingAnswer(self.state.clone())
    }

    fn is_idle(&self) -> bool {
        !self.state.is_owed.load(Ordering::Relaxed) && !self.state.is_leaving.load(Ordering::Relaxed)
    }

    fn send_away(&self) {
        self.state.is_leaving.store(true, Ordering::Relaxed);
        self.state.leave.notify_one();
    }

    /// Serves a client on `stream`.
    async fn serve(self, stream: TcpStream, router: Router) {
        let connection = self.clone();
        let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(connection.clone());
            router.clone().call(request.map(Body::new))
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(READ_HEAD).max_buf_size(MAX_HEAD);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            // The client may end its connection in any way.
            _ended = connection.as_mut() => return,
            () = self.state.leave.notified() => {}
        }
        if self.state.is_owed.load(Ordering::Relaxed) {
            connection.as_mut().graceful_shutdown();
            connection.await.ok();
        }
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.0.is_owed.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Extension;
    use axum::routing::get;
    use tokio::io::AsyncReadExt;

    async fn hang(Extension(connection): Extension<Connection>) {
        let _owed = connection.owe();
        std::future::pending::<()>().await;
    }

    async fn ask(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        stream
    }

    #[tokio::test]
    async fn a_client_without_a_place_is_told_when_to_return() {
        let limiter = ConnectionLimiter::new(1);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(limiter.clone().open(listener, Router::new().route("/", get(hang))));
        let mut owed = Vec::new();
        for _ in 0..=KEPT_FOR_HEALTH {
            owed.push(ask(address).await);
        }
        let all_are_owed = || {
            let open = limiter.lock();
            open.len() == owed.len() && open.values().all(|open| !open.connection.is_idle())
        };
        while !all_are_owed() {
            tokio::task::yield_now().await;
        }
        let mut answer = String::new();
        ask(address).await.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer.as_bytes(), FULL);
    }
}
