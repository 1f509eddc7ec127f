//! `/check` behind a real nginx, with the configuration that ships.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use crate::RAMPMETER;
use futures::StreamExt;
use futures::future::join_all;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use rampmeter_tests::figures::Times;
use rampmeter_tests::fire::is_long;
use rampmeter_tests::front::{Front, Response};
use rampmeter_tests::nginx::{self, Nginx};
use rampmeter_tests::patience::within;
use rampmeter_tests::process::Process;
use rampmeter_tests::{api, nats, repository};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BUILD_FOLDER: &str = env!("CARGO_TARGET_TMPDIR");
/// What the backend says.
const PASSED: &str = "passed\n";

/// The resource that is asked, and where its labels come from.
fn check(resource: &str) -> String {
    format!(
        "[http.check]\nresource = \"{resource}\"\ntrusted_proxies = [\"127.0.0.1/32\"]\n\
         [http.check.labels]\nclient = \"header:x-api-key\"\nroute = \"path\"\nmethod = \"method\"\naddress = \"client-address\"\n"
    )
}

fn resource(capacity: u32, period: &str) -> String {
    format!(
        "[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = {capacity}\nperiod = \"{period}\"\nmargin = 0\n"
    )
}

/// The shipped configuration, between these addresses.
fn shipped(listen: u16, backend: u16, rampmeter: SocketAddr) -> String {
    let text = repository::file("deploy/nginx/rampmeter.conf").unwrap().text;
    let mut servers = [format!("server {rampmeter};"), format!("server 127.0.0.1:{backend};")].into_iter();
    let placed = text.lines().map(|line| match line.trim() {
        "listen 80;" => format!("listen 127.0.0.1:{listen};"),
        trimmed if trimmed.starts_with("server 127.0.0.1:") => servers.next().unwrap(),
        _ => line.to_owned(),
    });
    let placed: Vec<String> = placed.collect();
    assert_eq!(servers.next(), None, "the shipped configuration names two servers");
    placed.join("\n")
}

fn backend(port: u16) -> String {
    format!("server {{ listen 127.0.0.1:{port}; return 200 \"{}\"; }}\n", PASSED.escape_default())
}

/// An nginx before the front at `rampmeter`, and behind it a backend.
async fn before(rampmeter: SocketAddr) -> Nginx {
    let program = nginx::program(BUILD_FOLDER).await;
    Nginx::start(&program, 2, |ports| shipped(ports[0], ports[1], rampmeter) + &backend(ports[1])).await
}

async fn post(nginx: &Nginx, path: &str) -> Response {
    let url = format!("http://{}{path}", nginx.address(0));
    Response::read(api::http().post(url).header("x-api-key", "team-a").body("content").send().await.unwrap()).await
}

#[tokio::test]
async fn a_client_behind_nginx_is_told_when_to_come_back() {
    let nats = nats::start().await;
    let front = Front::start(&nats, &check("api"), &resource(2, "400h")).await;
    let nginx = before(front.address()).await;
    for left in ["\"few\";r=1;t=720000", "\"few\";r=0;t=1440000"] {
        let passed = post(&nginx, "/tiles").await;
        assert_eq!((passed.status, &passed.body), (200, &json!(PASSED)), "{passed:?}");
        assert_eq!(passed.header("ratelimit"), Some(left), "{passed:?}");
    }
    let refused = post(&nginx, "/tiles").await;
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(refused.status == 429 && (1..=720_000).contains(&seconds), "{refused:?}");
    assert_eq!(refused.header("ratelimit"), Some(format!("\"few\";r=0;t={seconds}").as_str()));
}

#[tokio::test]
async fn an_unknown_client_behind_nginx_is_unavailable() {
    let nats = nats::start().await;
    let client = nats::connect(&nats).await;
    // Somebody else leads this resource, and has no limit for the client.
    let mut asked = client.subscribe("rampmeter.permit.other").await.unwrap();
    client.flush().await.unwrap();
    let front = Front::start(&nats, &check("other"), &resource(2, "400h")).await;
    let nginx = before(front.address()).await;
    let answering = async {
        let message = asked.next().await.unwrap();
        let request: Value = serde_json::from_slice(&message.payload).unwrap();
        let refused = json!({"status": "refused", "id": request["id"], "code": "no_limit", "message": "", "epoch": 1});
        client.publish(message.reply.unwrap(), refused.to_string().into()).await.unwrap();
        request
    };
    let (refused, request) = tokio::join!(post(&nginx, "/tiles/1?secret=2"), within("nginx asks", answering));
    assert_eq!((refused.status, refused.header("retry-after")), (503, None), "{refused:?}");
    let labels = json!({"client": "team-a", "route": "/tiles/1", "method": "POST", "address": "127.0.0.1"});
    assert_eq!(request["labels"], labels);
}

#[tokio::test]
async fn nginx_says_so_when_no_scheduler_answers() {
    let mut nats = nats::start().await;
    let front = Front::start(&nats, &check("api"), &resource(2, "400h")).await;
    let nginx = before(front.address()).await;
    nats.kill().await.unwrap();
    let refused = post(&nginx, "/tiles").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
}

/// Requests through nginx, one after the other on each of some connections.
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

/// The same nginx asks a server that always says yes, and the scheduler, in turns.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "figures for people")]
async fn asking_costs_little_more_than_asking_somebody_who_always_says_yes() {
    let nats = nats::start().await;
    // In a process of its own, as in life: the load would share its threads.
    let process = Process::start(RAMPMETER, &nats, &(check("api") + &resource(1_000_000_000, "1s"))).await;
    let front: SocketAddr = process.http().unwrap().trim_start_matches("http://").parse().unwrap();
    let program = nginx::program(BUILD_FOLDER).await;
    let nginx = Nginx::start(&program, 4, |ports| {
        let yes = SocketAddr::from(([127, 0, 0, 1], ports[3]));
        let asks_yes =
            shipped(ports[1], ports[2], yes).replace("rampmeter {", "yes {").replace("//rampmeter/", "//yes/");
        let asks_yes = asks_yes.replace("upstream backend {", "upstream other_backend {");
        let always = format!("server {{ listen {yes}; location / {{ return 204; }} }}\n");
        shipped(ports[0], ports[2], front) + &asks_yes + &always + &backend(ports[2])
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
