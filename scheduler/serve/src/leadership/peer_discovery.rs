//! Finding the other schedulers, by NATS' own discovery (ADR-32).

use crate::limits::differences::{Differences, Fingerprints};
use crate::peers::Peers;
use crate::stop::stopped;
use async_nats::Client;
use futures::StreamExt;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The subject that every scheduler answers at.
const PING: &str = "$SRV.PING.rampmeter";
/// How often the other schedulers are called.
const EVERY: Duration = Duration::from_secs(1);

/// What a scheduler says of itself.
#[derive(Debug, Deserialize)]
struct ServiceInfo {
    version: String,
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    prefix: String,
    leader: String,
    resources: String,
    /// JSON; earlier builds say nothing.
    #[serde(default)]
    fingerprints: String,
}

/// What this scheduler knows of other schedulers.
#[derive(Clone, Debug)]
pub struct KnownPeers {
    /// Which schedulers live, and what they lead.
    pub peers: Arc<Peers>,
    /// Which schedulers count differently.
    pub differences: Arc<Differences>,
}

/// Calls the schedulers that serve `prefix` again and again, and notes those that answer, until
/// `stop`.
pub async fn keep_calling(
    client: Client,
    prefix: Name,
    neighbours: KnownPeers,
    clock: Clock,
    mut stop: watch::Receiver<bool>,
) {
    let inbox = client.new_inbox();
    let Ok(mut answers) = client.subscribe(inbox.clone()).await else { return };
    let mut calls = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            _ = calls.tick() => {
                if let Err(error) = client.publish_with_reply(PING, inbox.clone(), "".into()).await {
                    tracing::debug!(%error, "the other schedulers could not be called");
                }
                neighbours.differences.compare(clock.now());
            }
            answer = answers.next() => match answer {
                Some(answer) => note(&neighbours, &prefix, clock, &answer.payload),
                None => return,
            },
            () = stopped(&mut stop) => return,
        }
    }
}

fn note(neighbours: &KnownPeers, prefix: &Name, clock: Clock, payload: &[u8]) {
    let Ok(ServiceInfo { version, metadata }) = serde_json::from_slice(payload) else { return };
    if *metadata.prefix == **prefix {
        let resources = metadata.resources.split(',').filter_map(|name| Name::new(name).ok());
        neighbours.peers.note(clock.now(), &metadata.leader, resources);
        let fingerprints = serde_json::from_str::<Fingerprints>(&metadata.fingerprints);
        if let Ok(fingerprints) = fingerprints
            && version == env!("CARGO_PKG_VERSION")
        {
            neighbours.differences.note(clock.now(), &metadata.leader, fingerprints);
        }
    }
}
