//! The cost of `/check` behind a real nginx, with the shipped configuration.

use crate::prelude::*;
use rampmeter_tests::front::check;
use rampmeter_tests::gateway::{self, Behind};
use rampmeter_tests::nginx;

const BUILD_FOLDER: &str = env!("CARGO_TARGET_TMPDIR");
/// The backend's answer.
const PASSED: &str = "passed\n";

fn backend(port: u16) -> String {
    format!("server {{ listen 127.0.0.1:{port}; return 200 \"{}\"; }}\n", PASSED.escape_default())
}

/// Requests through nginx, in sequence on each of some connections.
async fn load(address: SocketAddr, connections: usize, length: Duration) -> (f64, Times) {
    let clock = Clock::start();
    let end = clock.now() + Span::from(length);
    let calls = join_all((0..connections).map(|_| async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut times, mut buffer) = (Vec::new(), [0; 4096]);
        while clock.now() < end {
            let begun = clock.now();
            stream.write_all(b"GET /tiles HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
            let mut length = 0;
            while !buffer[..length].ends_with(PASSED.as_bytes()) {
                let read = stream.read(&mut buffer[length..]).await.unwrap();
                assert!(read > 0, "{}", String::from_utf8_lossy(&buffer[..length]));
                length += read;
            }
            times.push(clock.now().since(begun));
        }
        times
    }))
    .await;
    let mut times = Times::default();
    calls.iter().flatten().for_each(|time| times.add(*time));
    let count: usize = calls.iter().map(Vec::len).sum();
    (count as f64 / length.as_secs_f64(), times)
}

fn p50(times: &Times) -> f64 {
    times.quantile(50).unwrap().millis()
}

/// The same nginx asks, in turns, a server that always says yes and the scheduler.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "figures for people")]
async fn asking_costs_little_more_than_a_server_that_always_says_yes() {
    let nats = nats::start().await;
    // In its own process, as in production: the load would share its threads.
    let process = Process::start(RAMPMETER, &nats, &(check("api") + &few(1_000_000_000, "1s"))).await;
    let front: SocketAddr = process.http().unwrap().trim_start_matches("http://").parse().unwrap();
    let program = nginx::program(BUILD_FOLDER).await;
    let nginx = nginx::start(&program, 4, |ports| {
        let yes = SocketAddr::from(([127, 0, 0, 1], ports[3]));
        let backend_address = SocketAddr::from(([127, 0, 0, 1], ports[2]));
        let shipped = |port, rampmeter| gateway::nginx(port, Behind { rampmeter, backend: backend_address });
        let asks_yes = shipped(ports[1], yes).replace("rampmeter {", "yes {").replace("//rampmeter/", "//yes/");
        let asks_yes = asks_yes.replace("upstream backend {", "upstream other_backend {");
        let always = format!("server {{ listen {yes}; location / {{ return 204; }} }}\n");
        shipped(ports[0], front) + &asks_yes + &always + &backend(ports[2])
    })
    .await;
    let (rounds, length) = if is_long() { (5, Duration::from_secs(2)) } else { (1, Duration::from_millis(300)) };
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let (yes, _) = load(nginx.address(1), 32, length).await;
        let (ours, times) = load(nginx.address(0), 32, length).await;
        let ratio = ours / yes;
        println!("32 in flight: {ours:.0}/s, always yes {yes:.0}/s, ratio {ratio:.2}, p50 {:.1} ms", p50(&times));
        ratios.push(ratio);
    }
    let (_, yes) = load(nginx.address(1), 1, length).await;
    let (_, idle) = load(nginx.address(0), 1, length).await;
    println!("one in flight: p50 {:.2} ms, always yes {:.2} ms", p50(&idle), p50(&yes));
    ratios.sort_by(f64::total_cmp);
    if is_long() {
        assert!(ratios[ratios.len() / 2] >= 0.7, "{ratios:?}");
        assert!(p50(&idle) < 1.0, "{idle}");
    }
}
