//! Writes described limits as limits of a resource.

use crate::document::Document;
use crate::entry::{Counts, Entry, LeftOut, Reason, Scope};
use rampmeter_protocol::name::Name;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

const LONGEST_NAME: usize = 64;
/// How long a call in flight counts that no message mentions.
const TIME_TO_LIVE: &str = "60s";
/// The label that names a part of the API.
const PART: &str = "endpoint";

/// Settings that the document does not contain.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the resource.
    pub resource: Name,
    /// The plan, if the document has several.
    pub tier: Option<String>,
}

/// A configuration, and what it lacks.
#[derive(Debug)]
pub struct Imported {
    /// The text of the configuration.
    pub configuration: String,
    /// What was not taken over.
    pub left_out: Vec<LeftOut>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The limits depend on the plan.
    #[error("these limits depend on the plan; pass `--tier` with one of {}", .0.join(", "))]
    WhichTier(Vec<String>),
    /// No limit is of this plan.
    #[error("no limit is of the tier `{tier}`; there are: {}", .tiers.join(", "))]
    NoTier {
        /// The plan.
        tier: String,
        /// All plans of limits that can be taken over.
        tiers: Vec<String>,
    },
    /// No limit can be taken over.
    #[error("no limit can be taken over:{}", .0.iter().map(|left| format!("\n  {left}")).collect::<String>())]
    Nothing(Vec<LeftOut>),
    /// The limits have no form in TOML.
    #[error(transparent)]
    Unwritable(#[from] toml::ser::Error),
}

#[derive(Debug, Serialize)]
struct File {
    resource: [Resource; 1],
}

#[derive(Debug, Serialize)]
struct Resource {
    name: Name,
    limit: Vec<Limit>,
}

#[derive(Debug, Serialize)]
struct Limit {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    algorithm: &'static str,
    capacity: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_to_live: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    key: Vec<&'static str>,
    #[serde(rename = "match", skip_serializing_if = "BTreeMap::is_empty")]
    matching: BTreeMap<&'static str, [String; 1]>,
}

/// The configuration with one limit for each that was harvested or probed.
///
/// A rate becomes a sliding window: whatever window the provider keeps, no stretch of its length
/// holds more calls.
///
/// # Errors
/// If the plan has to be named, or nothing can be taken over.
pub fn import(settings: &Settings, document: Document) -> Result<Imported, ImportError> {
    let tier = chosen_tier(settings, &document)?;
    let (mut limits, mut left_out) = (Vec::<Limit>::new(), Vec::new());
    for entry in document.entries {
        match limit(&entry, tier.as_deref()) {
            Ok(limit) => {
                let name = unused_name(&limits, &entry.name);
                limits.push(Limit { name, ..limit });
            }
            Err(reason) => left_out.push(LeftOut { name: entry.name, reason }),
        }
    }
    if limits.is_empty() {
        return Err(ImportError::Nothing(left_out));
    }
    let resource = Resource { name: settings.resource.clone(), limit: limits };
    Ok(Imported { configuration: toml::to_string(&File { resource: [resource] })?, left_out })
}

/// The plan whose limits count. Limits of `all` plans always do.
fn chosen_tier(settings: &Settings, document: &Document) -> Result<Option<String>, ImportError> {
    let usable = document.entries.iter().filter(|entry| entry.method_fault().is_none());
    let tiers: BTreeSet<&str> = usable.filter_map(Entry::own_tier).collect();
    let listed = || tiers.iter().map(|tier| (*tier).to_owned()).collect::<Vec<_>>();
    match &settings.tier {
        Some(tier) if !tiers.contains(&**tier) => Err(ImportError::NoTier { tier: tier.clone(), tiers: listed() }),
        None if tiers.len() > 1 => Err(ImportError::WhichTier(listed())),
        Some(tier) => Ok(Some(tier.clone())),
        None => Ok(tiers.first().map(|tier| (*tier).to_owned())),
    }
}

/// The limit without its name.
fn limit(entry: &Entry, tier: Option<&str>) -> Result<Limit, Reason> {
    if let Some(fault) = entry.method_fault() {
        return Err(fault);
    }
    if let Some(other) = entry.own_tier().filter(|own| Some(*own) != tier) {
        return Err(Reason::Tier(other.to_owned()));
    }
    let capacity = entry.ceiling()?;
    let (algorithm, unit, period, time_to_live) = match entry.counts()? {
        Counts::InFlight => ("concurrency", None, None, Some(TIME_TO_LIVE)),
        Counts::Rate { unit, period } => ("sliding-window", Some(unit), Some(period), None),
    };
    let (key, matching) = match entry.scope() {
        Scope::Account => (Vec::new(), BTreeMap::new()),
        Scope::Each(label) => (vec![label], BTreeMap::new()),
        Scope::Part => (Vec::new(), BTreeMap::from([(PART, [entry.name.clone()])])),
    };
    Ok(Limit { name: String::new(), unit, algorithm, capacity, period, time_to_live, key, matching })
}

/// An unused name with valid characters only.
fn unused_name(used: &[Limit], wanted: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' };
    let base: String = wanted.chars().map(plain).take(LONGEST_NAME - 4).collect();
    let base = if base.is_empty() { "limit".to_owned() } else { base };
    let is_free = |name: &String| used.iter().all(|limit| limit.name != *name);
    let mut names = std::iter::once(base.clone()).chain((2..).map(|number| format!("{base}-{number}")));
    names.find(is_free).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::document;

    fn imported(tier: Option<&str>, text: &str) -> Result<Imported, ImportError> {
        let settings = Settings { resource: Name::new("api").unwrap(), tier: tier.map(str::to_owned) };
        import(&settings, document(text).unwrap())
    }

    const TIERS: &str = "
method: harvested
limits:
  - { name: Free, tier: free, metric: requests_per_day, limit: 100, timeFrame: day }
  - { name: Pro, tier: pro, metric: requests_per_day, limit: 50000, timeFrame: day }
  - { name: In flight, tier: all, metric: concurrent-request, limit: 5 }
";

    #[test]
    fn each_limit_becomes_one_of_its_plan() {
        let imported = imported(Some("pro"), TIERS).unwrap();
        let expected = "[[resource]]\nname = \"api\"\n\n\
            [[resource.limit]]\nname = \"pro\"\nunit = \"requests\"\nalgorithm = \"sliding-window\"\n\
            capacity = 50000.0\nperiod = \"24h\"\n\n\
            [[resource.limit]]\nname = \"in-flight\"\nalgorithm = \"concurrency\"\ncapacity = 5.0\n\
            time_to_live = \"60s\"\n";
        assert_eq!(imported.configuration, expected);
        assert_eq!(imported.left_out, [LeftOut { name: "Free".to_owned(), reason: Reason::Tier("free".to_owned()) }]);
    }

    #[test]
    fn the_plan_has_to_be_named_if_there_are_several() {
        let error = |tier| imported(tier, TIERS).unwrap_err().to_string();
        assert_eq!(error(None), "these limits depend on the plan; pass `--tier` with one of free, pro");
        assert_eq!(error(Some("gold")), "no limit is of the tier `gold`; there are: free, pro");
    }

    #[test]
    fn users_and_parts_of_the_api_are_told_apart_by_labels() {
        let imported = imported(
            None,
            "
- { name: Each user, type: User, method: probed, metric: request, limit: 9, timeframe: hour }
- { name: Search requests, type: Endpoint, method: probed, metric: request, limit: 30, timeframe: minute }
- { name: Search requests, type: Platform, method: probed, metric: request, limit: 40, timeframe: hour }
",
        )
        .unwrap();
        let text = imported.configuration;
        assert!(text.contains("key = [\"user\"]"), "{text}");
        assert!(text.contains("endpoint = [\"Search requests\"]"), "{text}");
        assert!(text.contains("name = \"search-requests-2\""), "{text}");
    }

    #[test]
    fn a_limit_without_a_number_is_left_out() {
        let text = "
method: harvested
limits:
  - { name: Enterprise, metric: requests_per_day, limit: negotiated, timeFrame: day }
  - { name: Unknown, metric: requests_per_day, limit: null, timeFrame: day }
  - { name: Day, metric: requests_per_day, limit: 10, timeFrame: day }
";
        let left_out = imported(None, text).unwrap().left_out;
        let expected =
            ["Enterprise", "Unknown"].map(|name| LeftOut { name: name.to_owned(), reason: Reason::NoNumber });
        assert_eq!(left_out, expected);
    }

    #[test]
    fn a_document_of_guesses_gives_nothing() {
        let guesses = "
method: generated
limits:
  - { name: Free Tier Default, tier: free, metric: requests_per_minute, limit: 10, timeFrame: minute }
  - { name: Enterprise, tier: enterprise, metric: requests_per_minute, limit: 1000, timeFrame: minute }
";
        let error = imported(None, guesses).unwrap_err().to_string();
        let expected = "no limit can be taken over:\n  `Free Tier Default`: its method is `generated`\n  \
                        `Enterprise`: its method is `generated`";
        assert_eq!(error, expected);
        let bare = imported(None, "- { name: a, metric: request, limit: 1, timeframe: hour }").unwrap_err().to_string();
        assert!(bare.ends_with("`a`: it has no method, so that it may be a guess"), "{bare}");
    }
}
