//! From the file to what the core takes.

use super::algorithm::{algorithm, period};
use super::applies::{applies, label_name};
use super::dialect::reader;
use super::fair_share::fair_share;
use super::http_settings::HttpSettings;
use super::place::{ConfigError, Source};
use super::provider;
use super::safety::on_store_loss;
use super::table::{ClassTable, FileTable, LimitTable, MarginTable, NatsTable, ResourceTable, UnmatchedTable};
use super::value::{amount, name};
use crate::provider::ProviderSettings;
use rampmeter_dialects::Reader;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::{
    ClassSpec, Learn, LimitSpec, Margin, ResourceSpec, SpecError, SpecField, StartPolicy,
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
    pub http: HttpSettings,
    /// The resources, at least one, none twice.
    pub resources: Vec<Configured>,
    /// What is accepted, but has no effect yet.
    pub notes: Vec<Note>,
}

/// A valid resource.
#[derive(Clone, Debug)]
pub struct Configured {
    /// All that the file says of it. It has no limits where these are the provider's.
    pub spec: ResourceSpec,
    /// Whom to ask for its limits.
    pub provider: Option<ProviderSettings>,
    /// How its upstream's answers are read.
    pub reader: Reader,
}

impl Configured {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.spec.name
    }

    /// The resource with the limits of the file; nothing where it has none.
    #[must_use]
    pub fn resource(&self) -> Option<Resource> {
        let has_limits = !self.spec.limits.is_empty();
        has_limits.then(|| Resource::new(&self.spec).expect("it was checked when it was read"))
    }
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
    let http = super::http::settings(&source, &file.http)?;
    Ok(Config { nats: file.nats, http, resources, notes: notes(&file.resource) })
}

fn resources(source: &Source, tables: &[Spanned<ResourceTable>]) -> Result<Vec<Configured>, ConfigError> {
    if tables.is_empty() {
        return Err(source.fault(&(0..0), "there is no [[resource]]"));
    }
    let mut resources: Vec<Configured> = Vec::new();
    for table in tables {
        let resource = configured(source, table)?;
        if resources.iter().any(|other| other.name() == resource.name()) {
            let reason = format!("there are two resources `{}`", resource.name());
            return Err(source.fault(&table.get_ref().name.span(), reason));
        }
        resources.push(resource);
    }
    Ok(resources)
}

fn configured(source: &Source, spanned: &Spanned<ResourceTable>) -> Result<Configured, ConfigError> {
    let spec = written_spec(source, spanned)?;
    let reader = reader(source, spanned.get_ref(), Reader::default())?;
    let Some(table) = &spanned.get_ref().provider else {
        checked(source, spanned, &spec)?;
        return Ok(Configured { spec, provider: None, reader });
    };
    let provider = provider::settings(source, table.get_ref(), &spec.limits)?;
    match spec.limits.is_empty() {
        // The rest is checked all the same.
        true => checked(source, spanned, &ResourceSpec { limits: vec![stand_in()], ..spec.clone() })?,
        false => checked(source, spanned, &spec)?,
    }
    Ok(Configured { spec, provider: Some(provider), reader })
}

/// Some limit, in place of those that are not known yet.
fn stand_in() -> LimitSpec {
    let unit = Name::new(REQUESTS).expect("a valid name");
    LimitSpec::new(unit.clone(), unit, Amount::ONE, Span::from_secs(1))
}

/// A valid resource as it is written, whose limits have to be written too.
pub(super) fn resource_spec(source: &Source, spanned: &Spanned<ResourceTable>) -> Result<ResourceSpec, ConfigError> {
    if let Some(provider) = &spanned.get_ref().provider {
        return Err(source.fault(&provider.span(), "nobody is asked here; write the limits: [[resource.limit]]"));
    }
    let spec = written_spec(source, spanned)?;
    checked(source, spanned, &spec).map(|()| spec)
}

fn checked(source: &Source, spanned: &Spanned<ResourceTable>, spec: &ResourceSpec) -> Result<(), ConfigError> {
    Resource::new(spec).map(drop).map_err(|error| source.fault(&span_of(spanned, &error), error.to_string()))
}

/// A resource as it is written, which the core has not looked at yet.
fn written_spec(source: &Source, spanned: &Spanned<ResourceTable>) -> Result<ResourceSpec, ConfigError> {
    let table = spanned.get_ref();
    let limits = table.limit.iter().map(|limit| limit_spec(source, limit.get_ref())).collect::<Result<_, _>>()?;
    let mut spec = ResourceSpec::new(name(source, &table.name)?, limits);
    // A scheduler can't know that the account was not used before.
    spec.start = StartPolicy::Unproven;
    spec.classes = table.classes.iter().map(|class| class_spec(source, class.get_ref())).collect::<Result<_, _>>()?;
    spec.on_store_loss = on_store_loss(source, table)?;
    spec.fair_share = fair_share(source, table)?;
    spec.learn_costs = table.learn_costs.iter().map(|label| label_name(source, label)).collect::<Result<_, _>>()?;
    table.fill(&mut spec);
    Ok(spec)
}

pub(super) fn limit_spec(source: &Source, table: &LimitTable) -> Result<LimitSpec, ConfigError> {
    let capacity = amount(source, &table.capacity)?;
    let algorithm = algorithm(source, table)?;
    let unit = Name::new(REQUESTS).expect("a valid name");
    let period = period(source, table, &algorithm, capacity)?;
    let mut spec = LimitSpec::new(name(source, &table.name)?, unit, capacity, period);
    spec.algorithm = algorithm;
    spec.margin = margin(source, table)?;
    spec.learn = learn(source, table)?;
    spec.applies = applies(source, table)?;
    table.fill(&mut spec);
    Ok(spec)
}

/// Whether the limit follows its upstream, and how far down.
fn learn(source: &Source, table: &LimitTable) -> Result<Learn, ConfigError> {
    match (table.learn, &table.floor) {
        (Some(false), Some(floor)) => {
            Err(source.fault(&floor.span(), "`floor` has no meaning beside `learn = false`; leave one out".to_owned()))
        }
        (Some(false), None) => Ok(Learn::Never),
        (Some(true) | None, Some(floor)) => Ok(Learn::Above(*floor.get_ref())),
        (Some(true) | None, None) => Ok(Learn::default()),
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
    let mut spec = ClassSpec::new(name(source, &table.name)?);
    table.fill(&mut spec);
    Ok(spec)
}

/// Where in the file the part of a resource stands that the core found wrong.
fn span_of(resource: &Spanned<ResourceTable>, error: &SpecError) -> Range<usize> {
    let table = resource.get_ref();
    match error.place {
        SpecField::Resource("default_class") => table.default_class.as_ref().map_or(resource.span(), Spanned::span),
        SpecField::Resource(_) => table.name.span(),
        SpecField::Limit(index, field) => limit_field(table.limit[index].get_ref(), field),
        SpecField::Class(index, field) => class_field(table.classes[index].get_ref(), field),
    }
}

pub(super) fn limit_field(limit: &LimitTable, field: &str) -> Range<usize> {
    let velocity = limit.drain_velocity.as_ref().map(Spanned::span);
    let period = limit
        .period
        .as_ref()
        .or(limit.refill_interval.as_ref())
        .or(limit.time_to_live.as_ref())
        .map(Spanned::span)
        .or(velocity);
    match field {
        "capacity" => limit.capacity.span(),
        "period" => period.unwrap_or(limit.name.span()),
        "margin" => limit.margin.as_ref().map_or(limit.name.span(), Spanned::span),
        "match" => limit.r#match.keys().next().map_or(limit.name.span(), Spanned::span),
        "key" => limit.key.first().map_or(limit.name.span(), Spanned::span),
        "floor" => limit.floor.as_ref().map_or(limit.name.span(), Spanned::span),
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
    let for_all = |limit: &Spanned<LimitTable>| limit.get_ref().r#match.is_empty() && limit.get_ref().key.is_empty();
    let refuses = table.unmatched.as_ref().is_some_and(|what| matches!(what.get_ref(), UnmatchedTable::Refuse));
    if refuses && table.limit.iter().any(for_all) {
        notes.push(format!(
            "resource `{name}`: `unmatched` has no effect, because one of its limits is for every request"
        ));
    }
    notes
}
