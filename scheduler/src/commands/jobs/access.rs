//! Access to queues of jobs on the NATS servers of an argument.

use crate::commands::nats_arg::NatsArg;
use rampmeter_jobs::{Queue, QueueBuilder};
use rampmeter_protocol::name::Name;
use rampmeter_serve::connection::login;

pub(super) async fn open(nats: &NatsArg, name: &Name) -> anyhow::Result<Queue> {
    let (builder, url) = builder(nats).await?;
    Ok(builder.open(url, name).await?)
}

/// Returns the builder for a queue on these servers, and their URL.
pub(super) async fn builder(nats: &NatsArg) -> anyhow::Result<(QueueBuilder, String)> {
    let (table, _) = nats.table()?;
    let servers = table.servers()?;
    let options = login(&table, &servers)?.name("rampmeter-jobs");
    Ok((Queue::builder().options(options).prefix(&*table.prefix), servers.to_string()))
}
