//! The file of a preset.

use crate::{
    Amount, Dialect, Policy, Preset, RetryAfter, Rule, Unit,
    policy::text::read_duration,
    preset::{InvalidCalls, Pricing},
    refusal::Refusal,
    rule::{HeaderFamily, Sharing},
};
use serde::{Deserialize, Deserializer, de::Error};
use std::{
    collections::BTreeMap,
    io,
    num::{NonZeroU64, NonZeroUsize},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// The presets that ship, by name.
const SHIPPED: [(&str, &str); 6] = [
    ("anthropic", include_str!("../../presets/anthropic.toml")),
    ("discord", include_str!("../../presets/discord.toml")),
    ("github", include_str!("../../presets/github.toml")),
    ("ietf", include_str!("../../presets/ietf.toml")),
    ("openai", include_str!("../../presets/openai.toml")),
    ("shopify", include_str!("../../presets/shopify.toml")),
];

/// Why there is no such [`Preset`].
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// No preset that ships has this name.
    #[error("there is no preset `{name}`; there are {}; a file ends in `.toml`", Preset::NAMES.join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// The file of a preset can't be read.
    #[error("{}: this preset can't be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The text is no preset.
    #[error(transparent)]
    Invalid(#[from] toml::de::Error),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetTable {
    dialect: Parsed<Dialect>,
    concurrency: Option<NonZeroUsize>,
    #[serde(default)]
    refusal: RefusalTable,
    busy: Option<RefusalTable>,
    limit: Vec<RuleTable>,
    #[serde(default)]
    charge: BTreeMap<Parsed<Unit>, ChargeTable>,
    invalid: Option<InvalidTable>,
    silent_every: Option<NonZeroU64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RefusalTable {
    status: Option<u16>,
    retry_after: Option<Parsed<RetryAfter>>,
    at_least: Option<Parsed<Wait>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    limit: Parsed<Policy>,
    name: Option<String>,
    #[serde(default)]
    key: Vec<String>,
    #[serde(default, rename = "match")]
    matching: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    hidden: bool,
    family: Option<String>,
    rounded_to: Option<u32>,
    #[serde(default)]
    sharing: Sharing,
    refusal: Option<RefusalTable>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "`label`, `amounts` and `other`, or `sum`")]
enum ChargeTable {
    ByLabel { label: String, amounts: BTreeMap<String, u32>, other: u32 },
    Sum { sum: Vec<Parsed<Unit>> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidTable {
    limit: Parsed<Policy>,
    statuses: Vec<u16>,
    refusal: RefusalTable,
}

/// A value that is written as text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Parsed<T>(T);

/// A duration of a fixed length.
struct Wait(Duration);

impl Preset {
    /// The names of the presets that ship.
    pub const NAMES: [&str; SHIPPED.len()] = names();

    /// The preset of this name that ships.
    ///
    /// # Errors
    ///
    /// [`PresetError::Unknown`].
    pub fn named(name: &str) -> Result<Self, PresetError> {
        let shipped = SHIPPED.iter().find(|(known, _)| *known == name);
        shipped.ok_or_else(|| PresetError::Unknown { name: name.to_owned() })?.1.parse()
    }

    /// The preset of this name that ships; if the name ends in `.toml`, the one in that file, whose
    /// path begins at `folder`.
    ///
    /// # Errors
    ///
    /// If there is none, or the file can't be read or is no preset.
    pub fn open(name: &str, folder: &Path) -> Result<Self, PresetError> {
        if !name.ends_with(".toml") {
            return Self::named(name);
        }
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).map_err(|source| PresetError::Unreadable { path, source })?;
        text.parse()
    }
}

const fn names() -> [&'static str; SHIPPED.len()] {
    let mut names = [""; SHIPPED.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = SHIPPED[number].0;
        number += 1;
    }
    names
}

impl FromStr for Preset {
    type Err = PresetError;

    /// Reads the file of a preset, which is TOML.
    fn from_str(text: &str) -> Result<Self, PresetError> {
        let table: PresetTable = toml::from_str(text)?;
        Ok(Self {
            rules: table.limit.into_iter().map(RuleTable::rule).collect(),
            dialect: table.dialect.0,
            concurrency: table.concurrency,
            refusal: table.refusal.refusal(),
            busy: table.busy.map(|busy| busy.refusal()),
            charges: table.charge.into_iter().map(|(unit, charge)| (unit.0, charge.pricing())).collect(),
            invalid: table.invalid.map(InvalidTable::invalid),
            silent_every: table.silent_every,
        })
    }
}

impl RefusalTable {
    fn refusal(self) -> Refusal {
        let usual = Refusal::default();
        Refusal {
            status: self.status.unwrap_or(usual.status),
            retry_after: self.retry_after.map(|form| form.0),
            at_least: self.at_least.map_or(usual.at_least, |wait| wait.0.0),
        }
    }
}

impl RuleTable {
    fn rule(self) -> Rule {
        Rule {
            policy: self.limit.0,
            name: self.name,
            key: self.key,
            matching: self.matching,
            header_family: match (self.hidden, self.family) {
                (true, _) => HeaderFamily::Hidden,
                (false, Some(family)) => HeaderFamily::Named(family),
                (false, None) => HeaderFamily::Usual,
            },
            rounded_to: self.rounded_to.map(Amount::whole),
            sharing: self.sharing,
            refusal: self.refusal.map(RefusalTable::refusal),
        }
    }
}

impl ChargeTable {
    fn pricing(self) -> Pricing {
        match self {
            Self::ByLabel { label, amounts, other } => Pricing::ByLabel {
                label,
                amounts: amounts.into_iter().map(|(value, amount)| (value, Amount::whole(amount))).collect(),
                other: Amount::whole(other),
            },
            Self::Sum { sum } => Pricing::Sum(sum.into_iter().map(|unit| unit.0).collect()),
        }
    }
}

impl InvalidTable {
    fn invalid(self) -> InvalidCalls {
        InvalidCalls { policy: self.limit.0, statuses: self.statuses, refusal: self.refusal.refusal() }
    }
}

impl<'de, T: FromStr<Err: std::error::Error>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(D::Error::custom)
    }
}

impl FromStr for Wait {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        read_duration(text).and_then(Duration::try_from).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_presets_that_ship_are_valid() {
        for name in Preset::NAMES {
            let preset = Preset::named(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(preset.dialect.name(), name);
        }
        let error = Preset::named("gitlab").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no preset `gitlab`; there are anthropic, discord, github, ietf, openai, shopify; a file ends in `.toml`"
        );
    }

    #[test]
    fn faults_of_a_preset_are_told_with_their_place() {
        let valid = "dialect = \"plain\"\n[[limit]]\nlimit = \"requests=1/1s\"\n";
        assert!(valid.parse::<Preset>().is_ok());
        #[rustfmt::skip]
        let table = [
            ("plain",           "klingon",              "there is no dialect `klingon`"),
            ("requests=1/1s",   "requests=1",           "`requests=1` is not unit=capacity/period"),
            ("[[limit]]",       "limits = 1\n[[limit]]", "unknown field `limits`"),
            ("[[limit]]",       "busy = { at_least = \"soon\" }\n[[limit]]", "soon"),
            ("[[limit]]",       "charge.points = { amount = 1 }\n[[limit]]", "`label`, `amounts` and `other`, or `sum`"),
        ];
        for (before, after, reason) in table {
            let error = valid.replacen(before, after, 1).parse::<Preset>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("line"), "{error}");
        }
    }
}
