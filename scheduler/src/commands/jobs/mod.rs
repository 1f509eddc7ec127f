//! `rampmeter jobs`

mod access;
mod metrics;

use crate::commands::consent::Consent;
use crate::commands::nats_arg::NatsArg;
use crate::commands::output;
use crate::commands::output::human;
use crate::commands::output::table::table;
use access::{builder, open};
use rampmeter_account::duration;
use rampmeter_jobs::{DeadLetter, GroupStatus, Position};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

/// Bound on the shown characters of a payload.
const SHOWN: usize = 24;

/// What `jobs` takes.
#[derive(Debug, clap::Args)]
pub struct JobsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a queue: its streams and consumers, which workers may not make.
    Init(NewQueueArgs),
    /// Count delayed, running and dead jobs, by group.
    Status(QueueArgs),
    /// Tell how many jobs are before one of its group, and when it is likely to begin.
    Position(PositionArgs),
    /// Show dead jobs, which no worker tries any more, the oldest first.
    Dead(DeadArgs),
    /// Serve gauges of queues over HTTP, for Prometheus.
    Metrics(metrics::MetricsArgs),
    /// Delete a job or a dead letter, delayed or not; a running job goes on to its end.
    Delete(DeleteArgs),
}

#[derive(Debug, clap::Args)]
struct NewQueueArgs {
    /// The queue.
    queue: Name,
    /// A class of jobs; may be repeated. Jobs without a class need none.
    #[arg(long = "class", value_name = "CLASS")]
    classes: Vec<Name>,
    /// How many servers keep a copy.
    #[arg(long, value_name = "N", default_value_t = 1)]
    replicas: usize,
    /// The room for jobs and dead letters, in MiB. A full queue refuses jobs.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    max_mib: u32,
    /// How long after a worker's death another worker gets its jobs.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    lease: Span,
    /// How long the ids of jobs are remembered.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration::parse)]
    remember_ids: Span,
    #[command(flatten)]
    nats: NatsArg,
}

#[derive(Debug, clap::Args)]
struct QueueArgs {
    /// The queue.
    queue: Name,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

#[derive(Debug, clap::Args)]
struct DeadArgs {
    /// The most jobs to show.
    #[arg(long, value_name = "N", default_value_t = 20)]
    most: usize,
    #[command(flatten)]
    queue: QueueArgs,
}

#[derive(Debug, clap::Args)]
struct PositionArgs {
    #[command(flatten)]
    queue: QueueArgs,
    /// The job's sequence in the stream, from its publication.
    sequence: u64,
}

#[derive(Debug, clap::Args)]
struct DeleteArgs {
    /// The queue.
    queue: Name,
    /// The job's sequence in the stream, from its publication or from `rampmeter jobs dead`.
    sequence: u64,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    nats: NatsArg,
}

/// Creates a queue, shows it, or deletes a job from it.
///
/// # Errors
/// If there is no such queue, it is configured differently, or NATS does not answer.
pub async fn run(args: JobsArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Init(args) => init(args).await?,
        Action::Status(args) => {
            let queue = open(&args.nats, &args.queue).await?;
            let groups = queue.status().await?;
            let repeated = if args.json { 0 } else { queue.repeated().await? };
            output::show(args.json, &groups, |groups| render_groups(groups) + &dropped(repeated) + "\n")?;
        }
        Action::Dead(DeadArgs { most, queue: args }) => {
            let letters = open(&args.nats, &args.queue).await?.dead_letters(most).await?;
            output::show(args.json, &letters, |letters| render_letters(letters) + "\n")?;
        }
        Action::Position(PositionArgs { queue: QueueArgs { queue, json, nats }, sequence }) => {
            let position = open(&nats, &queue).await?.position(sequence).await?;
            let Some(position) = position else { anyhow::bail!("there is no job {sequence} in `{queue}`") };
            output::show(json, &position, |position| position_text(sequence, position) + "\n")?;
        }
        Action::Metrics(args) => metrics::run(args).await?,
        Action::Delete(args) => {
            let DeleteArgs { queue, sequence, consent, nats } = args;
            let opened = open(&nats, &queue).await?;
            if !consent.to(async { Ok(format!("delete job {sequence} of `{queue}`")) }).await? {
                return Ok(());
            }
            match opened.delete(sequence).await? {
                true => output::line(format_args!("job {sequence} is deleted"))?,
                false => anyhow::bail!("there is no job {sequence} in `{queue}`"),
            }
        }
    }
    Ok(())
}

async fn init(args: NewQueueArgs) -> anyhow::Result<()> {
    let NewQueueArgs { queue, classes, replicas, max_mib, lease, remember_ids, nats } = args;
    let (builder, url) = builder(&nats).await?;
    let builder = builder.replicas(replicas).max_bytes(u64::from(max_mib) << 20);
    let builder = builder.lease(lease.duration()).remember_ids(remember_ids.duration());
    let builder = classes.iter().fold(builder, |builder, class| builder.class(&**class));
    builder.create(url, &queue).await?;
    output::line(format_args!("the queue `{queue}` is ready"))?;
    Ok(())
}

fn render_groups(groups: &[GroupStatus]) -> String {
    if groups.is_empty() {
        return "no jobs".to_owned();
    }
    let row = |GroupStatus { group, class, delayed, running, dead, .. }: &GroupStatus| {
        let class = class.as_deref().unwrap_or("-").to_owned();
        [group.clone(), class, delayed.to_string(), running.to_string(), dead.to_string()]
    };
    let sum = |of: fn(&GroupStatus) -> usize| groups.iter().map(of).sum::<usize>().to_string();
    let all = ["all".to_owned(), String::new(), sum(|g| g.delayed), sum(|g| g.running), sum(|g| g.dead)];
    table(&["group", "class", "delayed", "running", "dead"], 2..5, groups.iter().map(row).chain([all]))
}

/// Returns a line on dropped jobs, which are in no group.
fn dropped(count: u64) -> String {
    match count {
        0 => String::new(),
        1 => "\n1 job was dropped: its id had been published before".to_owned(),
        many => format!("\n{many} jobs were dropped: their ids had been published before"),
    }
}

fn render_letters(letters: &[DeadLetter]) -> String {
    if letters.is_empty() {
        return "no dead letters".to_owned();
    }
    let rows = letters.iter().map(|letter| {
        let class = letter.class.as_deref().unwrap_or("-").to_owned();
        let payload: String = String::from_utf8_lossy(&letter.payload).chars().take(SHOWN).collect();
        let (sequence, attempts) = (letter.sequence.to_string(), letter.attempts.to_string());
        [sequence, letter.group.clone(), class, attempts, letter.reason.clone(), payload]
    });
    table(&["sequence", "group", "class", "attempts", "why", "job"], [], rows)
}

fn position_text(sequence: u64, position: &Position) -> String {
    let Position { group, ahead, running, starts_in, .. } = position;
    let place = match (running, ahead) {
        (true, _) => return format!("job {sequence} of `{group}` runs"),
        (false, 0) => "is the next".to_owned(),
        (false, 1) => "has 1 job before it".to_owned(),
        (false, ahead) => format!("has {ahead} jobs before it"),
    };
    let estimate = match starts_in {
        None => "no job of the group has ended yet, so that no estimate is possible".to_owned(),
        Some(time) => {
            let begins = human::in_duration(Span::from(*time).millis());
            format!("at the pace of the last jobs it begins {begins}")
        }
    };
    format!("job {sequence} of `{group}` {place}; {estimate}")
}
