//! An upstream whose every byte a test writes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What an upstream does on a connection after a request.
#[derive(Clone, Debug)]
pub enum Act {
    /// It writes these bytes, and waits for the next request.
    Say(Vec<u8>),
    /// It writes these bytes, and then what the test sends, until the test drops its sender.
    SayOn(Vec<u8>),
    /// It writes these bytes and ends the connection.
    SayAndEnd(Vec<u8>),
    /// It resets the connection.
    Reset,
    /// It says nothing.
    Silence,
}

/// A running upstream. It ends with its runtime.
pub struct RawUpstream {
    /// Its address.
    pub address: SocketAddr,
    /// The whole requests that it has received.
    pub received: Arc<Mutex<Vec<String>>>,
    /// What [`Act::SayOn`] goes on with.
    pub more: Option<mpsc::UnboundedSender<Vec<u8>>>,
}

/// What the connections of an upstream share. The locks are held for one look.
#[derive(Clone)]
struct Script {
    acts: Arc<Mutex<std::vec::IntoIter<Act>>>,
    received: Arc<Mutex<Vec<String>>>,
    more: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Vec<u8>>>>,
}

/// An answer with this body.
pub fn answer(body: &str) -> Vec<u8> {
    with_status("200 OK", "", body)
}

/// An answer with this status, these headers, each of which ends its line, and this body.
pub fn with_status(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

impl RawUpstream {
    /// Starts an upstream that does `acts`, one for each request, and then answers `ok`.
    pub async fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (more, receiver) = mpsc::unbounded_channel();
        let acts: Vec<Act> = acts.into_iter().collect();
        let script = Script {
            acts: Arc::new(Mutex::new(acts.into_iter())),
            received: Arc::default(),
            more: Arc::new(tokio::sync::Mutex::new(receiver)),
        };
        let received = script.received.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, script.clone()));
            }
        });
        RawUpstream { address, received, more: Some(more) }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, script: Script) {
    while let Some(request) = read(&mut stream).await {
        script.received.lock().unwrap().push(request);
        let act = script.acts.lock().unwrap().next().unwrap_or_else(|| Act::Say(answer("ok")));
        match act {
            Act::Say(bytes) => stream.write_all(&bytes).await.unwrap_or_default(),
            Act::SayOn(bytes) => {
                stream.write_all(&bytes).await.unwrap_or_default();
                while let Some(bytes) = script.more.lock().await.recv().await {
                    stream.write_all(&bytes).await.unwrap_or_default();
                }
                return;
            }
            Act::SayAndEnd(bytes) => {
                stream.write_all(&bytes).await.unwrap_or_default();
                stream.shutdown().await.unwrap_or_default();
                return;
            }
            Act::Reset => {
                stream.set_zero_linger().unwrap_or_default();
                return;
            }
            Act::Silence => std::future::pending().await,
        }
    }
}

/// The next whole request; none at the end.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let (mut found, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&found).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && is_whole(&head.to_lowercase(), body)
        {
            return Some(text);
        }
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => found.extend_from_slice(&piece[..read]),
        }
    }
}

fn is_whole(head: &str, body: &str) -> bool {
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    match head.contains("transfer-encoding: chunked") {
        true => body.ends_with("\r\n\r\n") && body.contains("0\r\n"),
        false => body.len() >= length.unwrap_or(0),
    }
}
