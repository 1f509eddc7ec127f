//! `rampmeter jobs`: a queue as operators see it.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use crate::RAMPMETER;
use rampmeter_jobs::{Job, Queue};
use rampmeter_nats_server::Server;
use rampmeter_tests::{nats, process};
use serde_json::{Value, json};

/// The output of the command if it succeeds, and its complaint otherwise.
async fn jobs(nats: &Server, arguments: &[&str]) -> Result<String, String> {
    let arguments = [&["jobs"], arguments, &["--nats", nats.url()]].concat();
    let output = process::run(RAMPMETER, &arguments).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[tokio::test]
async fn a_queue_is_shown_and_jobs_are_taken_away() {
    let nats = nats::start().await;
    let complaint = jobs(&nats, &["status", "roles"]).await.unwrap_err();
    assert!(complaint.contains("there is no queue `roles`"), "{complaint}");

    let queue = Queue::builder().create(nats.url(), "roles").await.unwrap();
    assert_eq!(jobs(&nats, &["status", "roles"]).await.unwrap().trim(), "no jobs");
    for group in ["guild-1", "guild-2", "guild-1"] {
        queue.publish(Job::new(group, "a role")).await.unwrap();
    }
    let delayed = async || -> Vec<(Value, Value)> {
        let groups = jobs(&nats, &["status", "roles", "--json"]).await.unwrap();
        let groups: Vec<Value> = serde_json::from_str(&groups).unwrap();
        groups.into_iter().map(|group| (group["group"].clone(), group["delayed"].clone())).collect()
    };
    assert_eq!(delayed().await, [(json!("guild-1"), json!(2)), (json!("guild-2"), json!(1))]);
    let table = jobs(&nats, &["status", "roles"]).await.unwrap();
    assert!(table.lines().any(|line| line.split_whitespace().eq(["all", "3", "0", "0"])), "{table}");

    assert!(!table.contains("dropped"), "{table}");
    for repeated in [false, true, true] {
        let published = queue.publish(Job::new("guild-2", "another role").id("grant-4711")).await.unwrap();
        assert_eq!(published.duplicate, repeated);
    }
    assert_eq!(queue.repeated().await.unwrap(), 2);
    let table = jobs(&nats, &["status", "roles"]).await.unwrap();
    assert!(table.ends_with("\n2 jobs were dropped: their ids had been published before\n"), "{table}");
    assert_eq!(jobs(&nats, &["delete", "roles", "4"]).await.unwrap().trim(), "job 4 is deleted");

    assert_eq!(jobs(&nats, &["delete", "roles", "3"]).await.unwrap().trim(), "job 3 is deleted");
    let complaint = jobs(&nats, &["delete", "roles", "3"]).await.unwrap_err();
    assert!(complaint.contains("there is no job 3 in `roles`"), "{complaint}");
    assert_eq!(delayed().await, [(json!("guild-1"), json!(1)), (json!("guild-2"), json!(1))]);
    assert_eq!(jobs(&nats, &["dead", "roles"]).await.unwrap().trim(), "no dead letters");
}
