//! From the file to what the core takes.

use super::duration;
use super::fair_share::fair_share;
use super::place::{ConfigError, Source};
use super::table::{
    ClassTable, FileTable, HttpTable, LimitTable, MarginTable, NatsTable, ResourceTable, StartTable, Unmatched,
};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::report::TOKEN_BUCKET;
use rampmeter_scheduler_core::resource::Resource;
use rampmeter_scheduler_core::spec::{
    Bounds, ClassSpec, DEFAULT_HORIZON, LimitSpec, Margin, Place, ResourceSpec, SpecError, Start,
};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// How to reach NATS.
    pub nats: NatsTable,
    /// What to serve over HTTP.
    pub http: HttpTable,
    /// The resources, at least one, none twice.
    pub resources: Vec<Resource>,
    /// What is accepted, but has no effect yet.
    pub notes: Vec<Note>,
}

/// A remark on a valid configuration.
pub type Note = String;

/// Reads and checks the file at `path`.
///
/// # Errors
/// If it can't be read, or the first fault in it.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// Checks the configuration in `text`, which is said to come from `path`.
///
/// # Errors
/// The first fault in it.
pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let source = Source { path, text };
    let file: FileTable =
        toml::from_str(text).map_err(|error| source.fault(&error.span().unwrap_or(0..0), error.message()))?;
    let resources = resources(&source, &file.resource)?;
    Ok(Config { nats: file.nats, http: file.http, resources, notes: notes(&file.resource) })
}

fn resources(source: &Source, tables: &[Spanned<ResourceTable>]) -> Result<Vec<Resource>, ConfigError> {
    if tables.is_empty() {
        return Err(source.fault(&(0..0), "there is no [[resource]]"));
    }
    let mut resources: Vec<Resource> = Vec::new();
    for table in tables {
        let resource = resource(source, table)?;
        if resources.iter().any(|other| other.name() == resource.name()) {
            let reason = format!("there are two resources `{}`", resource.name());
            return Err(source.fault(&table.get_ref().name.span(), reason));
        }
        resources.push(resource);
    }
    Ok(resources)
}

fn resource(source: &Source, spanned: &Spanned<ResourceTable>) -> Result<Resource, ConfigError> {
    checked(source, spanned, &written_spec(source, spanned)?)
}

/// A valid resource as it is written.
pub(super) fn resource_spec(source: &Source, spanned: &Spanned<ResourceTable>) -> Result<ResourceSpec, ConfigError> {
    let spec = written_spec(source, spanned)?;
    checked(source, spanned, &spec).map(|_| spec)
}

fn checked(source: &Source, spanned: &Spanned<ResourceTable>, spec: &ResourceSpec) -> Result<Resource, ConfigError> {
    Resource::new(spec).map_err(|error| source.fault(&span_of(spanned, &error), error.to_string()))
}

/// A resource as it is written, which the core has not looked at yet.
fn written_spec(source: &Source, spanned: &Spanned<ResourceTable>) -> Result<ResourceSpec, ConfigError> {
    let table = spanned.get_ref();
    Ok(ResourceSpec {
        name: name(source, &table.name)?,
        limits: table.limit.iter().map(|limit| limit_spec(source, limit.get_ref())).collect::<Result<_, _>>()?,
        classes: table.classes.iter().map(|class| class_spec(source, class.get_ref())).collect::<Result<_, _>>()?,
        default_class: table.default_class.as_ref().map(|class| name(source, class)).transpose()?,
        start: start(table.start),
        horizon: optional_span(source, table.horizon.as_ref())?.unwrap_or(DEFAULT_HORIZON),
        bounds: bounds(source, table)?,
        fair_share: fair_share(source, table)?,
    })
}

fn limit_spec(source: &Source, table: &LimitTable) -> Result<LimitSpec, ConfigError> {
    check_algorithm(source, table)?;
    let capacity = amount(source, &table.capacity)?;
    Ok(LimitSpec {
        name: name(source, &table.name)?,
        unit: match &table.unit {
            Some(unit) => name(source, unit)?,
            None => Name::new(REQUESTS).expect("a valid name"),
        },
        capacity,
        period: period(source, table, capacity)?,
        margin: margin(source, table)?,
    })
}

fn check_algorithm(source: &Source, table: &LimitTable) -> Result<(), ConfigError> {
    match &table.algorithm {
        Some(algorithm) if algorithm.get_ref() != TOKEN_BUCKET => {
            let reason =
                format!("algorithm `{}` is not known; this version knows `{TOKEN_BUCKET}`", algorithm.get_ref());
            Err(source.fault(&algorithm.span(), reason))
        }
        Some(_) | None => Ok(()),
    }
}

/// The period, or the interval in which one token comes back times the capacity.
fn period(source: &Source, table: &LimitTable, capacity: Amount) -> Result<Span, ConfigError> {
    match (&table.period, &table.refill_interval) {
        (Some(period), None) => span(source, period),
        (None, Some(interval)) => {
            let nanos = u128::from(span(source, interval)?.nanos()) * u128::from(capacity.micros());
            let rounded_up = nanos.div_ceil(u128::from(Amount::ONE.micros()));
            Ok(Span::from_nanos(u64::try_from(rounded_up).unwrap_or(u64::MAX)))
        }
        (Some(_), Some(interval)) => {
            Err(source.fault(&interval.span(), "give `period` or `refill_interval`, not both"))
        }
        (None, None) => Err(source.fault(&table.capacity.span(), "the limit needs a `period` or a `refill_interval`")),
    }
}

fn margin(source: &Source, table: &LimitTable) -> Result<Margin, ConfigError> {
    let Some(margin) = &table.margin else { return Ok(Margin::Auto) };
    match margin.get_ref() {
        MarginTable::Word(word) if word == "auto" => Ok(Margin::Auto),
        MarginTable::Word(_) => Err(source.fault(&margin.span(), "a margin is \"auto\" or a number of tokens")),
        MarginTable::Tokens(tokens) => {
            let tokens = Amount::new(*tokens).map_err(|error| source.fault(&margin.span(), error.to_string()))?;
            Ok(Margin::Fixed(tokens))
        }
    }
}

fn class_spec(source: &Source, table: &ClassTable) -> Result<ClassSpec, ConfigError> {
    Ok(ClassSpec {
        name: name(source, &table.name)?,
        headroom: table.headroom.as_ref().map_or(0.0, |headroom| *headroom.get_ref()),
        max_starvation: optional_span(source, table.max_starvation.as_ref())?,
    })
}

fn bounds(source: &Source, table: &ResourceTable) -> Result<Bounds, ConfigError> {
    let defaults = Bounds::default();
    Ok(Bounds {
        max_waiting: bound(source, table.max_waiting.as_ref())?.unwrap_or(defaults.max_waiting),
        max_permits: bound(source, table.max_permits.as_ref())?.unwrap_or(defaults.max_permits),
    })
}

/// None at all would shut everybody out, and the core counts them in 32 bits.
fn bound(source: &Source, given: Option<&Spanned<usize>>) -> Result<Option<usize>, ConfigError> {
    match given {
        Some(bound) if !(1..=u32::MAX as usize).contains(bound.get_ref()) => {
            Err(source.fault(&bound.span(), format!("a bound is from 1 to {}", u32::MAX)))
        }
        given => Ok(given.map(|bound| *bound.get_ref())),
    }
}

fn start(table: Option<StartTable>) -> Start {
    match table {
        Some(StartTable::Empty) => Start::Empty,
        Some(StartTable::Full) | None => Start::Full,
    }
}

fn name(source: &Source, text: &Spanned<String>) -> Result<Name, ConfigError> {
    Name::new(text.get_ref()).map_err(|error| source.fault(&text.span(), error.to_string()))
}

fn amount(source: &Source, units: &Spanned<f64>) -> Result<Amount, ConfigError> {
    Amount::new(*units.get_ref()).map_err(|error| source.fault(&units.span(), error.to_string()))
}

fn span(source: &Source, text: &Spanned<String>) -> Result<Span, ConfigError> {
    duration::parse(text.get_ref()).map_err(|reason| source.fault(&text.span(), reason))
}

fn optional_span(source: &Source, text: Option<&Spanned<String>>) -> Result<Option<Span>, ConfigError> {
    text.map(|text| span(source, text)).transpose()
}

/// Where in the file the part of a resource stands that the core found wrong.
fn span_of(resource: &Spanned<ResourceTable>, error: &SpecError) -> Range<usize> {
    let table = resource.get_ref();
    match error.place {
        Place::Resource("default_class") => table.default_class.as_ref().map_or(resource.span(), Spanned::span),
        Place::Resource(_) => table.name.span(),
        Place::Limit(index, field) => limit_field(table.limit[index].get_ref(), field),
        Place::Class(index, field) => class_field(table.classes[index].get_ref(), field),
    }
}

fn limit_field(limit: &LimitTable, field: &str) -> Range<usize> {
    let period = limit.period.as_ref().or(limit.refill_interval.as_ref());
    match field {
        "capacity" => limit.capacity.span(),
        "period" => period.map_or(limit.name.span(), Spanned::span),
        "margin" => limit.margin.as_ref().map_or(limit.name.span(), Spanned::span),
        _ => limit.name.span(),
    }
}

fn class_field(class: &ClassTable, field: &str) -> Range<usize> {
    match field {
        "headroom" => class.headroom.as_ref().map_or(class.name.span(), Spanned::span),
        "max_starvation" => class.max_starvation.as_ref().map_or(class.name.span(), Spanned::span),
        _ => class.name.span(),
    }
}

fn notes(tables: &[Spanned<ResourceTable>]) -> Vec<Note> {
    tables.iter().flat_map(|table| notes_on(table.get_ref())).collect()
}

fn notes_on(table: &ResourceTable) -> Vec<Note> {
    let name = table.name.get_ref();
    let mut notes = Vec::new();
    if matches!(table.unmatched, Some(Unmatched::Refuse)) {
        notes.push(format!("resource `{name}`: `unmatched` has no effect yet; every limit matches every request"));
    }
    if let Some(dialect) = table.dialect {
        notes.push(format!(
            "resource `{name}`: `dialect` {dialect:?} has no effect yet; of answers only the status is read"
        ));
    }
    notes
}
