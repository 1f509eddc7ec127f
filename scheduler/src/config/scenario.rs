//! A world to be simulated, as it is written.

use super::duration;
use super::load::resource_spec;
use super::place::{ConfigError, Source};
use super::table::ResourceTable;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_simulator::fleet::{Clients, Fleet, Shift};
use rampmeter_simulator::network::{Delay, Network};
use rampmeter_simulator::world::World;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioTable {
    #[serde(default = "one")]
    seed: u64,
    /// When the world ends; needed where a fleet makes calls without end.
    until: Option<Spanned<String>>,
    resource: Spanned<ResourceTable>,
    #[serde(default)]
    network: NetworkTable,
    fleet: Vec<FleetTable>,
}

/// Least and most milliseconds of each way.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NetworkTable {
    request_ms: Option<[f64; 2]>,
    grant_ms: Option<[f64; 2]>,
    call_ms: Option<[f64; 2]>,
    response_ms: Option<[f64; 2]>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetTable {
    name: String,
    workers: usize,
    class: Option<String>,
    clients: Option<ClientsTable>,
    #[serde(default)]
    cost: BTreeMap<String, Spanned<f64>>,
    shift: Option<ShiftTable>,
    calls: Option<u32>,
    think: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
    until: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ClientsTable {
    Each,
    One,
    None,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShiftTable {
    every: Spanned<String>,
    cost: BTreeMap<String, Spanned<f64>>,
}

fn one() -> u64 {
    1
}

/// The world in `text`, which is said to come from `path`; `seed` takes the place of its own.
///
/// # Errors
/// The first fault in it.
pub fn parse_scenario(path: &Path, text: &str, seed: Option<u64>) -> Result<World, ConfigError> {
    let source = Source { path, text };
    let table: ScenarioTable =
        toml::from_str(text).map_err(|error| source.fault(&error.span().unwrap_or(0..0), error.message()))?;
    let spec = resource_spec(&source, &table.resource)?;
    let world = World::new(spec, seed.unwrap_or(table.seed)).across(network(&table.network));
    let world = world.until(time(&source, table.until.as_ref(), Time::NEVER)?);
    table.fleet.iter().try_fold(world, |world, table| Ok(world.with(fleet(&source, table)?)))
}

/// Reads a scenario.
///
/// # Errors
/// If it can't be read, or the first fault in it.
pub fn load_scenario(path: &Path, seed: Option<u64>) -> Result<World, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse_scenario(path, &text, seed)
}

fn fleet(source: &Source, table: &FleetTable) -> Result<Fleet, ConfigError> {
    let shift = |shift: &ShiftTable| Ok(Shift { every: span(source, &shift.every)?, to: cost(source, &shift.cost)? });
    Ok(Fleet {
        class: table.class.clone(),
        clients: match table.clients {
            Some(ClientsTable::Each) => Clients::Each,
            Some(ClientsTable::One) => Clients::One,
            Some(ClientsTable::None) | None => Clients::Unnamed,
        },
        cost: cost(source, &table.cost)?,
        shift: table.shift.as_ref().map(shift).transpose()?,
        calls: table.calls,
        think: table.think.as_ref().map_or(Ok(Span::ZERO), |think| span(source, think))?,
        from: time(source, table.from.as_ref(), Time::ORIGIN)?,
        until: time(source, table.until.as_ref(), Time::NEVER)?,
        ..Fleet::new(&table.name, table.workers)
    })
}

fn cost(source: &Source, table: &BTreeMap<String, Spanned<f64>>) -> Result<Vec<(String, Amount)>, ConfigError> {
    let amount = |(unit, units): (&String, &Spanned<f64>)| match Amount::new(*units.get_ref()) {
        Ok(amount) => Ok((unit.clone(), amount)),
        Err(error) => Err(source.fault(&units.span(), error.to_string())),
    };
    table.iter().map(amount).collect()
}

fn network(table: &NetworkTable) -> Network {
    let usual = Network::default();
    let delay = |millis: Option<[f64; 2]>, usual| {
        millis.map_or(usual, |[least, most]| Delay { least: of_millis(least), most: of_millis(most.max(least)) })
    };
    Network {
        request: delay(table.request_ms, usual.request),
        grant: delay(table.grant_ms, usual.grant),
        call: delay(table.call_ms, usual.call),
        response: delay(table.response_ms, usual.response),
    }
}

fn of_millis(millis: f64) -> Span {
    Span::from_nanos((millis * 1e6) as u64)
}

fn time(source: &Source, text: Option<&Spanned<String>>, otherwise: Time) -> Result<Time, ConfigError> {
    text.map_or(Ok(otherwise), |text| Ok(Time::ORIGIN + span(source, text)?))
}

fn span(source: &Source, text: &Spanned<String>) -> Result<Span, ConfigError> {
    duration::parse(text.get_ref()).map_err(|reason| source.fault(&text.span(), reason))
}
