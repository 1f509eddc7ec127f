//! A scheduler that finds no store, or may not write to it. It reports at once that there can be no store, and
//! waits for a store that may come.

use crate::prelude::*;

const HUB: &str = "[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 100\nperiod = \"1s\"\n";

/// An account without `JetStream`, on a server that has it.
const WITHOUT: &str = r#"
accounts { plain { users: [{ user: "somebody", password: "known" }] } }
no_auth_user: "somebody"
"#;

fn configuration(nats_urls: &str, replicas: usize) -> String {
    scheduler::configuration(nats_urls, HUB).replace("[http]", &format!("replicas = {replicas}\n[http]"))
}

#[tokio::test]
async fn an_account_without_jetstream() {
    let (_folder, nats) = nats::configured(WITHOUT).await;
    let expected = "`JetStream` is off at the NATS server; start nats-server with `-js`, or enable it for this account";
    assert_eq!(scheduler::refused(&configuration(nats.url(), 1)).await, expected);
}

#[tokio::test]
async fn more_replicas_than_servers() {
    let nats = nats::start().await;
    let expected = "a NATS server alone keeps no 3 replicas; set `nats.replicas = 1`, or run a cluster of nats-servers";
    assert_eq!(scheduler::refused(&configuration(nats.url(), 3)).await, expected);
}

/// Its only user may not write the state of `hub`.
const DENIES: &str = r#"
authorization { users: [{ user: all, password: all, permissions: { publish: { deny: "$KV.rampmeter.state.hub" } } }] }
no_auth_user: all
"#;

#[tokio::test]
async fn a_write_that_is_denied_says_which_permission_is_missing() {
    let (_folder, nats) = nats::configured(DENIES).await;
    let running = scheduler::begin(&nats, HUB).await;
    let reason = scheduler::trouble(&running, "hub").await;
    let expected = r#"Permissions Violation for Publish to "$KV.rampmeter.state.hub""#;
    assert!(reason.contains(expected), "{reason}");
}

async fn until_it_waits(process: &Process) {
    until("it waits", async || process.log().contains("waiting for JetStream").then_some(())).await;
}

/// One of three nodes is up, and stores nothing without another. A scheduler that waits for the
/// others still stops on request.
#[tokio::test]
async fn a_scheduler_that_waits_for_its_cluster_can_be_stopped() {
    let mut cluster = Cluster::start().await;
    for number in 1..NODES {
        cluster.node(number).kill().await.unwrap();
    }
    let configuration = configuration(&cluster.urls().join(","), NODES);
    let [stopped, mut patient] = [(); 2].map(|()| Process::begin(RAMPMETER, &configuration, &[]));
    until_it_waits(&stopped).await;
    stopped.stop().await;
    until_it_waits(&patient).await;
    for number in 1..NODES {
        cluster.node(number).restart().await.unwrap();
    }
    patient.until_ready().await;
    patient.stop().await;
}
