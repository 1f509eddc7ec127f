//! Commands whose reader goes away, as `head` does: that is an end and no failure.

use crate::prelude::*;
use std::io::pipe;

const HUB: &str = "[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 4\nperiod = \"1h\"\n";

/// Runs a command whose standard output was closed before: exit code, standard error.
async fn unread(arguments: &[&str]) -> (Option<i32>, String) {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut command = Command::new(RAMPMETER);
    command.args(arguments).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().unwrap();
    let output = within("a command ends", child.wait_with_output()).await.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A scheduler that starts on a busy machine may log that its store is slow.
async fn check(arguments: &[&str]) {
    let (code, complaint) = unread(arguments).await;
    let complaints: Vec<&str> = complaint.lines().filter(|line| !line.starts_with("{\"timestamp\"")).collect();
    assert_eq!((code, complaints), (Some(0), vec![]), "{arguments:?}");
}

#[tokio::test]
async fn commands_without_a_server_end_quietly() {
    let hub = file_with(HUB);
    let scenario = repository::root().join("simulator/scenarios/a-job.toml");
    let (hub, scenario) = (hub.path().to_str().unwrap(), scenario.to_str().unwrap());
    for arguments in [
        vec!["check", "--config", hub],
        vec!["simulate", scenario, "--strategy", "late-binding"],
        vec!["pu", "--width", "512", "--height", "512", "--bands", "3", "--json"],
        vec!["upstream", "--listen", "127.0.0.1:0"],
        vec!["demo", "--seconds", "2", "--workers", "20", "--json"],
        vec!["--help"],
    ] {
        check(&arguments).await;
    }
}

#[tokio::test]
async fn commands_at_a_server_end_quietly() {
    let (nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    let _waiting = worker.send("permit", r#"[{"cost": {"requests": 4}}, {"id": "w", "mode": "wait"}]"#).await;
    guilds::queue(nats.url()).await.publish(Job::new("guild", "a role")).await.unwrap();
    worker.status().await;
    for arguments in [
        vec!["status"],
        vec!["status", "--watch=0.2"],
        vec!["explain", "hub", "w"],
        vec!["usage", "hub", "--csv"],
        vec!["forecast", "--json"],
        vec!["state", "--json"],
        vec!["limits", "get"],
        vec!["jobs", "status", "roles"],
        vec!["purge", "hub"],
    ] {
        check(&[&arguments[..], &["--nats", nats.url()]].concat()).await;
    }
}

/// A command that changes something does so, whether it is read or not.
#[tokio::test]
async fn commands_take_effect_although_their_output_is_closed() {
    let (nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    let rules = file_with(HUB.replace("capacity = 4", "capacity = 7"));
    check(&["apply", "-f", rules.path().to_str().unwrap(), "--nats", nats.url()]).await;
    capacity_becomes(&worker, 7.0).await;
    check(&["limits", "reset", "hub", "--nats", nats.url()]).await;
    capacity_becomes(&worker, 4.0).await;
    check_state_init(&nats).await;
}

async fn capacity_becomes(worker: &Worker, capacity: f64) {
    until("the limits count", async || (worker.status().await.limits[0].capacity == capacity).then_some(())).await;
}

async fn check_state_init(nats: &Server) {
    let config = file_with(scheduler::configuration(nats.url(), HUB));
    check(&["state", "init", "--force", "--level", "full", "--config", config.path().to_str().unwrap()]).await;
}
