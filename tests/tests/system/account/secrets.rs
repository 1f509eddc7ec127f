//! Canaries: secrets that have to arrive at their destinations, and must appear nowhere else.

use crate::prelude::*;
use rampmeter_nats_server::Binary;

const NATS_PASSWORD: &str = "canary-nats-password";
const VERBOSE: [(&str, &str); 4] =
    [portal::ENVIRONMENT[0], portal::ENVIRONMENT[1], ("RAMPMETER_LOG", "trace"), ("RUST_LOG", "trace")];

/// Fails if `text` shows a canary, plain or in the encoding of forms and headers.
fn assert_no_canary(place: &str, text: &str, tokens: &[String]) {
    let signatures = tokens.iter().flat_map(|token| token.rsplit('.').next());
    let escaped = "canary%2Bclient%26secret";
    let canaries = [portal::CLIENT_ID, portal::CLIENT_SECRET, escaped, NATS_PASSWORD];
    for canary in canaries.into_iter().chain(signatures) {
        let line = text.lines().find(|line| line.contains(canary));
        assert_eq!(line, None, "{place} shows {canary}");
    }
    assert_eq!(text.matches("canary").count(), 0, "{place} shows a part of one");
}

/// A server that requires a password, and its URL with the password.
async fn guarded_nats() -> (Server, String) {
    let binary = Binary::find().await.unwrap();
    let arguments = ["--user", "rampmeter", "--pass", NATS_PASSWORD].map(str::to_owned).into();
    let server = Server::start(&binary, Options { arguments, ..Options::default() }).await.unwrap();
    let url = server.url().replace("nats://", &format!("nats://rampmeter:{NATS_PASSWORD}@"));
    (server, url)
}

async fn page(process: &Process, path: &str) -> String {
    scheduler::get(&format!("{}{path}", process.http().unwrap())).await.1
}

/// The output of `rampmeter status` once both providers are in `state`.
async fn status_with(url: &str, state: ProviderState) -> String {
    until("all providers are so", async || {
        let (_, text) = process::told(RAMPMETER, &["status", "--nats", url, "--json"], &VERBOSE).await;
        let wanted = format!("\"state\": {}", serde_json::to_string(&state).unwrap());
        (text.matches(&wanted).count() == 2).then_some(text)
    })
    .await
}

#[tokio::test]
async fn secrets_are_seen_nowhere() {
    let (_nats, url) = guarded_nats().await;
    let upstream = portal::upstream(&["requests=1000/PT1M"]).await;
    let file = file_with(format!("{}\n", portal::CLIENT_SECRET));
    let from_file =
        portal::provider(&upstream, &format!("client_secret_file = {:?}, levels_every = \"1s\"", file.path()));
    let resources = format!(
        "{}[[resource]]\nname = \"file\"\nprovider = {from_file}\n",
        portal::resource("env", 1000, &upstream, "levels_every = \"1s\"")
    );
    let mut process = Process::begin_in(RAMPMETER, &scheduler::configuration(&url, &resources), &[], &VERBOSE);
    process.until_ready().await;

    let well = status_with(&url, ProviderState::Ok).await;
    assert_eq!(upstream.tokens().len(), 2, "both secrets have arrived");
    let echoes = upstream.tokens().join(" ") + portal::CLIENT_SECRET;
    for endpoint in [Endpoint::Token, Endpoint::Contract, Endpoint::TokenCounts] {
        upstream.revoke_tokens();
        upstream.set_fault(endpoint, Some(Fault::Body(format!("{{\"data\": \"{echoes}\", \"access_token\": 1"))));
    }
    let failing = status_with(&url, ProviderState::Failing).await;
    let pages = [page(&process, "/metrics").await, page(&process, "/readyz").await];
    let command_line = std::fs::read(format!("/proc/{}/cmdline", process.id())).unwrap();
    let log = process.log();

    assert!(log.contains("\"target\":\"hyper_util"), "it was asked to tell everything, and libraries do");
    let tokens = upstream.tokens();
    assert_no_canary("the log", &log, &tokens);
    assert_no_canary("status", &format!("{well}{failing}"), &tokens);
    assert_no_canary("a page", &pages.concat(), &tokens);
    assert_no_canary("the command line", &String::from_utf8_lossy(&command_line), &tokens);
    process.terminate();
    process.ended().await;
    assert_no_canary("the log of the end", &process.log(), &tokens);
}

/// The output of `rampmeter serve` and `rampmeter check --ask-provider` on a configuration that
/// fails.
async fn complaints(nats_url: &str, resources: &str) -> String {
    let file = file_with(scheduler::configuration(nats_url, resources));
    let config = file.path().to_str().unwrap();
    let mut said = String::new();
    for arguments in [&["serve", "--config", config][..], &["check", "--ask-provider", "--config", config]] {
        let (code, text) = process::told(RAMPMETER, arguments, &VERBOSE).await;
        assert_eq!(code, Some(1), "{arguments:?}\n{resources}");
        said += &text;
    }
    said
}

#[tokio::test]
async fn errors_show_no_secret() {
    let upstream = portal::upstream(&["requests=1000/PT1M"]).await;
    let gone = portal::upstream(&["requests=1000/PT1M"]).await;
    let env = |upstream: &Portal| portal::resource("hub", 1000, upstream, "");
    let good = env(&upstream);
    let dead = env(&gone);
    gone.stop().await;
    let two_lines = file_with("canary-first\ncanary-second\n");
    let in_file = |path: &str| {
        let file = format!("client_secret_file = \"{path}\"");
        good.replace("client_secret_env = \"HUB_CLIENT_SECRET\"", &file)
    };
    #[rustfmt::skip]
    let table = [
        ("a secret in the place of its name", good.replace("\"HUB_CLIENT_SECRET\"", &format!("\"{}\"", portal::CLIENT_SECRET))),
        ("an id in the place of its name",    good.replace("\"HUB_CLIENT_ID\"", &format!("\"{}\"", portal::CLIENT_ID))),
        ("a user in the URL",                 good.replace("http://", &format!("http://me:{NATS_PASSWORD}@"))),
        ("a file that is not there",          in_file("/nowhere/secret")),
        ("a secret of two lines",             in_file(two_lines.path().to_str().unwrap())),
        ("an upstream that is gone",          dead),
    ];
    let mut nats = nats::start().await;
    let url = nats.url().replace("nats://", &format!("nats://rampmeter:{NATS_PASSWORD}@"));
    nats.stop().await.unwrap();
    for (what, resources) in table {
        assert_no_canary(what, &complaints(&url, &resources).await, &[]);
    }
}
