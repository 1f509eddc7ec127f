//! Programs that only know `HTTPS_PROXY`: their tunnels end at the proxy, and its upstream is
//! encrypted, too.

use rampmeter_proxy::intercept::{AuthorityFiles, Interception};
use rampmeter_proxy::settings::{Bounds, Encryption};
use rampmeter_proxy::tls::CertificateFiles;
use rampmeter_proxy::{Proxy, Settings};
use rampmeter_tests::certificates::Authority;
use rampmeter_tests::http_proxy::{AMPLE, HttpProxy, another, raw, settings};
use rampmeter_tests::patience::{let_pass, until, within};
use rampmeter_tests::raw_upstream::{Act, RawUpstream};
use rcgen::{GeneralSubtree, NameConstraints, date_time_ymd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A request inside another one. The upstream must never see it as a request of its own.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: api.example.com\r\n\r\n";
/// The most clients at once. Each takes a few open files of this process.
static TURNS: Semaphore = Semaphore::const_new(50);
/// The host that clients believe to call.
const HOST: &str = "api.example.com";

/// An upstream that is encrypted, and a proxy in front of it that answers in place of [`HOST`].
struct Intercepting {
    upstream: RawUpstream,
    /// A proxy that encrypts the plain upstream for HTTP/1 and HTTP/2, and passes everything on.
    _encrypted: HttpProxy,
    proxy: Proxy,
    /// The authority of the proxy's certificates, which programs trust.
    own: Authority,
}

impl Intercepting {
    async fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        Self::start_with(acts, AMPLE, Bounds::default()).await
    }

    async fn start_with(acts: impl IntoIterator<Item = Act>, limits: &str, bounds: Bounds) -> Self {
        let (of_upstream, own) = (Authority::new("upstream"), Authority::new("own"));
        let upstream = RawUpstream::start(acts).await;
        let shown = of_upstream.issue("upstream", &["localhost"]);
        let files = CertificateFiles { cert_file: shown.cert, key_file: shown.key, client_ca_file: None };
        let encryption = Encryption { certificate: Some(files), upstream_ca: None };
        let inner = Settings { encryption, ..settings(&upstream.url()) };
        let encrypted = HttpProxy::start_with(limits, inner).await;
        let url = format!("https://localhost:{}", encrypted.address().port());
        let encryption = Encryption { certificate: None, upstream_ca: Some(of_upstream.ca_file()) };
        let intercept = Some(intercept(&own, &[HOST]));
        let proxy = another(&encrypted.nats, Settings { encryption, intercept, bounds, ..settings(&url) }).await;
        Intercepting { upstream, _encrypted: encrypted, proxy, own }
    }

    /// All that comes back for these bytes on a connection to the proxy.
    async fn raw(&self, bytes: &str) -> String {
        within("the end of the connection", raw(self.proxy.address(), bytes.as_bytes(), |_| false)).await
    }

    /// A connection behind a granted `CONNECT` to [`HOST`].
    async fn tunnel(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.proxy.address()).await.unwrap();
        stream.write_all(connect(HOST).as_bytes()).await.unwrap();
        let received = head(&mut stream).await;
        assert!(received.starts_with("HTTP/1.1 200 ") && !received.contains("content-length"), "{received}");
        stream
    }

    /// An encrypted connection to `name` in the tunnel, which offers these protocols.
    async fn encrypt(&self, name: &str, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
        self.encrypt_with(roots(&self.own), name, protocols).await
    }

    /// Like [`encrypt`](Self::encrypt), for a client that trusts `roots`.
    async fn encrypt_with(
        &self,
        roots: RootCertStore,
        name: &str,
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, self.tunnel().await).await
    }

    /// What comes back for these bytes in a tunnel.
    async fn inside(&self, bytes: &str) -> String {
        let mut stream = self.encrypt(HOST, &["http/1.1"]).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.ok();
        let mut found = Vec::new();
        within("the end of the tunnel", stream.read_to_end(&mut found)).await.ok();
        String::from_utf8_lossy(&found).into_owned()
    }

    /// What curl writes of `url`.
    async fn curl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--noproxy", "", "--proxy"]);
        command.arg(format!("http://{}", self.proxy.address())).arg("--cacert").arg(self.own.ca_file());
        command.args(arguments).stdin(Stdio::null()).env_clear().kill_on_drop(true);
        let output = within("curl's end", command.output()).await.unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

fn roots(authority: &Authority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.ca_file()).unwrap()).unwrap();
    roots
}

fn intercept(own: &Authority, hosts: &[&str]) -> Interception {
    let authority = AuthorityFiles { cert_file: own.ca_file(), key_file: own.key_file() };
    Interception { authority, hosts: hosts.iter().map(|host| host.parse().unwrap()).collect() }
}

fn connect(host: &str) -> String {
    format!("CONNECT {host}:443 HTTP/1.1\r\nhost: {host}:443\r\n\r\n")
}

/// The head of an answer, and no byte more.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut found = Vec::new();
    while !found.ends_with(b"\r\n\r\n") {
        found.push(within("the head of an answer", stream.read_u8()).await.unwrap());
    }
    String::from_utf8(found).unwrap()
}

#[tokio::test]
async fn curl_calls_the_upstream_through_its_proxy() {
    let intercepting =
        Intercepting::start([Act::Say(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n".to_vec())]).await;
    for version in ["--http2", "--http1.1"] {
        let received = intercepting.curl(&[version, "--include", "--data", "b", "https://api.example.com/a?b=c"]).await;
        assert!(
            received.contains(" 200 ") && received.contains("x-rampmeter-wait-ms: ") && received.ends_with("ok"),
            "{received}"
        );
    }
    let seen = intercepting.upstream.requests();
    // The call was repeated after the 429, which the client does not see.
    assert_eq!(seen.len(), 3);
    assert!(
        seen.iter().all(|seen| seen.starts_with("POST /a?b=c HTTP/1.1\r\n") && seen.ends_with("\r\n\r\nb")),
        "{seen:?}"
    );
    assert!(seen[0].contains("via: 2.0 rampmeter-") && seen[2].contains("via: 1.1 rampmeter-"), "{seen:?}");
    assert!(seen[0].contains("x-forwarded-proto: https"), "{seen:?}");
    // `http` URLs need no tunnel, and no authority.
    let received = intercepting.curl(&["http://api.example.com/d"]).await;
    assert_eq!(received, "ok");
}

#[tokio::test]
async fn there_is_no_tunnel_to_other_hosts() {
    let intercepting = Intercepting::start([]).await;
    let own = format!("{HOST}:443");
    for target in [
        "foreign.example:443",
        "api.example.com:22",
        "api.example.com.:443",
        "x.api.example.com:443",
        "me:secret@api.example.com:443",
        "127.0.0.1:443",
    ] {
        // The target decides, and the `Host` header does not.
        let received = intercepting.raw(&format!("CONNECT {target} HTTP/1.1\r\nhost: {own}\r\n\r\n{SMUGGLED}")).await;
        assert!(
            received.starts_with("HTTP/1.1 403 ") && received.contains(r#""code":"foreign_host""#),
            "{target}: {received}"
        );
        assert!(
            received.contains("connection: close") && received.matches("HTTP/1.1").count() == 1,
            "{target}: {received}"
        );
        assert!(!received.contains("secret"), "{received}");
    }
    let received = intercepting.curl(&["https://foreign.example/"]).await;
    assert!(received.contains("403"), "{received}");
    let received = intercepting.raw("GET http://foreign.example/ HTTP/1.1\r\nhost: api.example.com\r\n\r\n").await;
    assert!(received.contains(r#""code":"foreign_host""#), "{received}");
    assert_eq!(intercepting.upstream.requests(), [""; 0]);
}

/// One connection of HTTP/2 could hold any number of tunnels, and count only once.
#[tokio::test]
async fn a_connection_of_http2_has_no_tunnels() {
    let intercepting = Intercepting::start([]).await;
    // Two fields as literals: `:method` and `:authority`.
    let block = [b"\x02\x07CONNECT\x01\x13", format!("{HOST}:443").as_bytes()].concat();
    let headers = [&[0, 0, block.len() as u8, 1, 4, 0, 0, 0, 1], &block[..]].concat();
    let bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", &headers[..]].concat();
    let enough = |received: &str| received.contains(r#""code":"tunnel""#);
    within("a refusal", raw(intercepting.proxy.address(), &bytes, enough)).await;
}

#[tokio::test]
async fn a_connect_with_a_body_is_refused() {
    let intercepting = Intercepting::start([]).await;
    let own = format!("CONNECT {HOST}:443 HTTP/1.1\r\nhost: {HOST}\r\n");
    for rest in [
        "content-length: 1\r\n\r\na",
        "transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "content-length: 0\r\ncontent-length: 0\r\n\r\n",
    ] {
        let received = intercepting.raw(&format!("{own}{rest}{SMUGGLED}")).await;
        assert!(
            received.starts_with("HTTP/1.1 400 ") && received.matches("HTTP/1.1").count() == 1,
            "{rest:?}: {received}"
        );
    }
    assert_eq!(intercepting.upstream.requests(), [""; 0]);
}

#[tokio::test]
async fn a_request_in_a_tunnel_is_for_its_host() {
    let intercepting = Intercepting::start([]).await;
    let get = |target: &str, host: &str| format!("GET {target} HTTP/1.1\r\n{host}connection: close\r\n\r\n");
    let own = format!("host: {HOST}\r\n");
    #[rustfmt::skip]
    let table = [
        ("/",                        own.as_str(),                         "200"),
        ("/",                        "host: API.example.com:443\r\n",      "200"),
        ("https://api.example.com/", own.as_str(),                         "200"),
        ("/",                        "host: foreign.example\r\n",          "421"),
        ("/",                        "host: api.example.com:8443\r\n",     "421"),
        ("/",                        "host: a b\r\n",                      "421"),
        ("/",                        "",                                   "421"),
        ("https://foreign.example/", own.as_str(),                         "421"),
    ];
    for (target, host, status) in table {
        let received = intercepting.inside(&get(target, host)).await;
        assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {host:?}: {received}");
    }
    let twice = format!("{own}{own}");
    assert!(intercepting.inside(&get("/", &twice)).await.starts_with("HTTP/1.1 400 "));
    // A tunnel inside a tunnel is refused.
    let received = intercepting.inside(&connect(HOST)).await;
    assert!(received.starts_with("HTTP/1.1 405 ") && received.contains(r#""code":"tunnel""#), "{received}");
    assert_eq!(intercepting.upstream.requests().len(), 3);
}

#[tokio::test]
async fn a_handshake_for_another_host_fails() {
    let intercepting = Intercepting::start([]).await;
    let error = intercepting.encrypt("foreign.example", &["h2"]).await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    // A client that names no host gets the certificate of the tunnel's host.
    let error = intercepting.encrypt("127.0.0.1", &["h2"]).await.unwrap_err().to_string();
    assert!(error.contains("not valid for name") && error.contains(HOST), "{error}");
    let error = intercepting.encrypt(HOST, &["spdy/1"]).await.unwrap_err().to_string();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
    for (offered, chosen) in
        [(&["h2", "http/1.1"][..], Some(&b"h2"[..])), (&["http/1.1"], Some(b"http/1.1")), (&[], None)]
    {
        let stream = intercepting.encrypt(HOST, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
    }
}

#[tokio::test]
async fn a_tunnel_without_a_handshake_ends() {
    let intercepting = Intercepting::start([]).await;
    let ends = async |bytes: &[u8]| {
        let mut stream = intercepting.tunnel().await;
        stream.write_all(bytes).await.ok();
        let mut found = Vec::new();
        within("the end of the tunnel", stream.read_to_end(&mut found)).await.ok();
        found
    };
    // The answer is an alert at most. Nothing is read as a request.
    for garbage in [SMUGGLED.as_bytes(), &b"\x16\x03\x01\xff\xff\x01"[..], b"SSH-2.0-x\r\n", &[0; 100_000]] {
        let received = ends(garbage).await;
        assert!(received.len() <= 7, "{}", String::from_utf8_lossy(&received));
    }
    assert_eq!(ends(b"").await, b"");
    let metrics = intercepting.proxy.metrics();
    let line = r#"rampmeter_proxy_tunnels_total{end="not_encrypted"} 5"#;
    until("each is counted", async || metrics.render().contains(line).then_some(())).await;
    assert_eq!(intercepting.upstream.requests(), [""; 0]);
}

#[tokio::test]
async fn a_tunnel_takes_the_place_of_its_connection() {
    let bounds = Bounds { clients: 2, ..Bounds::default() };
    let intercepting = Intercepting::start_with([], AMPLE, bounds).await;
    let (first, second) = (intercepting.encrypt(HOST, &[]).await.unwrap(), intercepting.tunnel().await);
    let mut third = TcpStream::connect(intercepting.proxy.address()).await.unwrap();
    third.write_all(connect(HOST).as_bytes()).await.unwrap();
    let mut byte = [0];
    let waits = tokio::time::timeout(Duration::from_millis(300), third.read(&mut byte)).await;
    assert!(waits.is_err(), "the third has a place beyond the bound");
    drop(second);
    assert!(head(&mut third).await.starts_with("HTTP/1.1 200 "));
    drop(first);
}

#[tokio::test]
async fn a_thousand_tunnels_are_served() {
    let intercepting = Arc::new(Intercepting::start([]).await);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let (intercepting, turn) = (intercepting.clone(), TURNS.acquire().await.unwrap());
        calls.spawn(async move {
            let _turn = turn;
            let mut stream = within("a handshake", intercepting.encrypt(HOST, &["http/1.1"])).await.unwrap();
            let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
            let get = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
            stream.write_all(get.as_bytes()).await.unwrap();
            assert!(head(&mut stream).await.starts_with("HTTP/1.1 200 "));
            shown
        });
    }
    let shown: Vec<CertificateDer<'_>> = calls.join_all().await;
    assert!(shown.iter().all(|one| *one == shown[0]), "the certificate of a host is made once");
    assert_eq!(intercepting.upstream.requests().len(), 1000);
}

#[tokio::test]
async fn nothing_is_smuggled_into_a_tunnel_or_out_of_it() {
    let intercepting = Intercepting::start([]).await;
    let chunk = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    let post = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\n");
    #[rustfmt::skip]
    let table = [
        format!("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}"),
        format!("transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n{chunk}"),
        format!("transfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n{chunk}"),
        format!("transfer-encoding : chunked\r\n\r\n{chunk}").replace("chunked\r\n\r\n", "identity, chunked\r\n\r\n"),
        format!("content-length: 0\r\ncontent-length: 44\r\n\r\n{SMUGGLED}"),
        format!("a: b\r\n content-length: 44\r\n\r\n{SMUGGLED}"),
        format!("a: b\n\n{SMUGGLED}"),
    ];
    for rest in table {
        let received = intercepting.inside(&format!("{post}{rest}")).await;
        assert!(received.contains(" 400 ") && received.matches("HTTP/1.1 ").count() == 1, "{rest:?}: {received}");
    }
    // Plain bytes behind a `CONNECT` are read neither as a request in the tunnel nor as one
    // outside.
    let received = intercepting.raw(&format!("{}{SMUGGLED}", connect(HOST))).await;
    assert!(received.starts_with("HTTP/1.1 200 ") && received.matches("HTTP/1.1").count() == 1, "{received}");
    assert_eq!(intercepting.upstream.requests(), [""; 0]);
}

#[tokio::test]
async fn an_authority_that_is_replaced_counts_without_a_restart() {
    let (intercepting, next) = (Intercepting::start([]).await, Authority::new("next"));
    let (former_roots, next_roots) = (roots(&intercepting.own), roots(&next));
    let shows = async |roots: &RootCertStore| intercepting.encrypt_with(roots.clone(), HOST, &[]).await.ok().map(drop);
    shows(&former_roots).await.unwrap();
    // Half of a change cannot be used, and leaves the former authority in force.
    std::fs::copy(next.ca_file(), intercepting.own.ca_file()).unwrap();
    let_pass(Duration::from_millis(1100), "the files are looked at once a second").await;
    shows(&former_roots).await.unwrap();
    std::fs::copy(next.key_file(), intercepting.own.key_file()).unwrap();
    until("the new authority counts", async || shows(&next_roots).await).await;
    assert!(shows(&former_roots).await.is_none());
}

#[tokio::test]
async fn an_authority_of_no_use_keeps_a_proxy_from_starting() {
    let (own, other) = (Authority::new("own"), Authority::new("other"));
    let upstream = RawUpstream::start([]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let client = rampmeter_worker_sdk::Client::connect(proxy.nats.url()).await.unwrap();
    let starts = async |cert_file: PathBuf, key_file: PathBuf| {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let intercept = Some(Interception {
            authority: AuthorityFiles { cert_file, key_file },
            hosts: vec!["b.example".parse().unwrap()],
        });
        let settings = Settings { intercept, ..settings(&upstream.url()) };
        Proxy::start(listener, client.resource("api").unwrap(), settings).map(drop).map_err(|error| error.to_string())
    };
    starts(own.ca_file(), own.key_file()).await.unwrap();
    let leaf = own.issue("leaf", &[HOST]);
    let absent = own.ca_file().with_file_name("absent.pem");
    let ended = Authority::with("ended", |params| params.not_after = date_time_ymd(2020, 1, 1));
    let permitted_subtrees = vec![GeneralSubtree::DnsName(HOST.to_owned())];
    let of_host = NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() };
    let constrained = Authority::with("constrained", |params| params.name_constraints = Some(of_host));
    #[rustfmt::skip]
    let table = [
        (own.ca_file(),         other.key_file(),       "is refused"),
        (leaf.cert,             leaf.key,               "is not one of an authority"),
        (ended.ca_file(),       ended.key_file(),         "is not valid now"),
        (constrained.ca_file(), constrained.key_file(), "is refused"),
        (own.ca_file(),         own.ca_file(),          "no private key in PEM that can be used"),
        (own.key_file(),        own.key_file(),         "it has no certificate in PEM"),
        (absent.clone(),        own.key_file(),         "absent.pem"),
        (own.ca_file(),         absent,                 "absent.pem"),
    ];
    for (cert, key, why) in table {
        let error = starts(cert, key).await.unwrap_err();
        assert!(error.contains(why) && !error.contains("PRIVATE"), "{why}: {error}");
    }
}
