//! Connections to NATS that are encrypted. Both ends show certificates, and no end goes on with one
//! that it can't trust.

use crate::prelude::*;
use rampmeter_tests::certificates::{Authority, Issued, encrypted};
use rampmeter_worker_sdk::client::{ClientBuilder, ConnectOptions};

/// What a client says about encryption.
#[derive(Clone, Debug, Default)]
struct Wishes {
    required: bool,
    ca_file: Option<PathBuf>,
    own: Option<Issued>,
}

impl Wishes {
    fn trusting(authority: &Authority) -> Self {
        Wishes { ca_file: Some(authority.ca_file()), ..Wishes::default() }
    }

    fn showing(self, own: &Issued) -> Self {
        Wishes { own: Some(own.clone()), ..self }
    }

    fn configuration(&self, nats: &str) -> String {
        let file = |name: &str, path: &Path| format!("{name} = {path:?}");
        let required = self.required.then(|| "required = true".to_owned());
        let ca_file = self.ca_file.as_deref().map(|path| file("ca_file", path));
        let own = self.own.iter().flat_map(|own| [file("cert_file", &own.cert), file("key_file", &own.key)]);
        let tls: Vec<String> = required.into_iter().chain(ca_file).chain(own).collect();
        let tls = if tls.is_empty() { String::new() } else { format!("tls = {{ {} }}", tls.join(", ")) };
        scheduler::configuration(nats, HUNDRED).replace("[nats]", &format!("[nats]\n{tls}"))
    }

    fn client(&self) -> ClientBuilder {
        let client = Client::builder();
        let client = if self.required { client.require_tls() } else { client };
        let client = self.ca_file.iter().fold(client, ClientBuilder::ca_file);
        self.own.iter().fold(client, |client, own| client.client_certificate(&own.cert, &own.key))
    }

    fn arguments(&self) -> Vec<&str> {
        let ca_file = self.ca_file.iter().flat_map(|file| ["--ca-file", file.to_str().unwrap()]);
        let own = self
            .own
            .iter()
            .flat_map(|own| ["--cert-file", own.cert.to_str().unwrap(), "--key-file", own.key.to_str().unwrap()]);
        ca_file.chain(own).collect()
    }
}

async fn server(own: &Issued, clients: Option<&Authority>) -> Server {
    let clients = clients.map(Authority::ca_file);
    nats::start_with(encrypted(own, clients.as_deref(), Options::default())).await
}

/// The server's address without its scheme, so that only the client's wishes count.
fn plain_url(nats: &Server) -> String {
    format!("nats://127.0.0.1:{}", nats.port())
}

#[tokio::test]
async fn schedulers_workers_and_commands_show_certificates_and_get_what_they_want() {
    let authority = Authority::new("ours");
    let nats = server(&authority.issue("server", &["127.0.0.1"]), Some(&authority)).await;
    let wishes = Wishes::trusting(&authority).showing(&authority.issue("client", &["client"]));
    let scheduler = scheduler::start_by(&wishes.configuration(&plain_url(&nats))).await;

    let client = wishes.client().connect(plain_url(&nats)).await.unwrap();
    let permit = within("a permit", client.resource("hub").unwrap().acquire(1).into_future()).await.unwrap();
    permit.begin().settle(Outcome::status(200));
    client.close().await;

    let url = plain_url(&nats);
    let arguments = [&["status", "--nats", &url][..], &wishes.arguments()[..]].concat();
    process::printed(RAMPMETER, &arguments).await.unwrap();
    scheduler::stop(scheduler).await;
}

/// Fails unless schedulers, workers and commands with these wishes are all refused for this reason.
async fn check_refused(url: &str, wishes: &Wishes, reason: &str) {
    let scheduler = scheduler::refused(&wishes.configuration(url)).await;
    let client = wishes.client().connect(url).await.expect_err("refused");
    assert_eq!(client.kind(), ErrorKind::Connect);
    let arguments = [&["status", "--nats", url][..], &wishes.arguments()[..]].concat();
    let command = process::printed(RAMPMETER, &arguments).await.unwrap_err();
    for message in [scheduler, client.to_string(), command] {
        assert!(message.contains(reason), "{message:?} does not say {reason:?}");
    }
}

#[tokio::test]
async fn a_server_whose_certificate_is_wrong_is_refused_with_the_reason() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    #[rustfmt::skip]
    let table = [
        (theirs.issue("server", &["127.0.0.1"]),            "its certificate is of no authority that is trusted here"),
        (ours.issue_expired("expired", &["127.0.0.1"]),     "its certificate has expired"),
        (ours.issue("elsewhere", &["nats.example.com"]),    "its certificate is for other names or addresses"),
    ];
    for (own, reason) in table {
        let nats = server(&own, None).await;
        check_refused(&plain_url(&nats), &Wishes::trusting(&ours), reason).await;
    }
}

#[tokio::test]
async fn a_server_that_verifies_clients_refuses_others() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let nats = server(&ours.issue("server", &["127.0.0.1"]), Some(&ours)).await;
    let trusting = Wishes::trusting(&ours);
    #[rustfmt::skip]
    let table = [
        (trusting.clone(),                                                      "it wants a certificate of this client"),
        (trusting.clone().showing(&theirs.issue("client", &["client"])),        "it refuses this client or its certificate"),
        (trusting.clone().showing(&ours.issue_expired("client", &["client"])),  "it refuses this client or its certificate"),
    ];
    for (wishes, reason) in table {
        check_refused(&plain_url(&nats), &wishes, reason).await;
    }
}

/// Every machine on the way could read the password.
#[tokio::test]
async fn a_plain_server_is_refused_if_encryption_is_required() {
    let nats = nats::start().await;
    let ours = Authority::new("ours");
    check_refused(&plain_url(&nats), &Wishes::trusting(&ours), "it does not speak TLS").await;
    let encrypted = plain_url(&nats).replace("nats://", "tls://");
    check_refused(&encrypted, &Wishes::default(), "it does not speak TLS").await;
    // A URL that requires TLS requires it of the other servers, too.
    let both = format!("{},{encrypted}", plain_url(&nats));
    check_refused(&both, &Wishes::default(), "it does not speak TLS").await;

    let required = Wishes { required: true, ..Wishes::default() };
    let text = required.configuration(&plain_url(&nats));
    let error = scheduler::refused(&text).await;
    assert!(error.contains("it does not speak TLS"), "{error}");
    required.client().connect(plain_url(&nats)).await.expect_err("refused");

    let options = ConnectOptions::new().require_tls(true);
    let queue = Queue::builder().options(options).open(plain_url(&nats), "roles").await.expect_err("refused");
    assert_eq!(queue.kind(), QueueErrorKind::Connect);
    assert!(queue.to_string().contains("it does not speak TLS"), "{queue}");
}

#[tokio::test]
async fn files_that_are_of_no_use_are_named_and_not_shown() {
    let ours = Authority::new("ours");
    let own = ours.issue("client", &["client"]);
    let other = ours.issue("other", &["other"]);
    let folder = tempfile::tempdir().unwrap();
    let (text, nowhere) = (folder.path().join("canary-free.txt"), folder.path().join("nowhere.pem"));
    std::fs::write(&text, "canary").unwrap();
    let showing = |cert: &Path, key: &Path| {
        Wishes::trusting(&ours).showing(&Issued { cert: cert.to_owned(), key: key.to_owned() })
    };
    let trusting = |ca_file: &Path| Wishes { ca_file: Some(ca_file.to_owned()), ..Wishes::default() };
    #[rustfmt::skip]
    let table = [
        (trusting(&nowhere),                    "nowhere.pem can't be read: No such file"),
        (trusting(&text),                       "canary-free.txt has not a certificate in PEM"),
        (showing(&text, &own.key),              "canary-free.txt has not a certificate in PEM"),
        (showing(&own.cert, &own.cert),         "client-cert.pem has not a private key in PEM"),
        (showing(&own.cert, &nowhere),          "nowhere.pem can't be read: No such file"),
        (showing(&own.cert, &other.key),        "other-key.pem is not that of the certificate in"),
    ];
    let nats = server(&ours.issue("server", &["127.0.0.1"]), Some(&ours)).await;
    for (wishes, reason) in table {
        let scheduler = scheduler::refused(&wishes.configuration(&plain_url(&nats))).await;
        let client = wishes.client().connect(plain_url(&nats)).await.expect_err("refused");
        for message in [scheduler, client.to_string()] {
            assert!(message.contains(reason), "{message:?} does not say {reason:?}");
            assert!(!message.replace("canary-free", "").contains("canary"), "{message}");
        }
    }
}
