//! What clients send takes no more memory than its bounds say, in whatever pieces it comes.

use crate::prelude::*;

const TOKEN: &str = "token-of-a-front-with-memory";
/// As many bytes as a body may have, almost; each in a chunk of its own.
const CHUNKS: usize = 65_000;
/// So many that what the process takes once is little of it.
const CONNECTIONS: usize = 60;
const MOST_OF_ONE: usize = 200 << 10;

/// A request whose body is sent a byte at a time and never ends.
fn endless(path: &str, token: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    [head.into_bytes(), b"1\r\n \r\n".repeat(CHUNKS)].concat()
}

/// What the process takes beyond `before`, at its most within a second.
async fn growth(process: &Process, before: usize) -> usize {
    let mut most = 0;
    for _ in 0..50 {
        let_pass(Duration::from_millis(20), "the process reads what was sent").await;
        most = most.max(resident(process.id()).saturating_sub(before));
    }
    most
}

#[tokio::test]
async fn bodies_in_small_chunks_take_no_more_than_their_bytes() {
    let nats = nats::start().await;
    for front in ["", "front = false\n"] {
        let http = format!("{front}token_env = \"FRONT_TOKEN\"\n{}", few(100, "1s"));
        let configuration = scheduler::configuration(nats.url(), &http);
        let mut process = Process::begin_in(RAMPMETER, &configuration, &[], &[("FRONT_TOKEN", TOKEN)]);
        process.until_ready().await;
        let address: SocketAddr = process.http().unwrap().trim_start_matches("http://").parse().unwrap();
        for (path, token) in [("/healthz", ""), ("/v1/permit/api", ""), ("/v1/permit/api", TOKEN), ("/nowhere", TOKEN)]
        {
            let sent = endless(path, token);
            // What the first connection of a kind takes, it takes once.
            let mut open = vec![TcpStream::connect(address).await.unwrap()];
            open[0].write_all(&sent).await.ok();
            growth(&process, 0).await;
            let before = resident(process.id());
            for _ in 0..CONNECTIONS {
                let mut stream = TcpStream::connect(address).await.unwrap();
                // It may be refused, and closed, before all is sent.
                stream.write_all(&sent).await.ok();
                open.push(stream);
            }
            let grown = growth(&process, before).await;
            assert!(
                grown <= CONNECTIONS * MOST_OF_ONE,
                "{front}{path} {token}: {} kB each",
                (grown / CONNECTIONS) >> 10
            );
        }
        process.stop().await;
    }
}
