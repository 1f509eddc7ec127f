//! The names that serde reads, from the code that it has derived.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;
use std::fmt;

/// The fields of a struct, or the variants of an enum, as messages have them.
pub(crate) fn names<T: Deserialize<'static>>() -> &'static [&'static str] {
    match T::deserialize(Listing) {
        Err(Listed(names)) if !names.is_empty() => names,
        Err(Listed(_)) | Ok(_) => panic!("{} tells serde no names", std::any::type_name::<T>()),
    }
}

/// A deserializer that reads nothing. It only records the names that serde asks for.
struct Listing;

#[derive(Debug)]
struct Listed(&'static [&'static str]);

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

impl std::error::Error for Listed {}

impl Error for Listed {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Listed(&[])
    }
}

impl<'de> Deserializer<'de> for Listing {
    type Error = Listed;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Listed> {
        Err(Listed(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Listed> {
        Err(Listed(fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Listed> {
        Err(Listed(variants))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}
