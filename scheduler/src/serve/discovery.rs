//! Being found: `$SRV.PING`, `$SRV.INFO`, `$SRV.STATS` (NATS ADR-32), and `rampmeter.resources`.

use anyhow::Context;
use async_nats::Client;
use async_nats::service::{Service, ServiceExt};
use futures::StreamExt;
use rampmeter_protocol::resources::Resources;
use rampmeter_protocol::subject::Subjects;
use rampmeter_scheduler_core::report::describe;
use rampmeter_scheduler_core::resource::Resource;
use std::collections::HashMap;

/// Announces this scheduler and answers who asks what there is, as long as the service is kept.
///
/// # Errors
/// If the connection is closed.
pub async fn announce(client: &Client, subjects: &Subjects, leader: &str, all: &[Resource]) -> anyhow::Result<Service> {
    let names: Vec<&str> = all.iter().map(|resource| &**resource.name()).collect();
    let metadata = HashMap::from([("leader".to_owned(), leader.to_owned()), ("resources".to_owned(), names.join(","))]);
    let service = client
        .service_builder()
        .description("permits for rate-limited APIs")
        .metadata(metadata)
        // A group of its own: every scheduler answers, as each knows only its own resources.
        .queue_group(leader)
        .start("rampmeter", env!("CARGO_PKG_VERSION"))
        .await
        .map_err(anyhow::Error::msg)
        .context("the service could not be announced")?;
    let mut requests = service.endpoint(subjects.resources()).await.map_err(anyhow::Error::msg)?;
    let resources = Resources { resources: all.iter().map(describe).collect() };
    let answer = serde_json::to_vec(&resources)?;
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            if let Err(error) = request.respond(Ok(answer.clone().into())).await {
                tracing::debug!(%error, "an answer could not be sent");
            }
        }
    });
    Ok(service)
}
