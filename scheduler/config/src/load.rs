//! Turns the file into checked settings.

use super::http::HttpTable;
use super::http::settings::HttpSettings;
use super::limits::algorithm::{algorithm, known_algorithm, period};
use super::limits::objections::unsent_headers;
use super::limits::parts::{accounts, applies, fair_share, per_account, reader, usage_by};
use super::limits::pricing::Pricing;
use super::limits::table::{ClassTable, LimitTable, MarginTable, ResourceTable};
use super::nats::NatsTable;
use super::provider;
use super::proxy::{MONEY, ProxySettings, ProxyTable, TOKENS, proxies};
use super::reading::faults::{Faults, read};
use super::reading::source::{ConfigError, Source};
use super::reading::value::{amount, label_key, name, parsed};
use super::telemetry::{TelemetrySettings, TelemetryTable};
use rampmeter_account::ProviderSettings;
use rampmeter_dialects::{Dialect, Reader};
use rampmeter_policy::Resource;
use rampmeter_policy::spec::{
    Algorithm, ClassSpec, Learn, LimitSpec, Margin, ResourceSpec, SpecField, StartPolicy, Unmatched,
};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::suggestion::{closest, quoted};
use rampmeter_protocol::time::Span;
use rampmeter_proxy::tokens::TokenUnits;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    nats: Option<NatsTable>,
    #[serde(default)]
    http: HttpTable,
    #[serde(default)]
    telemetry: TelemetryTable,
    #[serde(default)]
    proxy: Vec<Spanned<ProxyTable>>,
    #[serde(default)]
    resource: Vec<Spanned<ResourceTable>>,
}

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings of NATS.
    pub nats: NatsTable,
    /// The settings of HTTP.
    pub http: HttpSettings,
    /// Where spans are sent, if anywhere.
    pub telemetry: Option<TelemetrySettings>,
    /// The resources, none twice; at least one if there is no proxy.
    pub resources: Vec<Configured>,
    /// The proxies.
    pub proxies: Vec<ProxySettings>,
    /// Whether the file has a table `[nats]`.
    pub has_nats: bool,
    /// Remarks on settings that have no effect.
    pub notes: Vec<Note>,
}

/// A valid resource.
#[derive(Clone, Debug)]
pub struct Configured {
    /// The resource in the file. It has no limits if they come from the provider.
    pub spec: ResourceSpec,
    /// The provider of the limits, if there is one.
    pub provider: Option<ProviderSettings>,
    /// The reader of the upstream's responses.
    pub reader: Reader,
    /// How costs of calls are computed, if they are.
    pub pricing: Option<Pricing>,
    /// Remarks on limits whose units no request of a proxy in the file can cost.
    pub uncosted: Vec<(Name, Note)>,
}

impl Configured {
    /// Whether requests that come through `proxy` cost money, which limits count: they are for a
    /// language model, by the limits or the dialect, or the proxy has prices.
    #[must_use]
    pub fn counts_money(&self, proxy: &ProxySettings) -> bool {
        let counts = |wanted: &[&str]| self.spec.limits.iter().any(|limit| wanted.contains(&&*limit.unit));
        let speaks = matches!(self.reader.dialect(), Dialect::Openai | Dialect::Anthropic);
        let is_model = proxy.prices.is_some() || proxy.asking.tokens.is_some() || speaks || counts(&TOKENS);
        is_model && counts(&[MONEY])
    }

    /// Returns the name of the resource.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.spec.name
    }

    /// Returns the resource; `None` if the file has no limits for it and `discover` finds none.
    #[must_use]
    pub fn resource(&self) -> Option<Resource> {
        self.spec.has_limits().then(|| Resource::new(&self.spec).expect("it was checked when it was read"))
    }
}

/// A remark on a valid configuration.
pub type Note = String;

/// Reads and checks the file at `path`.
///
/// # Errors
/// If it can't be read, or all faults in it.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// Checks the configuration in `text`. Faults name `path` as its file.
///
/// # Errors
/// All faults in it.
pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let source = Source::new(path, text);
    let (file, mut faults) = read::<FileTable>(&source, in_a_resource)?;
    if file.resource.is_empty() && file.proxy.is_empty() && faults.is_empty() {
        faults.add(source.fault(&(0..0), "there is no [[resource]]"));
    }
    let mut resources = resources(&source, &mut faults, &file.resource);
    let proxies = proxies(&source, &mut faults, &file.proxy);
    let is_only = resources.len() == 1;
    resources.iter_mut().for_each(|resource| resource.uncosted = uncosted(resource, is_only, &proxies));
    let http = faults.take(super::http::settings(&source, &file.http));
    let telemetry = faults.take(super::telemetry::settings(&source, &file.telemetry));
    let mut notes = notes(&file.resource);
    notes.extend(resources.iter().flat_map(|resource| lost_to_headroom(&resource.spec)));
    notes.extend(resources.iter().flat_map(|resource| &resource.uncosted).map(|(_, note)| note.clone()));
    let has_nats = file.nats.is_some();
    let nats = file.nats.unwrap_or_default();
    let whole = http.zip(telemetry);
    faults.or(whole.map(|(http, telemetry)| Config { nats, http, telemetry, resources, proxies, has_nats, notes }))
}

/// Returns advice on tables of a resource that stand outside of one.
fn in_a_resource(message: &str) -> &'static str {
    match message.split('`').nth(1) {
        Some("limit") if message.contains("`telemetry`") => "; the limits of a resource are [[resource.limit]]",
        Some("classes" | "class") if message.contains("`telemetry`") => "; classes are part of a [[resource]]",
        Some(_) | None => "",
    }
}

fn resources(source: &Source, faults: &mut Faults, tables: &[Spanned<ResourceTable>]) -> Vec<Configured> {
    for (index, table) in tables.iter().enumerate() {
        let name = &table.get_ref().name;
        if tables[..index].iter().any(|other| other.get_ref().name.get_ref() == name.get_ref()) {
            faults.add(source.fault(&name.span(), format!("there are two resources `{}`", name.get_ref())));
        }
    }
    tables.iter().filter_map(|table| configured(source, faults, table)).collect()
}

fn configured(source: &Source, faults: &mut Faults, spanned: &Spanned<ResourceTable>) -> Option<Configured> {
    let parts = written_parts(source, faults, spanned);
    let reader = faults.take(reader(source, spanned.get_ref(), Reader::default()));
    let pricing = faults.take(parsed(source, spanned.get_ref().pricing.as_ref()));
    let Some(table) = &spanned.get_ref().provider else {
        let spec = checked(source, faults, spanned, parts?)?;
        return Some(Configured { spec, provider: None, reader: reader?, pricing: pricing?, uncosted: Vec::new() });
    };
    let parts = parts.filter(|_| !faults.spoiled(table))?;
    let provider = faults.take(provider::settings(source, table));
    let spec = match spanned.get_ref().limit.is_empty() {
        // A placeholder limit lets the core check everything else.
        true => {
            let limits = vec![placeholder_limit()];
            let spec = checked(
                source,
                faults,
                spanned,
                WrittenResource { spec: ResourceSpec { limits, ..parts.spec }, ..parts },
            )?;
            ResourceSpec { limits: Vec::new(), ..spec }
        }
        false => checked(source, faults, spanned, parts)?,
    };
    Some(Configured { spec, provider: Some(provider?), reader: reader?, pricing: pricing?, uncosted: Vec::new() })
}

/// Returns a limit in place of the provider's, which are not known yet.
fn placeholder_limit() -> LimitSpec {
    let unit = Name::new(REQUESTS).expect("a valid name");
    LimitSpec::new(unit.clone(), unit, Amount::ONE, Span::from_secs(1))
}

/// The readable parts of a resource.
pub(super) struct WrittenResource {
    spec: ResourceSpec,
    /// The indexes in the file of its limits and classes.
    limits: Vec<usize>,
    classes: Vec<usize>,
    all_classes: bool,
    whole: bool,
}

/// Returns the resource, if the core finds no fault in it either.
pub(super) fn checked(
    source: &Source,
    faults: &mut Faults,
    spanned: &Spanned<ResourceTable>,
    parts: WrittenResource,
) -> Option<ResourceSpec> {
    let WrittenResource { spec, limits, classes, all_classes, whole } = parts;
    let table = spanned.get_ref();
    let mut found = Resource::faults(&spec);
    // Faults of parts that could not be read are noted already.
    found.retain(|fault| match fault.field {
        SpecField::Resource("limits") => whole && !faults.lost_table(),
        SpecField::Resource("default_class") => all_classes,
        SpecField::Resource(_) | SpecField::Limit(..) | SpecField::Class(..) => true,
    });
    for fault in &found {
        let span = match fault.field {
            SpecField::Resource(field) => source.value_in(spanned, field),
            SpecField::Limit(index, field) => source.value_in(&table.limit[limits[index]], field),
            SpecField::Class(index, field) => source.value_in(&table.classes[classes[index]], field),
        };
        faults.add(source.fault(&span, fault.to_string()));
    }
    (whole && found.is_empty()).then_some(spec)
}

/// Reads the resource in the file, as far as possible; the core has not checked it yet.
pub(super) fn written_parts(
    source: &Source,
    faults: &mut Faults,
    spanned: &Spanned<ResourceTable>,
) -> Option<WrittenResource> {
    let table = spanned.get_ref();
    let (limits, specs) = readable(faults, &table.limit, |limit| limit_spec(source, limit));
    // What else is wrong in a table that lost a key may follow from it, but not the algorithm's name.
    for limit in table.limit.iter().filter(|limit| faults.spoiled(*limit)).collect::<Vec<_>>() {
        faults.take(known_algorithm(source, limit.get_ref()));
    }
    let (classes, class_specs) = readable(faults, &table.classes, |class| class_spec(source, class));
    let fair_share = faults.take(fair_share(source, table));
    let accounts = faults.take(accounts(source, table));
    let learn_costs = table.learn_costs.iter().filter_map(|label| faults.take(label_key(source, label))).collect();
    let usage_by = faults.take(usage_by(source, table));
    let discover_key = table.discover_key.iter().filter_map(|label| faults.take(label_key(source, label))).collect();
    let discover_route = table.discover_route.as_ref().map(|label| label_key(source, label)).transpose();
    let discover_route = faults.take(discover_route);
    let name = faults.take(name(source, &table.name))?;
    let spoiled = faults.spoiled(spanned);
    let all_classes = classes.len() == table.classes.len() && !(spoiled && classes.is_empty());
    let whole = all_classes && limits.len() == table.limit.len() && !spoiled;
    let mut spec = ResourceSpec::new(name, specs);
    // A scheduler can't know that the account was not used before.
    spec.start = StartPolicy::Unproven;
    spec.classes = class_specs;
    spec.fair_share = fair_share?;
    spec.usage_by = usage_by?;
    spec.accounts = accounts?;
    spec.learn_costs = learn_costs;
    (spec.discover_key, spec.discover_route) = (discover_key, discover_route?);
    table.fill(&mut spec);
    Some(WrittenResource { spec, limits, classes, all_classes, whole })
}

/// Returns the indexes and contents of the tables that could be read. Other tables leave faults.
pub(super) fn readable<T, S>(
    faults: &mut Faults,
    tables: &[Spanned<T>],
    read: impl Fn(&T) -> Result<S, ConfigError>,
) -> (Vec<usize>, Vec<S>) {
    let mut found = (Vec::new(), Vec::new());
    for (index, table) in tables.iter().enumerate() {
        if !faults.spoiled(table)
            && let Some(spec) = faults.take(read(table.get_ref()))
        {
            found.0.push(index);
            found.1.push(spec);
        }
    }
    found
}

pub(super) fn limit_spec(source: &Source, table: &LimitTable) -> Result<LimitSpec, ConfigError> {
    let mut faults = Faults::default();
    let named = faults.take(name(source, &table.name));
    let capacity = faults.take(amount(source, &table.capacity));
    let algorithm = faults.take(algorithm(source, table));
    let margin = faults.take(margin(source, table));
    let learn = faults.take(learn(source, table));
    let applies = faults.take(applies(source, table));
    let per_account = faults.take(per_account(source, table));
    let unit = Name::new(REQUESTS).expect("a valid name");
    let read = named.zip(capacity).zip(algorithm).zip(margin).zip(learn).zip(applies).zip(per_account);
    let spec = read.and_then(|((((((name, capacity), algorithm), margin), learn), applies), per_account)| {
        let period = faults.take(period(source, table, &algorithm, capacity))?;
        let mut spec = LimitSpec::new(name, unit, capacity, period);
        (spec.algorithm, spec.margin, spec.learn, spec.applies) = (algorithm, margin, learn, applies);
        spec.per_account = per_account;
        table.fill(&mut spec);
        Some(spec)
    });
    faults.or(spec)
}

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

fn notes(tables: &[Spanned<ResourceTable>]) -> Vec<Note> {
    tables.iter().flat_map(|table| notes_on(table.get_ref())).collect()
}

fn notes_on(table: &ResourceTable) -> Vec<Note> {
    let name = table.name.get_ref();
    let mut notes = Vec::new();
    let for_all = |limit: &Spanned<LimitTable>| limit.get_ref().r#match.is_empty() && limit.get_ref().key.is_empty();
    let refuses = table.unmatched.as_ref().is_some_and(|what| *what.get_ref() == Unmatched::Refuse);
    if refuses && table.limit.iter().any(for_all) {
        notes.push(format!(
            "resource `{name}`: `unmatched` has no effect, because one of its limits is for every request"
        ));
    }
    notes.extend(uncounted_requests(table));
    notes.extend(unsent_headers(table.headers.as_ref(), &table.objection).into_iter().map(|header| {
        format!(
            "resource `{name}`: workers pass on no header `{header}`, whose name does not speak of limits; add it to \
             the headers of their settles"
        )
    }));
    notes
}

/// Whether a request through `proxy` can cost `unit`.
fn may_cost(proxy: &ProxySettings, resource: &Configured, unit: &str) -> bool {
    let tokens = match &proxy.asking.tokens {
        Some(TokenUnits { input, output, total, .. }) => [input, output, total].map(Option::as_deref),
        // These units are charged without configuration.
        None => TOKENS.map(Some),
    };
    let price = proxy.price.map(|Pricing::SentinelHub| "processing-units");
    let stated = proxy.asking.cost_headers.iter().map(|(unit, _)| unit.as_str()).chain(proxy.asking.routes.units());
    let money = resource.counts_money(proxy).then_some(MONEY);
    tokens.into_iter().chain([price, money, Some(REQUESTS)]).flatten().chain(stated).any(|known| known == unit)
}

/// Remarks that proxies of the resource never charge some of its limits.
fn uncosted(resource: &Configured, is_only: bool, proxies: &[ProxySettings]) -> Vec<(Name, Note)> {
    let is_of_it = |proxy: &&ProxySettings| proxy.resource.as_ref().map_or(is_only, |name| name == resource.name());
    let of_proxy = |proxy: &ProxySettings| {
        let uncosted = resource.spec.limits.iter().filter(|limit| !may_cost(proxy, resource, &limit.unit));
        let note = |limit: &LimitSpec| {
            let (LimitSpec { name, unit, .. }, listen) = (limit, &proxy.listen);
            format!(
                "proxy at {listen}: no route of this proxy costs `{unit}`, which `{name}` limits; a route may say \
                 `cost = {{ {unit} = 2 }}` or `cost = {{ {unit} = \"query:KEY\" }}`"
            )
        };
        uncosted.map(|limit| (limit.name.clone(), note(limit))).collect::<Vec<_>>()
    };
    proxies.iter().filter(is_of_it).flat_map(of_proxy).collect()
}

/// Remarks on headroom in sliding windows, which a class never gets back.
fn lost_to_headroom(spec: &ResourceSpec) -> Vec<Note> {
    let sliding = spec.limits.iter().filter(|limit| limit.algorithm == Algorithm::SlidingWindow);
    let lasting: Vec<&str> = sliding.map(|limit| &*limit.name).collect();
    let classes = spec.classes.iter().filter(|class| class.headroom > 0.0 && !lasting.is_empty());
    let note = |class: &ClassSpec| {
        let (resource, class, percent) = (&spec.name, &class.name, 100.0 * class.headroom);
        format!(
            "resource `{resource}`: class `{class}` gets {percent:.0} % less of {} for good, whether or not a more urgent \
             class calls: in a sliding window, what `headroom` leaves free is never lent",
            quoted(lasting.iter().copied())
        )
    };
    classes.map(note).collect()
}

/// Remarks that requests without a `cost` are refused, unless the file sets `uncounted`.
fn uncounted_requests(table: &ResourceTable) -> Option<Note> {
    let units = table.limit.iter().map(|limit| limit.get_ref().unit.as_ref().map_or(REQUESTS, |unit| unit.get_ref()));
    let units: BTreeSet<&str> = units.collect();
    if table.uncounted.is_some() || units.is_empty() || units.contains(REQUESTS) {
        return None;
    }
    let (name, counted) = (table.name.get_ref(), quoted(units.iter().copied()));
    let meant = match closest(REQUESTS, units) {
        Some(unit) => format!("did you mean `unit = \"{REQUESTS}\"` in place of \"{unit}\"?"),
        None => "if that is meant, say `uncounted = \"refuse\"`".to_owned(),
    };
    Some(format!(
        "resource `{name}`: no limit counts `{REQUESTS}`, so that requests without a `cost` are refused \
         (`unknown_unit`). Limits count {counted}; {meant}"
    ))
}
