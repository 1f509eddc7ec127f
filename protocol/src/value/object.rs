//! JSON objects, and only objects.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A `T` written as a JSON object; serde's derived structs also accept an array of their fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Reads an object as pairs. `what` describes it in the error for another type.
///
/// # Errors
/// If a key occurs twice, if there are more than `most` pairs, or if `check` rejects a pair.
pub fn pairs<'de, D, K, V>(
    deserializer: D,
    what: &'static str,
    most: usize,
    check: impl Fn(&K, &V) -> Result<(), String>,
) -> Result<Vec<(K, V)>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + PartialEq + fmt::Display,
    V: Deserialize<'de>,
{
    deserializer.deserialize_map(PairsVisitor { what, most, check, pairs: PhantomData })
}

struct PairsVisitor<C, K, V> {
    what: &'static str,
    most: usize,
    check: C,
    pairs: PhantomData<(K, V)>,
}

impl<'de, C, K, V> Visitor<'de> for PairsVisitor<C, K, V>
where
    C: Fn(&K, &V) -> Result<(), String>,
    K: Deserialize<'de> + PartialEq + fmt::Display,
    V: Deserialize<'de>,
{
    type Value = Vec<(K, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let PairsVisitor { most, check, .. } = self;
        let mut pairs: Vec<(K, V)> = Vec::with_capacity(map.size_hint().unwrap_or(2).min(most));
        while let Some((key, value)) = map.next_entry::<K, V>()? {
            if pairs.len() == most {
                return Err(A::Error::custom(format!("at most {most} entries")));
            }
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(A::Error::custom(format!("`{key}` is given twice")));
            }
            check(&key, &value).map_err(A::Error::custom)?;
            pairs.push((key, value));
        }
        Ok(pairs)
    }
}
