//! Reading a payload: one message or an array of them.

use crate::bounds::MAX_BATCH;
use crate::id::PermitId;
use crate::object::Object;
use crate::plain_types::in_plain_types;
use crate::text::brief;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;
use std::marker::PhantomData;

/// The content of a payload. A wrong element of an array leaves the other elements valid.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming<T> {
    /// One message, or an empty payload, which stands for `{}`.
    One(Result<T, Invalid>),
    /// An array of at most [`MAX_BATCH`] messages.
    Many(Vec<Result<T, Invalid>>),
}

/// Why a message does not follow the protocol: the field, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The message's id, if it could be read.
    pub id: Option<PermitId>,
    /// Path of the field, such as `cost.requests`; absent if the message as a whole is wrong.
    pub field: Option<String>,
    /// What is wrong with it.
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

/// The whitespace of JSON, which is less than ASCII's.
const JSON_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

impl<'a, T: Deserialize<'a>> Incoming<T> {
    /// Reads a payload of any bytes. Never panics; recursion is bounded.
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

    /// Reads a payload that must not be an array; an array is refused with the reason `what`.
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

/// Reads an array in one go, and element by element only if one is wrong.
fn parse_many<'a, T: Deserialize<'a>>(text: &'a str) -> Incoming<T> {
    match serde_json::from_str::<Batch<Object<T>>>(text) {
        Ok(Batch(all)) => Incoming::Many(all.into_iter().map(|Object(message)| Ok(message)).collect()),
        Err(_) => parse_each(text),
    }
}

fn parse_each<'a, T: Deserialize<'a>>(text: &'a str) -> Incoming<T> {
    match serde_json::from_str::<Batch<&'a RawValue>>(text) {
        Ok(Batch(all)) => Incoming::Many(all.into_iter().map(|element| parse_one(element.get())).collect()),
        // Every JSON value is a valid element, so only the number of elements can be wrong.
        Err(error) if error.is_data() => {
            Incoming::One(Err(Invalid::whole(format!("an array has at most {MAX_BATCH} elements"))))
        }
        Err(error) => Incoming::One(Err(Invalid::whole(format!("not a JSON array: {error}")))),
    }
}

/// An array of at most [`MAX_BATCH`] elements. A longer array is read no further: elements of three
/// bytes would take a hundred times as much memory as the message.
struct Batch<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Batch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BatchVisitor(PhantomData))
    }
}

struct BatchVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BatchVisitor<T> {
    type Value = Batch<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of at most {MAX_BATCH} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            if elements.len() == MAX_BATCH {
                return Err(serde::de::Error::invalid_length(MAX_BATCH + 1, &self));
            }
            elements.push(element);
        }
        Ok(Batch(elements))
    }
}

/// Reads a wrong payload once more, slowly, to find the field.
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

/// The id of a wrong message, so that the answer can name it.
fn readable_id(text: &str) -> Option<PermitId> {
    #[derive(Deserialize)]
    struct OnlyId {
        id: PermitId,
    }
    serde_json::from_str::<OnlyId>(text).ok().map(|only| only.id)
}

/// The most bytes of a path: an answer has room for the reason, too.
const MAX_FIELD: usize = 150;

impl Invalid {
    pub(crate) fn whole(reason: String) -> Self {
        Invalid { id: None, field: None, reason }
    }
}
