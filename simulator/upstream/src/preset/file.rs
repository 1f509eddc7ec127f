//! The files of presets.

use crate::Preset;
use std::{
    io,
    path::{Path, PathBuf},
    str::FromStr,
};

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
    /// No shipped preset has this name.
    #[error("there is no preset `{name}`; there are {}; a file ends in `.toml`", Preset::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// The file of a preset cannot be read.
    #[error("{}: this preset can't be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The text is not a valid preset.
    #[error(transparent)]
    Invalid(#[from] toml::de::Error),
}

impl Preset {
    /// Iterates over the names of the shipped presets.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Returns the shipped preset of this name.
    ///
    /// # Errors
    /// [`PresetError::Unknown`].
    pub fn named(name: &str) -> Result<Self, PresetError> {
        let shipped = SHIPPED.iter().find(|(known, _)| *known == name);
        shipped.ok_or_else(|| PresetError::Unknown { name: name.to_owned() })?.1.parse()
    }

    /// Returns the shipped preset of this name, or the one in the file `name`, relative to
    /// `folder`, if it ends in `.toml`.
    ///
    /// # Errors
    /// If there is none, or the file cannot be read or is not a preset.
    pub fn open(name: &str, folder: &Path) -> Result<Self, PresetError> {
        if !name.ends_with(".toml") {
            return Self::named(name);
        }
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).map_err(|source| PresetError::Unreadable { path, source })?;
        text.parse()
    }
}

impl FromStr for Preset {
    type Err = PresetError;

    /// Parses the TOML of a preset's file.
    fn from_str(text: &str) -> Result<Self, PresetError> {
        Ok(toml::from_str(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_presets_that_ship_are_valid() {
        for name in Preset::names() {
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
            ("[[limit]]",       "headers = { x-left = \"<rest>\" }\n[[limit]]", "`<rest>` may have these in <>"),
            ("[[limit]]",       "busy = { at_least = \"soon\" }\n[[limit]]", "soon"),
            ("[[limit]]",       "charge.points = { amount = 1 }\n[[limit]]", "`label`, `amounts` and `other`, or `sum`"),
        ];
        for (before, after, reason) in table {
            let error = valid.replacen(before, after, 1).parse::<Preset>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("line"), "{error}");
        }
    }
}
