//! `rampmeter purge`

use super::consent::Consent;
use super::nats_arg::NatsArg;
use super::output;
use super::schedulers::Schedulers;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::purge::{Purge, Purged};
use rampmeter_protocol::subject::Subjects;

/// What `purge` takes.
#[derive(Debug, clap::Args)]
pub struct PurgeArgs {
    /// The resource.
    resource: Name,
    /// Only the requests of this client, as the resource's `fair_share` names it.
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Only the requests of this class.
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Print the scheduler's answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    nats: NatsArg,
}

/// Ends the waits of requests, and prints how many.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn run(args: PurgeArgs) -> anyhow::Result<()> {
    let schedulers = Schedulers::connect(&args.nats, "rampmeter-purge").await?;
    let order = Purge { client: args.client, class: args.class };
    if !args.consent.to(deed(&schedulers, &args.resource, &order)).await? {
        return Ok(());
    }
    let purged: Purged = schedulers.ask(Subjects::purge, &order, &args.resource).await?;
    output::show(args.json, &purged, |purged| format!("{}: {} ended\n", purged.resource, waits(purged.ended)))
}

/// Describes the order's effect on the requests that wait now.
async fn deed(schedulers: &Schedulers, resource: &Name, order: &Purge) -> anyhow::Result<String> {
    let status = schedulers.status(resource).await?;
    let is_meant = |name: &Name| order.class.as_ref().is_none_or(|class| **class == **name);
    let waiting = status.classes.iter().filter(|class| is_meant(&class.name)).map(|class| class.queued).sum();
    let of_client = order.client.as_ref().map(|client| format!("the waits of client `{client}` among "));
    Ok(format!("end {}{} of `{resource}`", of_client.unwrap_or_default(), waits(waiting)))
}

fn waits(count: u64) -> String {
    if count == 1 { "1 wait".to_owned() } else { format!("{count} waits") }
}
