//! Strings that borrow from their message.

use serde::{Deserialize, Deserializer, Serialize, de::Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A string of a message, borrowed unless it has escapes there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Text<'a>(pub Cow<'a, str>);

/// Longest text for people, in bytes, in an answer or log line that may quote its sender.
pub const MAX_BRIEF: usize = 300;

/// Cuts a text to one line of at most [`MAX_BRIEF`] bytes, which ends in `…` if anything is cut.
///
/// ```
/// # use rampmeter_protocol::text::brief;
/// assert_eq!(brief("too\r\nlong"), "too  long");
/// assert_eq!(brief(&"ü".repeat(200)), "ü".repeat(148) + "…");
/// ```
#[must_use]
pub fn brief(text: &str) -> Cow<'_, str> {
    let is_long = text.len() > MAX_BRIEF;
    if !is_long && !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let end = if is_long { text.floor_char_boundary(MAX_BRIEF - '…'.len_utf8()) } else { text.len() };
    let line = text[..end].chars().map(|c| if c.is_control() { ' ' } else { c });
    line.chain(is_long.then_some('…')).collect()
}

impl Text<'_> {
    /// [Cuts](brief) the text.
    #[must_use]
    pub fn brief(self) -> Self {
        match brief(&self) {
            Cow::Owned(cut) => Text(Cow::Owned(cut)),
            Cow::Borrowed(_) => self,
        }
    }

    /// Copies the text if it is borrowed from its message.
    #[must_use]
    pub fn into_owned(self) -> Text<'static> {
        Text(Cow::Owned(self.0.into_owned()))
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Text(Cow::Borrowed(text))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text(Cow::Owned(text))
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Reads a borrowed text; serde borrows a bare `Cow`, but not one inside an `Option`.
struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text::from(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text::from(text.to_owned()))
    }
}
