//! Names of permits.

use crate::bounds::MAX_ID;
use crate::text::Text;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The name of a permit: 1 to 64 characters of `[A-Za-z0-9_.:-]`. Cheap to clone.
///
/// ```
/// use rampmeter_protocol::id::PermitId;
/// assert!(PermitId::new("0199a7c2-5d1e-7000-8000-000000000001").is_ok());
/// assert!(PermitId::new("two words").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId(Arc<str>);

/// A text that is not a permit's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id is 1 to 64 characters of [A-Za-z0-9_.:-]")]
pub struct PermitIdError;

impl PermitId {
    /// Checks `id`.
    ///
    /// # Errors
    /// If it is empty, too long, or has another character.
    pub fn new(id: &str) -> Result<Self, PermitIdError> {
        let fits = (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_id_byte);
        if fits { Ok(PermitId(id.into())) } else { Err(PermitIdError) }
    }

    /// The id that a scheduler gives the `serial`th request that came without one in `epoch`.
    #[must_use]
    pub fn generated(epoch: u64, serial: u64) -> Self {
        PermitId(format!("{epoch}.{serial}").into())
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-')
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for PermitId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for PermitId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for PermitId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = Text::deserialize(deserializer)?;
        PermitId::new(&id).map_err(serde::de::Error::custom)
    }
}
