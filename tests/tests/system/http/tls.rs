//! The HTTP front with a certificate, and without one.

use crate::prelude::*;
use rampmeter_tests::certificates::{Authority, Issued};
use std::io;

const TOKEN: &str = "canary-token-of-the-front";

/// A front that shows `issued`.
async fn encrypted(issued: &Issued, http: &str) -> (Server, Running) {
    let Issued { cert, key } = issued;
    let table = format!("{http}\n[http.tls]\ncert_file = {cert:?}\nkey_file = {key:?}\n{}", few(100, "1s"));
    scheduler::alone(&table).await
}

/// The answer to a client that trusts `authority` and speaks one of these protocols.
async fn answered(running: &Running, authority: &Authority, protocols: &[&str]) -> io::Result<String> {
    authority.answered(&running.http().unwrap().to_string(), protocols, None, ASK).await
}

const ASK: &str = "POST /v1/permit/api HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                   content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn permits_are_encrypted_by_a_certificate_that_may_be_replaced() {
    let (former, next) = (Authority::new("former"), Authority::new("next"));
    let shown = former.issue("front", &["localhost"]);
    let (_nats, running) = encrypted(&shown, "").await;
    assert!(running.http_url().unwrap().starts_with("https://"));
    for protocols in [&[][..], &["http/1.1"], &["h2", "http/1.1"]] {
        let received = answered(&running, &former, protocols).await.unwrap();
        assert!(received.starts_with("HTTP/1.1 200 ") && received.contains("granted"), "{received}");
    }
    answered(&running, &former, &["h2"]).await.unwrap_err();
    answered(&running, &next, &[]).await.unwrap_err();
    let mut plain = TcpStream::connect(running.http().unwrap()).await.unwrap();
    plain.write_all(ASK.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    within("it ends", plain.read_to_end(&mut received)).await.ok();
    assert!(!received.starts_with(b"HTTP"), "a client without encryption is answered");
    let new = next.issue("front", &["localhost"]);
    // Half of a change cannot be used, and leaves the former certificate in force.
    std::fs::copy(&new.cert, &shown.cert).unwrap();
    answered(&running, &former, &[]).await.unwrap();
    std::fs::copy(&new.key, &shown.key).unwrap();
    until("the new certificate counts", async || answered(&running, &next, &[]).await.ok()).await;
}

#[tokio::test]
async fn clients_that_are_slow_to_encrypt_keep_no_other_out() {
    let authority = Authority::new("first");
    let (_nats, running) = encrypted(&authority.issue("front", &["localhost"]), "max_connections = 50").await;
    let mut slow = Vec::new();
    for _ in 0..150 {
        slow.push(TcpStream::connect(running.http().unwrap()).await.unwrap());
    }
    let asking = answered(&running, &authority, &[]);
    let received = tokio::time::timeout(Duration::from_secs(4), asking).await.expect("at once").unwrap();
    assert!(received.starts_with("HTTP/1.1 200 "), "{received}");
    // Long before its handshake would have taken too long.
    let ended = tokio::time::timeout(Duration::from_secs(4), slow[0].read(&mut [0])).await;
    assert!(ended.is_ok_and(|read| read.is_ok_and(|bytes| bytes == 0)), "the first keeps its place");
}

#[tokio::test]
async fn a_front_in_the_clear_beyond_loopback_says_so_once() {
    let nats = nats::start().await;
    let authority = Authority::new("first");
    let Issued { cert, key } = authority.issue("front", &["localhost"]);
    let tls = format!("[http.tls]\ncert_file = {cert:?}\nkey_file = {key:?}");
    #[rustfmt::skip]
    let table = [
        // the address, more keys, and the number of warnings
        ("0.0.0.0:0",   "",                     1),
        ("0.0.0.0:0",   "behind_tls = true",    0),
        ("0.0.0.0:0",   "front = false",        0),
        ("0.0.0.0:0",   &tls,                   0),
        ("127.0.0.1:0", "",                     0),
    ];
    for (listen, more, warnings) in table {
        let text = scheduler::configuration(nats.url(), &format!("token_env = \"TOKEN\"\n{more}\n{}", few(100, "1s")));
        let text = text.replace("127.0.0.1:0", listen);
        let process = Process::begin_in(RAMPMETER, &text, &[], &[("TOKEN", TOKEN)]);
        until("it serves", async || process.http()).await;
        let log = process.log();
        assert_eq!(log.matches("travel in the clear").count(), warnings, "{listen} {more}: {log}");
        process.stop().await;
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_found_by_check_too() {
    let nats = nats::start().await;
    let file = file_with("canary\n");
    let tls = format!("[http.tls]\ncert_file = {:?}\nkey_file = {:?}\n{}", file.path(), file.path(), few(100, "1s"));
    let configuration = file_with(scheduler::configuration(nats.url(), &tls));
    for command in ["serve", "check"] {
        let arguments = [command, "--config", configuration.path().to_str().unwrap()];
        let (code, said) = process::told(RAMPMETER, &arguments, &[]).await;
        assert!(code == Some(1) && said.contains("`http.tls`: "), "{command}: {said}");
        assert!(said.contains("it has no private key in PEM") && !said.contains("canary"), "{command}: {said}");
    }
}
