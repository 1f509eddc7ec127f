//! Parsing of payloads: one message or an array.

use crate::bounds::MAX_BATCH;
use crate::id::PermitId;
use crate::object::Object;
use crate::plain_types::in_plain_types;
use crate::text::brief;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

/// A parsed payload. An invalid element of an array leaves the others valid.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming<T> {
    /// One message. An empty payload stands for `{}`.
    One(Result<T, Invalid>),
    /// An array of at most [`MAX_BATCH`] messages.
    Many(Vec<Result<T, Invalid>>),
}

/// Why a message violates the protocol: the field, and what would be valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The message's id, if it could be parsed.
    pub id: Option<PermitId>,
    /// Path of the field, such as `cost.requests`; absent if the whole message is wrong.
    pub field: Option<String>,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "`{field}`: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for Invalid {}

/// JSON's whitespace, which is less than ASCII's.
const JSON_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

impl<'a, T: Deserialize<'a>> Incoming<T> {
    /// Parses a payload of any bytes. Never panics; recursion is bounded.
    #[must_use]
    pub fn parse(payload: &'a [u8]) -> Self {
        let text = match std::str::from_utf8(payload) {
            Ok(text) => text.trim_start_matches(JSON_SPACE),
            Err(error) => return Incoming::One(Err(Invalid::whole(format!("not UTF-8: {error}")))),
        };
        match text.as_bytes().first() {
            None => Incoming::One(parse_one("{}")),
            Some(b'[') => parse_many(text),
            Some(_) => Incoming::One(parse_one(text)),
        }
    }

    /// Parses a payload that must not be an array; an array is refused with the reason `what`.
    pub(crate) fn parse_alone(payload: &'a [u8], what: &str) -> Result<T, Invalid> {
        match Incoming::parse(payload) {
            Incoming::One(message) => message,
            Incoming::Many(_) => Err(Invalid::whole(what.to_owned())),
        }
    }
}

fn parse_one<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Invalid> {
    match serde_json::from_str::<Object<T>>(text) {
        Ok(Object(message)) => Ok(message),
        Err(_) => Err(explain::<T>(text)),
    }
}

/// Parses the array as a whole, and element by element only if one is wrong.
fn parse_many<'a, T: Deserialize<'a>>(text: &'a str) -> Incoming<T> {
    let room = (text.len() / USUAL_ELEMENT).min(MAX_BATCH);
    let one_by_one = || read_array(text, 0, |element: &RawValue| parse_one(element.get()));
    match read_array(text, room, |Object(message)| Ok(message)).or_else(|_| one_by_one()) {
        Ok(all) => Incoming::Many(all),
        // Every JSON value is a valid element, so only the number of elements can be wrong.
        Err(error) if error.is_data() => {
            Incoming::One(Err(Invalid::whole(format!("an array has at most {MAX_BATCH} elements"))))
        }
        Err(error) => Incoming::One(Err(Invalid::whole(format!("not a JSON array: {error}")))),
    }
}

/// Bytes of a small element. Space for all is reserved at once, since growing copies large ones.
const USUAL_ELEMENT: usize = 80;

fn read_array<'a, T: Deserialize<'a>, U>(text: &'a str, room: usize, take: fn(T) -> U) -> serde_json::Result<Vec<U>> {
    let mut json = serde_json::Deserializer::from_str(text);
    let all = json.deserialize_seq(Elements { room, take })?;
    json.end().map(|()| all)
}

/// The elements of an array, up to [`MAX_BATCH`]: tiny ones take a hundred times their bytes.
struct Elements<T, U> {
    room: usize,
    take: fn(T) -> U,
}

impl<'de, T: Deserialize<'de>, U> Visitor<'de> for Elements<T, U> {
    type Value = Vec<U>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of at most {MAX_BATCH} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::with_capacity(self.room);
        while let Some(element) = sequence.next_element()? {
            if elements.len() == MAX_BATCH {
                return Err(serde::de::Error::invalid_length(MAX_BATCH + 1, &self));
            }
            elements.push((self.take)(element));
        }
        Ok(elements)
    }
}

/// Parses an invalid payload once more, slowly, to find the field.
fn explain<'a, T: Deserialize<'a>>(text: &'a str) -> Invalid {
    let mut json = serde_json::Deserializer::from_str(text);
    let id = readable_id(text);
    match serde_path_to_error::deserialize::<_, Object<T>>(&mut json) {
        Ok(_) => Invalid { id, ..Invalid::whole("there is something after the JSON object".to_owned()) },
        Err(error) => {
            let path = error.path().to_string();
            let error = error.into_inner();
            match path == "." && !error.is_data() {
                true => Invalid { id, ..Invalid::whole(format!("not a JSON object: {error}")) },
                false => Invalid {
                    id,
                    field: (path != ".").then(|| path[..path.floor_char_boundary(MAX_FIELD)].to_owned()),
                    reason: brief(&in_plain_types(&error.to_string())).into_owned(),
                },
            }
        }
    }
}

/// Returns the id of an invalid message, for the answer.
fn readable_id(text: &str) -> Option<PermitId> {
    #[derive(Deserialize)]
    struct OnlyId {
        id: PermitId,
    }
    serde_json::from_str::<OnlyId>(text).ok().map(|only| only.id)
}

/// Longest path in bytes; an answer needs space for the reason too.
const MAX_FIELD: usize = 150;

impl Invalid {
    pub(crate) fn whole(reason: String) -> Self {
        Invalid { id: None, field: None, reason }
    }
}
