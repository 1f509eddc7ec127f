//! Reads a scenario, the description of a world to simulate.

use super::fleet::{FleetTable, at};
use rampmeter_config::LimitedResource;
use rampmeter_config::reading::faults::read_prepared;
use rampmeter_config::reading::source::{ConfigError, Source};
use rampmeter_config::reading::value::{Duration, parsed};
use rampmeter_dialects::{Dialect as Readable, Reader};
use rampmeter_policy::spec::ResourceSpec;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_simulator::network::{Delay, Network};
use rampmeter_simulator::upstream::Behaviour;
use rampmeter_simulator::world::World;
use rampmeter_simulator::world_error::WorldError;
use rampmeter_upstream::{Dialect, Policy, Preset};
use serde::Deserialize;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioTable {
    #[serde(default = "one")]
    seed: u64,
    /// The end of the world, required if a fleet makes calls without end.
    until: Option<Duration>,
    resource: LimitedResource,
    #[serde(default)]
    network: NetworkTable,
    #[serde(default)]
    upstream: UpstreamTable,
    fleet: Vec<FleetTable>,
}

/// The bounds of the delay of each kind of message in milliseconds, and the share of messages with each fault.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NetworkTable {
    request_ms: Option<Spanned<[f64; 2]>>,
    grant_ms: Option<Spanned<[f64; 2]>>,
    call_ms: Option<Spanned<[f64; 2]>>,
    response_ms: Option<Spanned<[f64; 2]>>,
    loss: Option<Spanned<f64>>,
    duplicates: Option<Spanned<f64>>,
    reordering: Option<Spanned<f64>>,
}

/// The actual behaviour of the upstream, if it differs from the resource.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UpstreamTable {
    /// A known upstream, in place of all other keys except `changes`.
    preset: Option<Spanned<String>>,
    /// The form of answers, as in the file of a known upstream. Without limits in it, those of the resource apply.
    form: Option<Spanned<Preset>>,
    /// Limits in the format of `rampmeter upstream --limit`.
    limits: Vec<Spanned<String>>,
    concurrency: Option<Spanned<NonZeroUsize>>,
    /// The headers for what a call took and what is left.
    dialect: Option<Spanned<String>>,
    retry_after: Option<Spanned<String>>,
    /// Other limits from some time on, unknown to the scheduler.
    changes: Vec<ChangeTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeTable {
    at: Spanned<Duration>,
    limits: Vec<Spanned<String>>,
}

/// Bound on delays, an hour: no worker waits longer for a message.
const LONGEST_DELAY_MS: f64 = 3_600_000.0;

fn one() -> u64 {
    1
}

/// Parses the world in `text`. Faults give `path` as the file, and `seed` replaces the file's. Fails with the faults
/// in its tables and its resource, or the first one elsewhere.
pub(super) fn parse(path: &Path, text: &str, seed: Option<u64>) -> Result<World, ConfigError> {
    let source = Source::new(path, text);
    let (table, mut faults) = read_prepared::<ScenarioTable>(&source, |_| "", as_scenario)?;
    let spec = table.resource.spec(&source, &mut faults);
    let spec = faults.or(spec)?;
    let until = table.until.map_or(Time::NEVER, at);
    let behaviour = behaviour(&source, &table, &spec)?;
    let reader = table.resource.reader(&source, behaviour.reader())?;
    let world = World::new(spec, seed.unwrap_or(table.seed))
        .across(network(&source, &table.network)?)
        .against(behaviour)
        .reading(reader)
        .until(until);
    let with = |world: World, fleet: &FleetTable| Ok(world.with(fleet.fleet(&source, until)?));
    let world = table.fleet.iter().try_fold(world, with)?;
    world.check().map_err(|error| source.fault(&span_of(&table, &error), error.to_string()))?;
    Ok(world)
}

/// Converts a configuration with fleets to a scenario: drops its servers, and makes its one resource a table.
fn as_scenario(source: &Source, root: &mut DeTable<'_>) -> Result<(), ConfigError> {
    root.remove("nats");
    root.remove("http");
    root.remove("proxy");
    let Some(resource) = root.get_mut("resource") else { return Ok(()) };
    if let DeValue::Array(resources) = resource.get_ref() {
        let [only] = &resources[..] else {
            let first = resources.first().map_or(resource.span(), Spanned::span);
            return Err(source.fault(&first, format!("a scenario has one [[resource]], not {}", resources.len())));
        };
        *resource = only.clone();
    }
    Ok(())
}

/// Returns the place of an error: the name of the fleet concerned, if there is one.
fn span_of(table: &ScenarioTable, error: &WorldError) -> Range<usize> {
    let fleet = match error {
        WorldError::Fleet { fleet, .. } | WorldError::Endless(fleet) | WorldError::Twice(fleet) => fleet,
        WorldError::Resource(_) => return table.resource.span(),
        WorldError::Upstream(_) => return table.upstream.limits.first().map_or(0..0, Spanned::span),
    };
    let named = table.fleet.iter().rev().find(|table| table.name.get_ref() == fleet);
    named.map_or(0..0, |table| table.name.span())
}

/// Reads a scenario. Fails like [`parse`], or if the file can't be read.
pub(super) fn load(path: &Path, seed: Option<u64>) -> Result<World, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse(path, &text, seed)
}

fn network(source: &Source, table: &NetworkTable) -> Result<Network, ConfigError> {
    let usual = Network::default();
    Ok(Network {
        request: delay(source, table.request_ms.as_ref(), usual.request)?,
        grant: delay(source, table.grant_ms.as_ref(), usual.grant)?,
        call: delay(source, table.call_ms.as_ref(), usual.call)?,
        response: delay(source, table.response_ms.as_ref(), usual.response)?,
        loss: part(source, table.loss.as_ref())?,
        duplicates: part(source, table.duplicates.as_ref())?,
        reordering: part(source, table.reordering.as_ref())?,
    })
}

/// Returns the upstream's behaviour, by default that of `resource`.
fn behaviour(source: &Source, scenario: &ScenarioTable, resource: &ResourceSpec) -> Result<Behaviour, ConfigError> {
    let table = &scenario.upstream;
    let reader = scenario.resource.reader(source, Reader::of(Readable::SentinelHub))?;
    let usual = reader.dialect().as_str().parse().unwrap_or(Dialect::Plain);
    let dialect = parsed(source, table.dialect.as_ref())?.unwrap_or(usual);
    let behaviour = Behaviour {
        policies: policies(source, &table.limits)?,
        concurrency: table.concurrency.as_ref().map(|concurrency| *concurrency.get_ref()),
        dialect,
        retry_after: parsed(source, table.retry_after.as_ref())?.unwrap_or(dialect.retry_after()),
        preset: preset(source, table)?,
        changes: Vec::new(),
        outages: Vec::new(),
    };
    let limits = behaviour.preset(resource).map_or(0, |preset| preset.rules.len());
    let change = |change: &ChangeTable| {
        if change.limits.len() != limits {
            let reason = format!("a change names as many limits as there are, in their order: {limits}");
            return Err(source.fault(&change.at.span(), reason));
        }
        Ok((at(*change.at.get_ref()), policies(source, &change.limits)?))
    };
    Ok(Behaviour { changes: table.changes.iter().map(change).collect::<Result<_, _>>()?, ..behaviour })
}

/// Returns the preset of this name, or in the file of this name beside the scenario, or the form written in the
/// scenario. It excludes all other settings of the upstream.
fn preset(source: &Source, table: &UpstreamTable) -> Result<Option<Preset>, ConfigError> {
    if table.preset.is_none() && table.form.is_none() {
        return Ok(None);
    }
    let texts = [&table.dialect, &table.retry_after].map(|text| text.as_ref().map(Spanned::span));
    let limits = table.limits.first().map(Spanned::span);
    let form = table.form.as_ref().map(Spanned::span).filter(|_| table.preset.is_some());
    let others = [limits, table.concurrency.as_ref().map(Spanned::span), form].into_iter().chain(texts);
    if let Some(other) = others.flatten().next() {
        return Err(source.fault(&other, "a preset says this already; leave it out, or write a preset of your own"));
    }
    let Some(name) = &table.preset else { return Ok(table.form.as_ref().map(|form| form.get_ref().clone())) };
    let preset = Preset::open(name.get_ref(), source.path.parent().unwrap_or(Path::new("")));
    preset.map(Some).map_err(|error| source.fault(&name.span(), error.to_string()))
}

fn policies(source: &Source, limits: &[Spanned<String>]) -> Result<Vec<Policy>, ConfigError> {
    let policy =
        |limit: &Spanned<String>| limit.get_ref().parse().map_err(|error| source.fault(&limit.span(), chain(&error)));
    limits.iter().map(policy).collect()
}

fn chain(error: &rampmeter_upstream::PolicyError) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

fn part(source: &Source, part: Option<&Spanned<f64>>) -> Result<f64, ConfigError> {
    let Some(part) = part else { return Ok(0.0) };
    match *part.get_ref() {
        within if (0.0..1.0).contains(&within) => Ok(within),
        beyond => Err(source.fault(&part.span(), format!("a part of all messages is from 0 to below 1, not {beyond}"))),
    }
}

fn delay(source: &Source, millis: Option<&Spanned<[f64; 2]>>, usual: Delay) -> Result<Delay, ConfigError> {
    let Some(millis) = millis else { return Ok(usual) };
    match *millis.get_ref() {
        [least, most] if least >= 0.0 && least <= most && most <= LONGEST_DELAY_MS => {
            Ok(Delay { least: of_millis(least), most: of_millis(most) })
        }
        [least, most] => {
            let reason = format!("a delay is [least, most] in ms, from 0 to {LONGEST_DELAY_MS}, not [{least}, {most}]");
            Err(source.fault(&millis.span(), reason))
        }
    }
}

fn of_millis(millis: f64) -> Span {
    Span::from_nanos((millis * 1e6) as u64)
}
