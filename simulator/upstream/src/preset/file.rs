//! The file of a preset.

use crate::Preset;
use std::{
    io,
    path::{Path, PathBuf},
    str::FromStr,
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
    #[error("there is no preset `{name}`; there are {}; a file ends in `.toml`", Preset::names().collect::<Vec<_>>().join(", "))]
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

impl Preset {
    /// The names of the presets that ship.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

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

impl FromStr for Preset {
    type Err = PresetError;

    /// Reads the file of a preset, which is TOML.
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
