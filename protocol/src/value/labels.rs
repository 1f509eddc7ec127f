//! Labels of a request.

use crate::bounds::{MAX_LABEL_KEY, MAX_LABEL_VALUE, MAX_LABELS};
use crate::object::pairs;
use crate::text::Text;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The label that names one of the accounts of a resource.
pub const ACCOUNT: &str = "account";

/// Strings by key for limits and fair sharing: at most 16, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels<'a>(Vec<(Text<'a>, Text<'a>)>);

/// A label exceeds a bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LabelsError(String);

impl<'a> Labels<'a> {
    /// Creates an empty set of labels.
    #[must_use]
    pub const fn new() -> Self {
        Labels(Vec::new())
    }

    /// Sets a label.
    ///
    /// # Errors
    /// If the key or the value is too long, or this would be the 17th label.
    pub fn set(&mut self, key: impl Into<Text<'a>>, value: impl Into<Text<'a>>) -> Result<(), LabelsError> {
        let (key, value) = (key.into(), value.into());
        within_bounds(&key, &value).map_err(LabelsError)?;
        if let Some(known) = self.0.iter_mut().find(|(known, _)| *known == key) {
            known.1 = value;
            return Ok(());
        }
        if self.0.len() == MAX_LABELS {
            return Err(LabelsError(format!("at most {MAX_LABELS} labels")));
        }
        self.0.push((key, value));
        Ok(())
    }

    /// Returns these labels with another one, even beyond their bound.
    #[must_use]
    pub fn with(mut self, key: &'a str, value: impl Into<Text<'a>>) -> Self {
        self.0.retain(|(known, _)| **known != *key);
        self.0.push((key.into(), value.into()));
        self
    }

    /// Returns these labels replaced by those of `other`, even beyond their bound. An empty value leaves a label out.
    #[must_use]
    pub fn replaced_by(mut self, other: &Labels<'a>) -> Self {
        self.0.retain(|(key, _)| other.get(key).is_none());
        self.0.extend(other.0.iter().filter(|(_, value)| !value.is_empty()).cloned());
        self
    }

    /// Returns the value of the label `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| &**known == key).map(|(_, value)| &**value)
    }

    /// Iterates over the labels and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Returns whether there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Copies what the labels borrow from their message.
    #[must_use]
    pub fn into_owned(self) -> Labels<'static> {
        Labels(self.0.into_iter().map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }
}

impl Serialize for Labels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Labels<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        at_most(MAX_LABELS, deserializer)
    }
}

/// Reads the labels of a request and of its way, and the account that makes its call.
pub(crate) fn with_account<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Labels<'a>, D::Error> {
    at_most(2 * MAX_LABELS + 1, deserializer)
}

fn at_most<'de: 'a, 'a, D: Deserializer<'de>>(most: usize, deserializer: D) -> Result<Labels<'a>, D::Error> {
    let check = |key: &Text, value: &Text| within_bounds(key, value);
    pairs(deserializer, "an object of strings by label", most, check).map(Labels)
}

fn within_bounds(key: &str, value: &str) -> Result<(), String> {
    if !(1..=MAX_LABEL_KEY).contains(&key.chars().count()) {
        return Err(format!("a label's key has 1 to {MAX_LABEL_KEY} characters"));
    }
    if value.chars().count() > MAX_LABEL_VALUE {
        return Err(format!("the value of label `{key}` has more than {MAX_LABEL_VALUE} characters"));
    }
    Ok(())
}
