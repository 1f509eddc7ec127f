//! `rampmeter serve --embedded-nats`: the private server ends with its scheduler, whatever happens.
//! What keeps the server from starting is told in one line.

use crate::prelude::*;
use async_nats::ConnectErrorKind;
use rampmeter_tests::scheduler::configuration;

const HUB: &str = "[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 4\nperiod = \"1s\"\n";

/// A free port for the private server, which has to use the port in the configuration.
fn free_url() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("nats://{}", listener.local_addr().unwrap())
}

async fn start(url: &str, data: &Path) -> Process {
    let arguments = ["--embedded-nats", "--data", data.to_str().unwrap()];
    Process::start_with(RAMPMETER, &configuration(url, HUB), &arguments).await
}

/// What keeps a scheduler from starting, with these further arguments.
async fn error(url: &str, data: &Path, arguments: &[&str]) -> String {
    let config = file_with(configuration(url, HUB));
    let config = config.path().to_str().unwrap();
    let serve = ["serve", "--embedded-nats", "--config", config, "--data", data.to_str().unwrap()];
    process::printed(RAMPMETER, &[&serve, arguments].concat()).await.unwrap_err()
}

async fn epoch(url: &str) -> Epoch {
    let status = process::printed(RAMPMETER, &["status", "--nats", url, "--json"]).await.unwrap();
    serde_json::from_str::<Vec<Status>>(&status).unwrap()[0].epoch
}

#[tokio::test]
async fn the_server_ends_with_a_scheduler_that_is_killed_and_the_next_one_goes_on() {
    let (url, data) = (free_url(), TempDir::new().unwrap());
    let mut killed = start(&url, data.path()).await;
    let before = epoch(&url).await;
    killed.kill().await;
    // The next scheduler starts at once: the server may still be ending.
    let next = start(&url, data.path()).await;
    assert!(epoch(&url).await > before, "what is stored was read");

    let mut killed = next;
    killed.kill().await;
    until("the server is gone", async || async_nats::connect(&url).await.is_err().then_some(())).await;
}

#[tokio::test]
async fn a_clean_stop_is_trusted_by_the_next_start() {
    let (url, data) = (free_url(), TempDir::new().unwrap());
    let first = start(&url, data.path()).await;
    let before = Worker::at(&url, "hub").await.status().await;
    assert_eq!(before.epoch, Epoch::FIRST);
    first.stop().await;
    let mut second = start(&url, data.path()).await;
    let status = Worker::at(&url, "hub").await.status().await;
    let expected = (Epoch::new(2), before.limits[0].level);
    assert_eq!((status.epoch, status.limits[0].level), expected, "counted on, and nothing is doubted");
    second.kill().await;
    let third = start(&url, data.path()).await;
    let status = Worker::at(&url, "hub").await.status().await;
    assert!(status.epoch > Epoch::new(3) && third.log().contains("may hold an older copy"), "{}", third.log());
    let said = process::printed(RAMPMETER, &["status", "--nats", &url]).await.unwrap();
    assert!(said.contains(&format!("epoch {} (a time, as the count was lost)", status.epoch)), "{said}");
}

#[tokio::test]
async fn the_server_requires_the_login_of_the_url_and_shows_it_nowhere() {
    let table = [("me:canary%22%20%7D", "me:guess"), ("me:canary", "canary"), ("canary-token", "guess")];
    for (login, wrong) in table {
        let (plain, data) = (free_url(), TempDir::new().unwrap());
        let with = |login: &str| plain.replace("nats://", &format!("nats://{login}@"));
        let process = start(&with(login), data.path()).await;
        assert_eq!(epoch(&with(login)).await, Epoch::FIRST);
        let message = process::printed(RAMPMETER, &["status", "--nats", &with(wrong)]).await.unwrap_err();
        assert!(message.contains("does not take this user and password"), "{message}");
        let stranger = async_nats::connect(&plain).await.unwrap_err();
        assert_eq!(stranger.kind(), ConnectErrorKind::AuthorizationViolation);
        assert!(!process.log().contains("canary"), "{}", process.log());
        let child = children(process.id());
        assert!(child.contains("nats-server") && !child.contains("canary"), "{child}");
        process.stop().await;
    }
}

/// The command lines of this process's children.
fn children(process: u32) -> String {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).unwrap();
    children
        .split_whitespace()
        .map(|child| std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap())
        .collect()
}

#[tokio::test]
async fn a_folder_that_a_server_uses_is_left_to_it() {
    let (url, data) = (free_url(), TempDir::new().unwrap());
    let first = start(&url, data.path()).await;
    let before = epoch(&url).await;
    let message = error(&free_url(), data.path(), &[]).await;
    let folder = data.path().display();
    let begin = format!("rampmeter: the folder {folder} is in use by a nats-server that runs (process ");
    let end = "); stop the scheduler that it belongs to, or give this one another folder with --data\n";
    assert!(message.starts_with(&begin) && message.ends_with(end), "{message}");
    assert_eq!(epoch(&url).await, before, "the first one leads on");
    first.stop().await;
}

#[tokio::test]
async fn a_taken_port_is_told_in_one_line_and_the_log_of_nats_if_asked_for() {
    let (other, data) = (nats::start().await, TempDir::new().unwrap());
    let message = error(other.url(), data.path(), &[]).await;
    let expected = format!(
        "rampmeter: port {} on 127.0.0.1 is taken by another program; if that is a NATS server, leave out \
         --embedded-nats, otherwise change the port in `nats.url`\n",
        other.port()
    );
    assert_eq!(message, expected);
    let verbose = error(other.url(), data.path(), &["--verbose"]).await;
    assert!(verbose.starts_with(expected.trim_end()), "{verbose}");
    assert!(verbose.contains("The log of NATS ends with:\n") && verbose.contains("[FTL]"), "{verbose}");
}
