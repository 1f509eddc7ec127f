//! Writes fresh state.

use crate::commands::consent::Consent;
use crate::commands::output;
use anyhow::{Context, bail};
use async_nats::{Client, RequestErrorKind};
use rampmeter_config::{self as config, Configured, Rules};
use rampmeter_policy::Resource;
use rampmeter_policy::spec::ResourceSpec;
use rampmeter_protocol::clock::{Clock, unix_ms};
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::suggestion::quoted;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_serve::connection::{connect, state_keys};
use rampmeter_serve::denials::Denials;
use rampmeter_serve::limits::present_rules::PresentRules;
use rampmeter_store::{
    ClockReading, KeysRecord, RuleStore, RulesRevision, StateRecord, Store, StoredEntry, StoredState,
};
use std::path::PathBuf;
use std::time::Duration;

/// The writer in the records.
const WRITER: &str = "rampmeter-state-init";
/// The longest wait for a leader's answer.
const ANSWER: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// The resource; all in the configuration, if none is named.
    resource: Option<Name>,
    /// The configuration with the limits.
    #[arg(long, value_name = "FILE", default_value = "rampmeter.toml", env = "RAMPMETER_CONFIG")]
    config: PathBuf,
    /// The level of every bucket: `empty` is always safe, `full` admits a whole burst.
    #[arg(long, value_enum)]
    level: Level,
    /// Write even if a scheduler leads the resource: it steps down and goes on from the new state.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    consent: Consent,
    /// The NATS server, in place of `nats.url`.
    #[arg(long, value_name = "URL", env = "RAMPMETER_NATS", hide_env_values = true)]
    nats: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Level {
    /// Empty buckets: calls wait for the refill.
    Empty,
    /// Full buckets: a whole burst can start at once.
    Full,
}

impl Level {
    fn text(self) -> &'static str {
        if self == Level::Full { "full" } else { "empty" }
    }
}

pub(super) async fn run(args: InitArgs) -> anyhow::Result<()> {
    let mut config = config::load(&args.config)?;
    if let Some(url) = &args.nats {
        config.nats.url.clone_from(url);
    }
    let client = connect(&Denials::default(), &config.nats, "rampmeter-state").await?;
    let rules = match RuleStore::existing(&client, &config.nats.prefix).await? {
        Some(store) => PresentRules::read(&store).await?.rules,
        None => Rules::default(),
    };
    let resources = chosen(&config.resources, args.resource.as_ref(), &rules)?;
    let subjects = Subjects::new(&config.nats.prefix)?;
    if !args.force {
        for resource in &resources {
            check_vacant(&client, &subjects, resource.name()).await?;
        }
    }
    let names: Vec<&str> = resources.iter().map(|resource| &**resource.name()).collect();
    let deed = format!("write fresh state, with {} levels, for {}", args.level.text(), quoted(names));
    if !args.consent.to(async { Ok(deed) }).await? {
        return Ok(());
    }
    let store = Store::open(&client, &config.nats.prefix, config.nats.replicas).await?;
    let store = store.with_keys(state_keys(&config.nats)?);
    for resource in resources {
        let (name, epoch) = (resource.name().clone(), write(&store, resource, args.level).await?);
        output::line_if_read(format_args!("{name} starts {} in epoch {}", args.level.text(), epoch.next()));
    }
    Ok(())
}

/// Returns the resources with the limits in force: the applied ones, or else those of the configuration.
fn chosen(all: &[Configured], name: Option<&Name>, rules: &Rules) -> anyhow::Result<Vec<Resource>> {
    let chosen = all.iter().filter(|configured| name.is_none_or(|name| configured.name() == name));
    let chosen = chosen.map(|configured| {
        let no_limits = || {
            format!(
                "the limits of `{}` come from its provider; write them into the configuration to set levels",
                configured.name()
            )
        };
        match rules.of(configured.name()) {
            Some(own) => Ok(Resource::new(&ResourceSpec { limits: own.limits.clone(), ..configured.spec.clone() })?),
            None => configured.resource().with_context(no_limits),
        }
    });
    let chosen = chosen.collect::<anyhow::Result<Vec<Resource>>>()?;
    match (chosen.is_empty(), name) {
        (true, Some(name)) => bail!("the configuration has no resource `{name}`"),
        (true, None) => bail!("the configuration has no resource"),
        (false, _) => Ok(chosen),
    }
}

/// Fails if a scheduler leads the resource, whose state only `--force` replaces.
async fn check_vacant(client: &Client, subjects: &Subjects, name: &Name) -> anyhow::Result<()> {
    let answer = client.request(subjects.status(name), "".into());
    match tokio::time::timeout(ANSWER, answer).await {
        Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Ok(()),
        Ok(Ok(_)) => bail!("a scheduler leads `{name}`; stop it first, or use --force"),
        Ok(Err(error)) => Err(error).with_context(|| format!("it is unknown whether a scheduler leads `{name}`")),
        Err(_) => bail!("a scheduler of `{name}` is there and does not answer; stop it first, or use --force"),
    }
}

/// Writes the record in an epoch of at least the wall clock, above any leader's, so that any leader steps down.
async fn write(store: &Store, resource: Resource, level: Level) -> anyhow::Result<Epoch> {
    let StoredEntry { revision, state } = store.read(resource.name()).await?;
    let known = if let StoredState::Record(record) = &state { record.epoch } else { Epoch::NONE };
    let epoch = Epoch::new(unix_ms()).max(known.next());
    let name = resource.name().clone();
    let now = Clock::start().now();
    let mut scheduler = match level {
        Level::Full => Scheduler::<()>::full(resource, epoch, now),
        Level::Empty => Scheduler::<()>::cautious(resource, epoch, now),
    };
    let state = scheduler.snapshot(now, 0);
    let record = StateRecord {
        epoch,
        leader: WRITER.to_owned(),
        nonce: rand::random(),
        checkpoint: 0,
        released: true,
        successor: None,
        standbys: Vec::new(),
        saved: ClockReading::now(),
        permit_parts: 0,
        levels: state.levels,
        keys: KeysRecord::of(&state.keys),
        freezes: Vec::new(),
        unsettled: Vec::new(),
        discovered: Vec::new(),
        rules_revision: RulesRevision::NONE,
        server: store.server(),
    };
    store.write(&name, &record, revision).await.with_context(|| format!("`{name}`"))?;
    Ok(epoch)
}
