//! Rules: limits of resources that change while schedulers run, in the format of the configuration.

use super::limits::table::LimitTable;
use super::load::{limit_spec, readable};
use super::reading::faults::{Faults, read};
use super::reading::source::{ConfigError, Source};
use super::reading::value::name;
use rampmeter_policy::Resource;
use rampmeter_policy::spec::{AccountSpec, LimitSpec, ResourceSpec, SpecField};
use rampmeter_protocol::name::Name;
use serde::{Deserialize, Serialize};
use std::path::Path;
use toml::{Spanned, Table, Value};

/// The largest text of rules, half a NATS message: rules of several files have to fit in one.
const MAX_TEXT: usize = 512 * 1024;

/// The end of the parser's message about an unknown key of a resource.
const RESOURCE_KEYS: &str = "expected one of `name`, `applied`, `limit`";
const BELONGS_ELSEWHERE: &str = "; all else of a resource belongs to the configuration";

/// Valid limits of some resources. One fault anywhere refuses all of them.
///
/// ```
/// use rampmeter_config::parse_rules;
/// use std::path::Path;
///
/// let text = "[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 10\nperiod = \"1s\"\n";
/// let rules = parse_rules(Path::new("rules.toml"), text).unwrap();
/// assert_eq!(rules.resources.len(), 1);
/// let error = parse_rules(Path::new("rules.toml"), &text.replace("10", "0")).unwrap_err();
/// assert_eq!(error.to_string(), "rules.toml:5:12: a capacity is above 0");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// The rules of each resource, none twice.
    pub resources: Vec<ResourceRules>,
}

/// All limits of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRules {
    /// The name of the resource.
    pub name: Name,
    /// The limits, at least one.
    pub limits: Vec<LimitSpec>,
    /// The origin of the rules, if `rampmeter apply` was used.
    pub applied: Option<Applied>,
    /// The limits as TOML, for people.
    pub written: Vec<Table>,
}

/// The author, time and source of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Applied {
    /// The user.
    pub by: String,
    /// The time, in UTC (RFC 3339).
    pub at: String,
    /// The file.
    pub file: String,
    /// The SHA-256 of its text, in hexadecimal digits.
    pub sha256: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesTable {
    #[serde(default)]
    resource: Vec<Spanned<ResourceRulesTable>>,
}

/// `[[resource]]`: only its limits can change while schedulers run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a resource")]
struct ResourceRulesTable {
    name: Spanned<String>,
    applied: Option<Applied>,
    #[serde(default)]
    limit: Vec<Spanned<LimitTable>>,
}

impl Rules {
    /// Returns the rules of `resource`, if it has some.
    #[must_use]
    pub fn of(&self, resource: &Name) -> Option<&ResourceRules> {
        self.resources.iter().find(|rules| rules.name == *resource)
    }

    /// Iterates over the names of the resources.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.resources.iter().map(|rules| &rules.name)
    }

    /// Combines these rules with `others`, which replace those of the same resources.
    #[must_use]
    pub fn with(&self, others: &Rules) -> Rules {
        let kept = self.resources.iter().filter(|rules| others.of(&rules.name).is_none());
        let mut resources: Vec<ResourceRules> = kept.chain(&others.resources).cloned().collect();
        resources.sort_by(|a, b| a.name.cmp(&b.name));
        Rules { resources }
    }

    /// Returns the rules without those of `resource`.
    #[must_use]
    pub fn without(&self, resource: &Name) -> Rules {
        Rules { resources: self.resources.iter().filter(|rules| rules.name != *resource).cloned().collect() }
    }

    /// Writes the rules as text that [`parse_rules`] reads again.
    #[must_use]
    pub fn text(&self) -> String {
        self.resources.iter().map(ResourceRules::text).collect::<Vec<_>>().join("\n")
    }
}

impl ResourceRules {
    fn text(&self) -> String {
        let limits = self.written.iter().map(|limit| format!("\n[[resource.limit]]\n{}", limit_text(limit)));
        let applied = self.applied.as_ref().map(|applied| {
            let table = Table::try_from(applied).expect("strings can be written");
            format!("\n[resource.applied]\n{table}")
        });
        let head = format!("[[resource]]\nname = \"{}\"\n", self.name);
        std::iter::once(head).chain(applied).chain(limits).collect()
    }
}

/// Reads the limits of the resource `name` from a leader's answer.
///
/// # Errors
/// If `text` is no list of limits.
pub fn limits_in_force(name: &Name, text: &str) -> Result<ResourceRules, ConfigError> {
    let text = format!("[[resource]]\nname = \"{name}\"\n{text}");
    let rules = parse_stored_rules(Path::new("the limits that count"), &text)?;
    Ok(rules.resources.into_iter().next().expect("there is one resource"))
}

/// Writes a limit as text: the name first, then the other keys in alphabetical order.
#[must_use]
pub fn limit_text(limit: &Table) -> String {
    let (name, rest): (Table, Table) = limit.clone().into_iter().partition(|(key, _)| key == "name");
    // An inner table is written in braces: with a header, the following keys would belong to it.
    let line = |(key, value): (&String, &Value)| format!("{key} = {value}\n");
    name.iter().chain(rest.iter()).map(line).collect()
}

/// Checks the rules in `text`, at least one. Faults name `path` as its file.
///
/// # Errors
/// All faults in it.
pub fn parse_rules(path: &Path, text: &str) -> Result<Rules, ConfigError> {
    read_rules(&Source::new(path, text))
}

/// Reads rules that are in the store. Rules that an older version accepted stay valid.
///
/// # Errors
/// All faults in them.
pub fn parse_stored_rules(path: &Path, text: &str) -> Result<Rules, ConfigError> {
    read_rules(&Source { path, text, is_stored: true })
}

fn read_rules(source: &Source) -> Result<Rules, ConfigError> {
    if source.text.len() > MAX_TEXT {
        return Err(source.fault(&(0..0), format!("rules have at most {MAX_TEXT} bytes, not {}", source.text.len())));
    }
    let addition = |message: &str| if message.ends_with(RESOURCE_KEYS) { BELONGS_ELSEWHERE } else { "" };
    let (tables, mut faults) = read::<RulesTable>(source, addition)?;
    let written: Table = toml::from_str(source.text).unwrap_or_default();
    if tables.resource.is_empty() && faults.is_empty() {
        faults.add(source.fault(&(0..0), "there is no [[resource]]"));
    }
    let mut resources: Vec<ResourceRules> = Vec::new();
    for (index, table) in tables.resource.iter().enumerate() {
        let Some(rules) = resource_rules(source, &mut faults, table, limits_in(&written, index)) else { continue };
        if resources.iter().any(|other| other.name == rules.name) {
            let reason = format!("there are two resources `{}`", rules.name);
            faults.add(source.fault(&table.get_ref().name.span(), reason));
        }
        resources.push(rules);
    }
    faults.or(Some(Rules { resources }))
}

fn resource_rules(
    source: &Source,
    faults: &mut Faults,
    spanned: &Spanned<ResourceRulesTable>,
    written: Vec<Table>,
) -> Option<ResourceRules> {
    let table = spanned.get_ref();
    let (places, limits) = readable(faults, &table.limit, |limit| limit_spec(source, limit));
    let name = faults.take(name(source, &table.name))?;
    let is_whole = places.len() == table.limit.len() && !faults.spoiled(spanned);
    let mut spec = ResourceSpec::new(name.clone(), limits.clone());
    // The accounts are in the configuration.
    spec.accounts = vec![AccountSpec::new(Name::new("a").expect("a valid name"))];
    for fault in Resource::faults(&spec) {
        let span = match fault.field {
            SpecField::Limit(index, field) => source.value_in(&table.limit[places[index]], field),
            SpecField::Resource(_) | SpecField::Class(..) if is_whole => table.name.span(),
            SpecField::Resource(_) | SpecField::Class(..) => continue,
        };
        faults.add(source.fault(&span, fault.to_string()));
    }
    Some(ResourceRules { name, limits, applied: table.applied.clone(), written })
}

fn limits_in(text: &Table, resource: usize) -> Vec<Table> {
    let resource = text.get("resource").and_then(|resources| resources.get(resource));
    let limits = resource.and_then(|resource| resource.get("limit")).and_then(Value::as_array);
    limits.into_iter().flatten().filter_map(Value::as_table).cloned().collect()
}
