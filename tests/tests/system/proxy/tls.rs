//! Encryption on both sides: one proxy is the upstream of another.

use crate::prelude::*;
use rampmeter_listener::tls::CertificateFiles;
use rampmeter_proxy::settings::Encryption;
use rampmeter_proxy::{Proxy, Settings};
use rampmeter_tests::certificates::{Authority, Issued};
use rampmeter_tests::http_proxy::{another, settings};

/// A proxy that shows `issued` to its clients.
async fn encrypted(upstream: &RawUpstream, issued: &Issued) -> HttpProxy {
    let files = CertificateFiles { cert_file: issued.cert.clone(), key_file: issued.key.clone(), client_ca_file: None };
    let encryption = Encryption { certificate: Some(files), upstream_ca: None };
    HttpProxy::start_with(AMPLE, Settings { encryption, ..settings(&upstream.url()) }).await
}

/// A proxy in front of `inner` that trusts this authority.
async fn trusting(inner: &HttpProxy, ca_file: PathBuf) -> Proxy {
    let encryption = Encryption { certificate: None, upstream_ca: Some(ca_file) };
    let upstream = format!("https://localhost:{}", inner.address().port());
    another(&inner.nats, Settings { encryption, ..settings(&upstream) }).await
}

async fn status(proxy: &Proxy) -> u16 {
    http().post(format!("http://{}/a", proxy.address())).body("b").send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn both_sides_may_be_encrypted_and_choose_http2() {
    let (authority, other) = (Authority::new("first"), Authority::new("second"));
    let upstream = RawUpstream::start([]).await;
    let inner = encrypted(&upstream, &authority.issue("proxy", &["localhost"])).await;
    assert_eq!(status(&trusting(&inner, authority.ca_file()).await).await, 200);
    let seen = upstream.requests().remove(0);
    assert!(seen.contains("via: 1.1 rampmeter-") && seen.contains(", 2.0 rampmeter-"), "{seen}");
    assert!(seen.contains("x-forwarded-proto: https"), "{seen}");
    assert_eq!(status(&trusting(&inner, other.ca_file()).await).await, 502);
}

#[tokio::test]
async fn clients_are_told_apart_by_their_certificates() {
    let (authority, other) = (Authority::new("first"), Authority::new("second"));
    let (nats, upstream) = (nats::start().await, RawUpstream::start([]).await);
    let limits = "[[resource]]\nname = \"api\"\nstart = \"full\"\n[[resource.limit]]\nname = \"one\"\n\
        key = [\"client\"]\ncapacity = 1\nperiod = \"1h\"\nmargin = 0\n";
    let _running = scheduler::start(&nats, limits).await;
    let Issued { cert, key } = authority.issue("proxy", &["localhost"]);
    let text = format!(
        "[[proxy]]\nhosts = [\"a\"]\nupstream = \"{}\"\nresource = \"api\"\nmax_wait = \"1s\"\ncert_file = {cert:?}\nkey_file = {key:?}\n\
         client_ca_file = {:?}\nlabels = {{ client = \"client-certificate\" }}\n",
        upstream.url(),
        authority.ca_file(),
    );
    let proxy = ProxyProcess::start(RAMPMETER, &text, &["--nats", nats.url()], &[]).await;
    let address = proxy.url().strip_prefix("https://").unwrap();
    let get = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let (ada, ben) = (authority.issue("ada", &["ada.example"]), authority.issue("ben", &["ben.example"]));
    for (shown, expected) in [(&ada, "200"), (&ada, "429"), (&ben, "200")] {
        let received = authority.answered(address, &[], Some(shown), get).await.unwrap();
        assert!(received.starts_with(&format!("HTTP/1.1 {expected} ")), "{received}");
    }
    let stranger = other.issue("ada", &["ada.example"]);
    for shown in [None, Some(&stranger)] {
        authority.answered(address, &[], shown, get).await.unwrap_err();
    }
    assert_eq!(upstream.requests().len(), 2);
}
