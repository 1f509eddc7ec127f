//! Ids of permits.

use crate::bounds::MAX_ID;
use crate::text::Text;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use uuid::{Builder, Uuid};

/// The id of a permit: 1 to 64 characters of `[A-Za-z0-9_.:-]`. Cloning is cheap, and a UUID needs no allocation.
///
/// ```
/// use rampmeter_protocol::id::PermitId;
/// assert!(PermitId::new("0199a7c2-5d1e-7000-8000-000000000001").is_ok());
/// assert!(PermitId::new("two words").is_err());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PermitId(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE] },
    Shared(Arc<str>),
}

/// Longest id without an allocation. Length and variant take the other two of 40 bytes.
const INLINE: usize = 38;

/// The text is not a permit's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id is 1 to 64 characters of [A-Za-z0-9_.:-]")]
pub struct PermitIdError;

impl PermitId {
    /// Checks `id`.
    ///
    /// # Errors
    /// If it is empty, too long, or contains another character.
    pub fn new(id: &str) -> Result<Self, PermitIdError> {
        let fits = (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| IS_ID_BYTE[usize::from(byte)]);
        if fits { Ok(PermitId(Repr::of(id))) } else { Err(PermitIdError) }
    }

    /// Returns the random UUID (version 4, RFC 9562) made of 122 of these bits. An id is a bearer secret that allows to
    /// settle, cancel and read the permit, so the bits must come from a source that no other process can guess.
    ///
    /// ```
    /// use rampmeter_protocol::id::PermitId;
    /// assert_eq!(PermitId::secret(u128::MAX).as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    /// ```
    #[must_use]
    pub fn secret(bits: u128) -> Self {
        Self::from(Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("ids are ASCII")
    }

    fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Shared(id) => id.as_bytes(),
        }
    }
}

impl From<Uuid> for PermitId {
    fn from(id: Uuid) -> Self {
        PermitId(Repr::of(id.hyphenated().encode_lower(&mut Uuid::encode_buffer())))
    }
}

impl Repr {
    fn of(id: &str) -> Self {
        let mut bytes = [0; INLINE];
        match bytes.get_mut(..id.len()) {
            Some(place) => {
                place.copy_from_slice(id.as_bytes());
                Repr::Inline { len: id.len() as u8, bytes }
            }
            None => Repr::Shared(id.into()),
        }
    }
}

/// The bytes that an id may have, as a table because ids are checked for every message.
const IS_ID_BYTE: [bool; 256] = {
    let mut is = [false; 256];
    let mut byte = 0_u8;
    while byte.is_ascii() {
        is[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
        byte += 1;
    }
    is
};

impl PartialOrd for PermitId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PermitId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for PermitId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for PermitId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for PermitId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = Text::deserialize(deserializer)?;
        PermitId::new(&id).map_err(serde::de::Error::custom)
    }
}
