//! Names that people choose: resources, units, classes, limits.

use crate::bounds::MAX_NAME;
use crate::text::Text;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A name of 1 to 64 characters of `[A-Za-z0-9_-]`, valid in subjects, KV keys and metric labels. Cloning is cheap.
///
/// ```
/// use rampmeter_protocol::name::Name;
/// assert_eq!(&*Name::new("sentinel-hub").unwrap(), "sentinel-hub");
/// assert!(Name::new("sentinel.hub").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// The text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name is 1 to 64 characters of [A-Za-z0-9_-]")]
pub struct NameError;

impl Name {
    /// Checks `name`.
    ///
    /// # Errors
    /// If it is empty, too long, or contains another character.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let fits = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_name_byte);
        if fits { Ok(Name(name.into())) } else { Err(NameError) }
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Name::new(name)
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Text::deserialize(deserializer)?;
        Name::new(&name).map_err(serde::de::Error::custom)
    }
}
