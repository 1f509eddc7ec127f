//! Finds the other schedulers by NATS' own discovery (ADR-32).

use crate::context::ProcessContext;
use crate::limits::differences::Fingerprints;
use crate::stop::{Stop, stopped};
use futures::StreamExt;
use rampmeter_protocol::name::Name;
use serde::Deserialize;
use std::time::Duration;

/// The subject on which every scheduler answers pings.
pub const PING: &str = "$SRV.PING.rampmeter";
/// How often the other schedulers are pinged.
const EVERY: Duration = Duration::from_secs(1);

/// A scheduler's answer to a ping.
#[derive(Debug, Deserialize)]
pub struct ServiceInfo {
    version: String,
    /// The scheduler's duties and state.
    pub metadata: Metadata,
}

/// A scheduler's announced duties and state.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// The prefix of its subjects.
    pub prefix: String,
    /// The name of the scheduler process.
    pub leader: String,
    resources: String,
    /// JSON; empty from earlier builds.
    #[serde(default)]
    fingerprints: String,
    /// Why it can't serve resources, as JSON; empty from earlier builds.
    #[serde(default)]
    pub troubles: String,
}

/// Pings the schedulers of the same prefix, and notes those that answer, until `stop`.
pub async fn keep_calling(context: ProcessContext, mut stop: Stop) {
    let ProcessContext { client, differences, clock, .. } = &context;
    let inbox = client.new_inbox();
    let Ok(mut answers) = client.subscribe(inbox.clone()).await else { return };
    let mut calls = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            _ = calls.tick() => {
                if let Err(error) = client.publish_with_reply(PING, inbox.clone(), "".into()).await {
                    tracing::debug!(%error, "the other schedulers could not be called");
                }
                differences.compare(clock.now());
            }
            answer = answers.next() => match answer {
                Some(answer) => note(&context, &answer.payload),
                None => return,
            },
            () = stopped(&mut stop) => return,
        }
    }
}

fn note(context: &ProcessContext, payload: &[u8]) {
    let ProcessContext { subjects, peers, differences, clock, .. } = context;
    let Ok(ServiceInfo { version, metadata }) = serde_json::from_slice(payload) else { return };
    if *metadata.prefix == **subjects.prefix() {
        let resources = metadata.resources.split(',').filter_map(|name| Name::new(name).ok());
        peers.note(clock.now(), &metadata.leader, resources);
        let fingerprints = serde_json::from_str::<Fingerprints>(&metadata.fingerprints);
        if let Ok(fingerprints) = fingerprints
            && version == env!("CARGO_PKG_VERSION")
        {
            differences.note(clock.now(), &metadata.leader, fingerprints);
        }
    }
}
