//! Held requests take no more memory than the configuration allows, in whatever pieces they come.

use crate::prelude::*;
use rampmeter_tests::http_proxy::raw;

/// The bytes of one body, each in a chunk of its own.
const BYTES: usize = 1_000_000;
const HELD: usize = 6;
/// `replay_memory`: room for four of them.
const MEMORY: usize = 4 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_body_takes_its_bytes_whatever_its_chunks() {
    let upstream = RawUpstream::start([]).await;
    let configuration = format!(
        "[[proxy]]\nreplay_memory = {MEMORY}\n[[resource]]\nname = \"api\"\nstart = \"full\"\n\
         [[resource.limit]]\nname = \"one\"\ncapacity = 1\nperiod = \"1h\"\nmargin = 0\n"
    );
    let proxy = ProxyProcess::start(RAMPMETER, &configuration, &["--upstream", &upstream.url()], &[]).await;
    let address: SocketAddr = proxy.url().trim_start_matches("http://").parse().unwrap();
    let first = raw(address, b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", |_| false).await;
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    let before = resident(proxy.id());
    let mut held = Vec::new();
    for _ in 0..HELD {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        // What is beyond the bound is not read, so that it cannot be sent either.
        let body = b"1\r\nx\r\n".repeat(BYTES);
        let sending = async { stream.write_all(&body).await };
        tokio::time::timeout(Duration::from_secs(2), sending).await.ok();
        held.push(stream);
    }
    let grown = resident(proxy.id()).saturating_sub(before);
    assert!(grown <= MEMORY * 3 / 2 + HELD * (128 << 10), "{} kB", grown >> 10);
}
