//! `rampmeter check`

use super::output::{self, error_text};
use rampmeter_account::matching::{new_limits, unmatched};
use rampmeter_account::{KIND, ProviderSettings, SentinelHub};
use rampmeter_config::{self as config, Config, ConfigError, Configured, NatsTable, Note};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_serve::connection::state_keys;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What `check` takes.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// The configuration, in place of `--config`.
    #[arg(conflicts_with = "print_default")]
    file: Option<PathBuf>,
    /// The configuration.
    #[arg(long, value_name = "FILE", default_value = "rampmeter.toml", env = "RAMPMETER_CONFIG")]
    config: PathBuf,
    /// Ask the providers too, with the configured credentials, and print their limits.
    #[arg(long, conflicts_with = "print_default")]
    ask_provider: bool,
    /// Print a commented configuration to start from, and check nothing.
    #[arg(long)]
    print_default: bool,
    /// Print the faults, or the resources and notes, as JSON.
    #[arg(long, conflicts_with_all = ["print_default", "ask_provider"])]
    json: bool,
}

/// Checks the configuration, and prints its resources.
///
/// # Errors
/// The file, line, column and reason of each fault, or why a provider does not answer.
pub async fn run(args: &CheckArgs) -> anyhow::Result<()> {
    if args.print_default {
        return output::print(config::default_file());
    }
    let path = args.file.as_ref().unwrap_or(&args.config);
    let checked = valid(path);
    if args.json {
        output::json(&as_json(&checked))?;
        return checked.map(|_| ());
    }
    let config = checked?;
    for note in notes(&config) {
        output::line(format_args!("note: {note}"))?;
    }
    for configured in &config.resources {
        output::line(describe(configured))?;
    }
    if args.ask_provider {
        ask_providers(&config).await?;
    }
    output::line(format_args!("{}: valid", path.display()))
}

/// Reads the configuration and the files that it names. Fails if a scheduler could not start with it.
pub(super) fn valid(path: &Path) -> anyhow::Result<Config> {
    let config = config::load(path)?;
    config.nats.servers()?;
    rampmeter_front::check_settings(&config.http)?;
    state_keys(&config.nats)?;
    Ok(config)
}

fn notes(config: &Config) -> Vec<Note> {
    config.notes.iter().cloned().chain(of_users(&config.nats)).collect()
}

/// Notes what a NATS server with users leaves open. Inboxes of its own show that the scheduler is a user.
fn of_users(nats: &NatsTable) -> impl Iterator<Item = Note> + use<> {
    let has_users = nats.inbox_prefix != NatsTable::default().inbox_prefix;
    let unsigned =
        "the state is not signed (`nats.state_key_file`): whoever may write its KV bucket decides what is spent";
    let unlisted = "unless each kind of worker has an account of its own, as in deploy/nats, list the inboxes of all \
                    users (`nats.inboxes`): a worker can make up others";
    let notes = [(nats.state_key_file.is_none(), unsigned), (nats.inboxes.is_empty(), unlisted)];
    notes.into_iter().filter(move |(is_open, _)| has_users && *is_open).map(|(_, note)| note.to_owned())
}

fn as_json(checked: &anyhow::Result<Config>) -> Value {
    match checked {
        Ok(config) => {
            let resources: Vec<Value> = config.resources.iter().map(resource_json).collect();
            json!({"valid": true, "resources": resources, "notes": notes(config)})
        }
        Err(error) => {
            let faults = error.downcast_ref::<ConfigError>().map_or(&[][..], ConfigError::each);
            let faults: Vec<Value> = faults.iter().map(fault_json).collect();
            let other = json!([{"reason": error_text::with_causes(&**error)}]);
            json!({"valid": false, "faults": if faults.is_empty() { other } else { faults.into() }})
        }
    }
}

fn resource_json(Configured { spec, provider, .. }: &Configured) -> Value {
    let limits: Vec<&Name> = spec.limits.iter().map(|limit| &limit.name).collect();
    let classes: Vec<&Name> = spec.classes.iter().map(|class| &class.name).collect();
    json!({"name": spec.name, "limits": limits, "classes": classes, "provider": provider.as_ref().map(|_| KIND)})
}

fn fault_json(fault: &ConfigError) -> Value {
    match fault {
        ConfigError::Wrong { position, reason, .. } => {
            json!({"line": position.line, "column": position.column, "reason": reason})
        }
        ConfigError::Unreadable { .. } | ConfigError::Several(_) => json!({"reason": error_text::with_causes(fault)}),
    }
}

fn describe(configured: &Configured) -> String {
    let limits = match configured.spec.limits.len() {
        0 if configured.provider.is_none() => "no limits but those that are found".to_owned(),
        0 => "no limits but its provider's".to_owned(),
        1 => "1 limit".to_owned(),
        limits => format!("{limits} limits"),
    };
    let classes = match configured.spec.classes.len() {
        0 | 1 => "1 class".to_owned(),
        classes => format!("{classes} classes"),
    };
    let own = format!("resource `{}`: {limits}, {classes}", configured.name());
    match configured.provider.is_some() {
        true => format!("{own}, provider {KIND}"),
        false => own,
    }
}

/// Asks every provider, even after one that fails.
async fn ask_providers(config: &Config) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    for configured in &config.resources {
        let Some(settings) = &configured.provider else { continue };
        match limits_of(configured, settings).await {
            Ok(lines) => lines.iter().try_for_each(|line| output::line(format_args!("  {line}")))?,
            Err(error) => outcome = Err(error.context(format!("the provider of resource `{}`", configured.name()))),
        }
    }
    outcome
}

/// Returns the limits of a provider, and their differences from the configuration.
async fn limits_of(configured: &Configured, settings: &ProviderSettings) -> anyhow::Result<Vec<String>> {
    let contract = SentinelHub::open(settings, Clock::start())?.limits().await?;
    let mut lines: Vec<String> =
        contract.limits.iter().map(|limit| format!("`{}` may use {limit}", configured.name())).collect();
    if let Some(resource) = configured.resource() {
        let limits = resource.limits();
        lines.extend(new_limits(limits, &contract).iter().map(|new| format!("the contract says that {new}")));
        let missing = unmatched(limits, &contract).into_iter();
        lines.extend(missing.map(|limit| format!("no limit is configured for {limit}")));
    }
    lines.extend(contract.notes.iter().map(|note| format!("note: {note}")));
    Ok(lines)
}
